/* logits: docs/arithmetic.md 3.10. */
#include "matrices.h"
#include "ops.h"

/* A bit for each row of a panel that has a token and that a span allows. Its mask ends with the last token. */
static uint32_t allowed_rows(const sslm_job *job, const sslm_span *span, int32_t panel)
{
    int32_t rest = job->program->token_count - panel * SSLM_PANEL_ROWS;
    if (rest <= 0) return 0;
    uint32_t known = rest < SSLM_PANEL_ROWS ? (1u << rest) - 1 : 0xffff;
    return span->allowed == NULL ? known : span->allowed[panel / 2] >> panel % 2 * SSLM_PANEL_ROWS & known;
}

/* Rows of a panel that the op computes. */
static int32_t row_count_of(const sslm_op *op, int32_t panel)
{
    int32_t rest = op->last_row - panel * SSLM_PANEL_ROWS;
    return rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
}

/* Where the logits of a panel go, for a row of the run. */
static int64_t *logits_of(const sslm_job *job, int32_t row, int32_t panel)
{
    const sslm_row *place = &job->rows[row];
    size_t logits_row = (size_t)(place->index - place->span->first_logits_row);
    return place->span->logits + logits_row * (size_t)job->program->vocab_size + (size_t)panel * SSLM_PANEL_ROWS;
}

/* Ids that are not allowed have no logit. */
static void leave_out(int64_t *logits, int32_t count, uint32_t allowed)
{
    for (int32_t n = 0; n < count; n++)
        if ((allowed >> n & 1) == 0) logits[n] = INT64_MIN;
}

static void finish_panel(const sslm_products *products, int32_t panel, int32_t first, int32_t row_count,
                         const int32_t *high, const int32_t *low)
{
    const sslm_job *job = products->job;
    int32_t count = row_count_of(job->op, panel);
    const int32_t *mantissas = job->op->matrix.mantissas + panel * SSLM_PANEL_ROWS;
    for (int32_t i = 0; i < row_count; i++, high += SSLM_PANEL_ROWS, low += SSLM_PANEL_ROWS) {
        int32_t row = products->picked[first + i];
        int64_t *out = logits_of(job, row, panel);
        for (int32_t n = 0; n < count; n++) out[n] = (256 * (int64_t)high[n] + low[n]) * mantissas[n];
        uint32_t allowed = allowed_rows(job, job->rows[row].span, panel);
        if (allowed != 0xffff) leave_out(out, count, allowed);
    }
}

static void finish_logits(const sslm_products *products, const sslm_sums *sums)
{
    finish_each_panel(products, sums, finish_panel);
}

static int is_any_allowed(const sslm_job *job, int32_t panel)
{
    for (int32_t i = 0; i < job->picked_count; i++)
        if (allowed_rows(job, job->rows[job->picked[i]].span, panel) != 0) return 1;
    return 0;
}

static void skip_panel(const sslm_job *job, int32_t panel)
{
    for (int32_t i = 0; i < job->picked_count; i++)
        leave_out(logits_of(job, job->picked[i], panel), row_count_of(job->op, panel), 0);
}

/* What the logits of the picked rows stand for. */
static void write_exponents(const sslm_job *job)
{
    for (int32_t i = 0; i < job->picked_count; i++) {
        const sslm_row *place = &job->rows[job->picked[i]];
        const sslm_span *span = place->span;
        if (span->logit_exponents == NULL) continue;
        int32_t exponent = job->source.code_rows[job->picked[i]].exponent;
        span->logit_exponents[place->index - span->first_logits_row] = exponent - job->op->matrix.exponent;
    }
}

void TIERED(sslm_logits)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    sslm_products products = {
        .job = job,
        .picked = job->picked,
        .picked_count = job->picked_count,
        .finish = finish_logits,
        .thread = thread,
    };
    if (first == 0) write_exponents(job);
    int32_t first_panel = job->op->first_row / SSLM_PANEL_ROWS;
    int32_t panel = first_panel + first, last_panel = first_panel + last;
    while (panel < last_panel) {
        int32_t start = panel;
        while (panel < last_panel && is_any_allowed(job, panel)) panel++;
        if (panel > start) multiply_matrix(&products, start, panel);
        for (; panel < last_panel && !is_any_allowed(job, panel); panel++) skip_panel(job, panel);
    }
}
