/* logits: docs/arithmetic.md 3.10. */
#include "ops.h"
#include "matrices.h"

static void finish_panel(const sslm_products *products, int32_t panel, int32_t first, int32_t row_count,
                         const int32_t *high, const int32_t *low)
{
    const sslm_job *job = products->job;
    int32_t first_row = panel * SSLM_PANEL_ROWS;
    int32_t rest = job->op->last_row - first_row;
    int32_t count = rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
    const int32_t *mantissas = job->op->matrix.mantissas + first_row;
    for (int32_t i = 0; i < row_count; i++, high += SSLM_PANEL_ROWS, low += SSLM_PANEL_ROWS) {
        const sslm_row *place = &job->rows[products->picked[first + i]];
        size_t logits_row = (size_t)(place->index - place->span->first_logits_row);
        int64_t *out = place->span->logits + logits_row * (size_t)job->program->vocab_size + first_row;
        for (int32_t n = 0; n < count; n++) out[n] = (256 * (int64_t)high[n] + low[n]) * mantissas[n];
    }
}

static void finish_logits(const sslm_products *products, const sslm_sums *sums)
{
    for (int32_t p = 0; p < sums->panel_count; p++) {
        size_t further = (size_t)p * sums->next_panel;
        finish_panel(products, sums->panel + p, sums->first, sums->row_count, sums->high + further,
                     sums->low + further);
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
    int32_t first_panel = job->op->first_row / SSLM_PANEL_ROWS;
    multiply_matrix(&products, first_panel + first, first_panel + last);
}
