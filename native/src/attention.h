/* The inner loops of attention: for a row at a time, and for tiles of rows. */
#ifndef SSLM_ATTENTION_H
#define SSLM_ATTENTION_H

#include "inner.h"
#include "tiles.h"

/* Keys this far below the largest score, in powers of two with 16 fraction bits, have sums of their own. */
#define SSLM_FAR (8u << 16)

/* From this many rows on, a tile is faster than one row after the other. */
#ifndef SSLM_TILED_ROWS_MIN
#define SSLM_TILED_ROWS_MIN 6
#endif

/* A key/value head of a sequence. */
typedef struct {
    const sslm_job *job;
    const sslm_span *span;
    size_t kv_head;
    int32_t head_dim;
} sslm_head_place;

/* The head's codes in a page of keys or values. */
static inline const int16_t *page_codes(const sslm_head_place *at, int32_t state, int32_t page)
{
    size_t head_size = SSLM_PAGE_TOKENS * (size_t)at->head_dim;
    const void *codes = state_page(at->job, at->span, state, page);
    return (const int16_t *)codes + at->kv_head * head_size;
}

/* Where there is no token yet, there may be any number. */
static inline const uint8_t *page_exponents(const sslm_head_place *at, int32_t state, int32_t page)
{
    const sslm_state *record = &at->job->program->states[state];
    size_t codes_size = 2 * SSLM_PAGE_TOKENS * (size_t)record->head_count * (size_t)record->head_dim;
    return state_page(at->job, at->span, state, page) + codes_size + at->kv_head * SSLM_PAGE_TOKENS;
}

/* The largest exponent of tokens first … last - 1 of a page. */
static inline int32_t largest_exponent(const uint8_t *exponents, int32_t first, int32_t last)
{
    uint8_t largest = 0;
    for (int32_t token = first; token < last; token++)
        largest = exponents[token] > largest ? exponents[token] : largest;
    return largest;
}

/* The first position that a row sees. */
static inline int32_t first_key(const sslm_job *job, int32_t row)
{
    int32_t window = job->op->heads.window, hidden = job->rows[row].position + 1 - window;
    return window == 0 || hidden < 0 ? 0 : hidden;
}

/* Attend with the query heads of one key/value head from row_count rows of a span, at most SSLM_TILE_ROWS. */
void TIERED(sslm_attend_tile)(const sslm_job *job, size_t kv_head, int32_t first_row, int32_t row_count,
                              sslm_thread *thread);

/* The two 10-bit halves of the weights of a pair of tokens, side by side as their values are. */
static inline int32_t high_halves(uint32_t even, uint32_t odd)
{
    return (int32_t)(even >> 10 | odd >> 10 << 16);
}

static inline int32_t low_halves(uint32_t even, uint32_t odd)
{
    return (int32_t)((even & 0x3ff) | (odd & 0x3ff) << 16);
}

/* Write the exact dot products of a query with tokens first … last - 1 of a page of keys.
 * query is int16 [head_dim], keys int16 [64][head_dim], sums int64 [64]. */
void TIERED(sslm_dot_keys)(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                           int32_t last, int64_t *sums);

/* Write pow2neg(t[i]) for the 64 tokens of a page. */
void TIERED(sslm_pow2neg_page)(const int32_t *nodes, const uint32_t *t, uint32_t *powers);

/* Write sums[d] = Σ weights[token] · values[token][d] over token pairs first … last - 1 of a page.
 * weights is uint32 [64], at most 2^20; values is int16 [32][head_dim][2]; sums int64 [head_dim].
 * A pair may hold a token of weight zero whose values are arbitrary. */
void TIERED(sslm_weigh_values)(const uint32_t *weights, const int16_t *values, int32_t head_dim,
                               int32_t first, int32_t last, int64_t *sums);

/* Lay the codes of a head's queries out as sslm_score_page of the same tier reads them. */
void TIERED(sslm_pack_queries)(const sslm_tile *tile, sslm_tile_head *head);

/* Write the scores of tokens page->first … page->last - 1, and maybe of others, for every head, and raise
 * head->largest where visible ones are larger. Every key's head->score_shifts[lane] - exponent has to be 0 or more. */
void TIERED(sslm_score_page)(sslm_tile *tile, const sslm_tile_page *page);

/* Add what a page of values has to the sums of every head. */
void TIERED(sslm_attend_page)(sslm_tile *tile, const sslm_tile_page *page);

/* Divide the sums of a head: write its rows, stride elements apart, and add to saturated[row]. */
void TIERED(sslm_divide_tile)(const sslm_tile *tile, const sslm_tile_head *head, int32_t *out, size_t stride,
                              uint64_t *saturated);

#endif
