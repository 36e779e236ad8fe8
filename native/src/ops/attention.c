/* attention: docs/arithmetic.md 3.7. */
#include "attention.h"
#include "ops.h"

/* A row, and the query heads of one key/value head that attend together from it. */
typedef struct {
    sslm_head_place keys;
    int32_t first_key;           /* visible positions */
    int32_t last_key;            /* included */
    int32_t value_exponent;      /* E */
    sslm_row_heads *row;
} row_place;

static int32_t first_page(const row_place *at)
{
    return at->first_key / SSLM_PAGE_TOKENS;
}

static int32_t last_page(const row_place *at)
{
    return at->last_key / SSLM_PAGE_TOKENS;
}

/* Pages are visited in this order: those of a head's keys, those of its values, those of the next head's keys. This is
 * the number of a first one. */
static int32_t first_visit(const row_place *at, int32_t state)
{
    int32_t count = last_page(at) + 1 - first_page(at);
    return (2 * (int32_t)at->keys.kv_head + (state == at->keys.job->op->values)) * count;
}

/* The codes that are read some visits after a page of a state; of a last head's, any. */
static const int16_t *codes_ahead(const row_place *at, int32_t state, int32_t page, int32_t ahead)
{
    const sslm_op *op = at->keys.job->op;
    int32_t count = last_page(at) + 1 - first_page(at);
    sslm_head_place place = at->keys;
    for (page += ahead; page > last_page(at); page -= count) {
        int32_t is_keys = state == op->state;
        place.kv_head += !is_keys && place.kv_head + 1 < (size_t)place.job->program->states[state].head_count;
        state = is_keys ? op->values : op->state;
    }
    return page_codes(&place, state, page);
}

static sslm_row_page page_of(const row_place *at, int32_t state, int32_t page)
{
    const sslm_job *job = at->keys.job;
    uint32_t visit = (uint32_t)(first_visit(at, state) + page - first_page(at));
    int32_t turn = (int32_t)(visit % SSLM_FAR_PAGES), part = SSLM_PAGE_TOKENS / SSLM_FAR_PAGES * at->keys.head_dim;
    sslm_row_page found = {
        .codes = page_codes(&at->keys, state, page),
        .exponents = page_exponents(&at->keys, state, page),
        .near = codes_ahead(at, state, page, 1),
        .score_start = (page - first_page(at)) * SSLM_PAGE_TOKENS,
        .head_dim = at->keys.head_dim,
        .value_exponent = at->value_exponent,
        .nodes = job->program->pow2_nodes,
    };
    /* Each of some visits asks for a part of all the pages that as many visits after them read. */
    for (int32_t i = 0; i < SSLM_FAR_PAGES; i++)
        found.far[i] = codes_ahead(at, state, page, SSLM_FAR_PAGES - turn + i) + turn * part;
    clip_page(page, at->first_key, at->last_key, &found.first, &found.last);
    return found;
}

static void start_head(const row_place *at, sslm_row_head *head, const int32_t *x)
{
    int32_t head_dim = at->keys.head_dim;
    query_shifts shifts = TIERED(sslm_quantize_query)(at->keys.job, x, head_dim, head->codes);
    head->sum_shift = shifts.sums;
    head->score_shift = shifts.scores;
    head->largest = INT32_MIN;
    head->denominator = 0;
    memset(head->numerators, 0, sizeof head->numerators);
}

static void score_head_any(sslm_row_head *head, const sslm_row_page *page)
{
    int32_t shift = head->score_shift + head->sum_shift + 1;
    for (int32_t token = page->first; token < page->last; token++) {
        const int16_t *key = page->codes + (size_t)token * (size_t)page->head_dim;
        int32_t score = score_any(head->codes, key, page->head_dim, shift - page->exponents[token]);
        head->scores[page->score_start + token] = score;
        head->largest = score > head->largest ? score : head->largest;
    }
}

/* sslm_score_row for any scores and shifts: only models that were made for it come here. */
static void score_row_any(sslm_row_heads *row, const sslm_row_page *page)
{
    for (int32_t i = 0; i < row->head_count; i++) score_head_any(&row->heads[i], page);
}

/* Whether sslm_score_row may be asked for the scores of keys up to an exponent. */
static int can_shift(const sslm_row_heads *row, int32_t key_exponent)
{
    int can = 1;
    for (int32_t i = 0; i < row->head_count; i++) can &= row->heads[i].score_shift >= key_exponent;
    return can;
}

/* Steps 1 and 2, and E. */
static void score_pages(row_place *at)
{
    const sslm_op *op = at->keys.job->op;
    at->value_exponent = 0;
    TIERED(sslm_start_scores)(at->row, at->keys.head_dim);
    for (int32_t page = first_page(at); page <= last_page(at); page++) {
        sslm_row_page keys = page_of(at, op->state, page);
        int32_t ahead = page + SSLM_FAR_PAGES < last_page(at) ? page + SSLM_FAR_PAGES : last_page(at);
        __builtin_prefetch(page_exponents(&at->keys, op->state, ahead));
        __builtin_prefetch(page_exponents(&at->keys, op->values, ahead));
        int32_t key_exponent = largest_exponent(keys.exponents, keys.first, keys.last);
        const uint8_t *exponents = page_exponents(&at->keys, op->values, page);
        int32_t value_exponent = largest_exponent(exponents, keys.first, keys.last);
        at->value_exponent = value_exponent > at->value_exponent ? value_exponent : at->value_exponent;
        if (can_shift(at->row, key_exponent)) TIERED(sslm_score_row)(at->row, &keys);
        else score_row_any(at->row, &keys);
    }
    TIERED(sslm_end_scores)();
}

static void attend_pages(const row_place *at)
{
    for (int32_t page = first_page(at); page <= last_page(at); page++) {
        sslm_row_page values = page_of(at, at->keys.job->op->values, page);
        TIERED(sslm_attend_row)(at->row, &values);
    }
}

static void attend_row(const sslm_job *job, size_t kv_head, int32_t row, sslm_thread *thread)
{
    const sslm_state *keys = &job->program->states[job->op->state];
    sslm_row_heads together;
    row_place at = {
        .keys = {.job = job, .span = job->rows[row].span, .kv_head = kv_head, .head_dim = keys->head_dim},
        .first_key = first_key(job, row),
        .last_key = job->rows[row].position,
        .row = &together,
    };
    together.packed = thread->tile->heads[0].packed;
    int32_t group = job->op->heads.head_count / keys->head_count, first_head = (int32_t)kv_head * group;
    size_t scores = (size_t)(last_page(&at) - first_page(&at) + 1) * SSLM_PAGE_TOKENS;
    for (int32_t done = 0; done < group; done += together.head_count) {
        together.head_count = group - done < SSLM_ROW_HEADS_MAX ? group - done : SSLM_ROW_HEADS_MAX;
        size_t start = (size_t)(first_head + done) * (size_t)keys->head_dim;
        for (int32_t i = 0; i < together.head_count; i++) {
            together.heads[i].scores = thread->scores + (size_t)i * scores;
            start_head(&at, &together.heads[i], int32_row(&job->source, row) + start + i * keys->head_dim);
        }
        score_pages(&at);
        attend_pages(&at);
        for (int32_t i = 0; i < together.head_count; i++)
            site_counts(job, thread)[row] +=
                TIERED(sslm_divide_row)(&together.heads[i], keys->head_dim, at.value_exponent,
                                        int32_row(&job->out, row) + start + i * keys->head_dim);
    }
}

void TIERED(sslm_attention)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    int32_t heads = job->program->states[job->op->state].head_count, item = 0;
    TIERED(sslm_forget_pages)(thread);
    /* Tiles of a head follow each other, since they read the same pages. */
    for (int32_t head = 0; head < heads; head++) {
        for (int32_t row = 0, count; row < job->row_count; row += count, item++) {
            count = tile_row_count(job, row);
            if (item < first || item >= last) continue;
            if (count >= SSLM_TILED_ROWS_MIN) {
                TIERED(sslm_attend_tile)(job, (size_t)head, row, count, thread);
            } else {
                for (int32_t i = row; i < row + count; i++) attend_row(job, (size_t)head, i, thread);
            }
        }
    }
}
