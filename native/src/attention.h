/* The inner loops of attention: for a row at a time, and for tiles of rows. */
#ifndef SSLM_ATTENTION_H
#define SSLM_ATTENTION_H

#include <string.h>

#include "arithmetic.h"
#include "inner.h"
#include "row_heads.h"
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

/* The tokens of a page between two positions, the second of them included. */
static inline void clip_page(int32_t page, int32_t first_position, int32_t last_position, int32_t *first,
                             int32_t *last)
{
    int32_t start = page * SSLM_PAGE_TOKENS;
    *first = first_position > start ? first_position - start : 0;
    *last = last_position + 1 - start < SSLM_PAGE_TOKENS ? last_position + 1 - start : SSLM_PAGE_TOKENS;
}

/* The first position that a row sees. */
static inline int32_t first_key(const sslm_job *job, int32_t row)
{
    int32_t window = job->op->heads.window, hidden = job->rows[row].position + 1 - window;
    return window == 0 || hidden < 0 ? 0 : hidden;
}

/* How the sums of a query's products become scores. */
typedef struct {
    int32_t sums;                /* cut by this, 0 … 7, they fit 32 bits */
    int32_t scores;              /* what then is left of the shift of a key of exponent 0, less 1 */
} query_shifts;

/* Of a query whose codes have an exponent and sizes that add up to this. */
static inline query_shifts query_shifts_of(const sslm_job *job, int32_t exponent, uint32_t sizes)
{
    /* No sum is larger than sizes · 32639. */
    int32_t bits = bit_length((uint64_t)sizes * SSLM_CODE_MAX), sums = bits > 31 ? bits - 31 : 0;
    return (query_shifts){.sums = sums, .scores = job->op->heads.score_shift - exponent - sums - 1};
}

/* Write the codes of a query of head_dim values, and zeros up to its padded width. */
query_shifts TIERED(sslm_quantize_query)(const sslm_job *job, const int32_t *x, int32_t head_dim, int16_t *codes);

/* Step 1 of docs/arithmetic.md 3.7 for one key. */
static inline int32_t score_any(const int16_t *query, const int16_t *key, int32_t head_dim, int32_t shift)
{
    int64_t sum = 0;
    for (int32_t d = 0; d < head_dim; d++) sum += (int32_t)query[d] * key[d];
    return (int32_t)clamp32(scale_shift(sum, shift));
}

/* Steps 6 and 7: what the numerators of a row and head are divided by. */
typedef struct {
    int32_t down;                /* of the numerators, so that they fit 32 bits */
    int32_t reciprocal;          /* R */
} divisor;

static inline divisor divisor_of(int64_t denominator)
{
    int32_t bits = bit_length((uint64_t)denominator);
    uint64_t leading = (uint64_t)scale_shift(denominator, bits - 31);
    return (divisor){.down = bits - 16, .reciprocal = (int32_t)div_round(UINT64_C(1) << 60, leading)};
}

/* Divide: write the output whose values have an exponent; return whether it had to be clamped. */
static inline uint64_t divide_by(divisor by, int64_t numerator, int32_t value_exponent, int32_t *out)
{
    int64_t quotient = rshift_round(rshift_round(numerator, by.down) * by.reciprocal, 31);
    int64_t value = scale_shift(quotient, 14 - value_exponent), kept = clamp32(value);
    *out = (int32_t)kept;
    return kept != value;
}

/* Pages of either state that there is room for when they are packed. */
static inline int32_t packed_page_count(int32_t head_dim)
{
    int32_t count = SSLM_PACKED_SIZE_BYTES / (2 * SSLM_PAGE_TOKENS * (int32_t)padded_width(head_dim));
    return count < SSLM_PACKED_PAGES_MAX ? count : SSLM_PACKED_PAGES_MAX;
}

/* Pages of values that are handed over together. */
static inline int32_t pages_together(int32_t head_dim)
{
    int32_t half = packed_page_count(head_dim) / 2;
    return half < 1 ? 1 : half < SSLM_TILE_PAGES_MAX ? half : SSLM_TILE_PAGES_MAX;
}

/* Two numbers of 16 bits side by side. */
static inline int32_t pair_at(const int16_t *pair)
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return both;
}

/* Forget pages that were packed before: their codes may have changed. */
void TIERED(sslm_forget_pages)(sslm_thread *thread);

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

/* Get ready for sslm_score_row, which reads the codes of a row's queries as they are laid out here. */
void TIERED(sslm_start_scores)(sslm_row_heads *row, int32_t head_dim);

/* Write the scores of tokens page->first … page->last - 1, and maybe of others, for every head, and raise
 * head->largest. Every key's head->score_shift - exponent has to be 0 or more. */
void TIERED(sslm_score_row)(sslm_row_heads *row, const sslm_row_page *page);

/* Undo what sslm_start_scores did to the state of the CPU. */
void TIERED(sslm_end_scores)(void);

/* Add what a page of values has to the sums of every head. */
void TIERED(sslm_attend_row)(sslm_row_heads *row, const sslm_row_page *page);

/* Divide the sums of a head: write head_dim outputs; return how many had to be clamped. */
uint64_t TIERED(sslm_divide_row)(const sslm_row_head *head, int32_t head_dim, int32_t value_exponent, int32_t *out);

/* Get ready for the functions below, and undo what that did to the state of the CPU. */
void TIERED(sslm_start_tile)(void);
void TIERED(sslm_end_tile)(void);

/* Lay the codes of a head's queries out as sslm_score_page of the same tier reads them. */
void TIERED(sslm_pack_queries)(const sslm_tile *tile, sslm_tile_head *head);

/* Write the scores of tokens page->first … page->last - 1, and maybe of others, for every head, and raise
 * head->largest where visible ones are larger. Every key's head->score_shifts[lane] - exponent has to be 0 or more. */
void TIERED(sslm_score_page)(sslm_tile *tile, const sslm_tile_page *page);

/* Add what some pages of values have, at most pages_together(tile->head_dim), to the sums of every head. */
void TIERED(sslm_attend_pages)(sslm_tile *tile, const sslm_tile_page *pages, int32_t page_count);

/* Divide the sums of a head: write its rows, stride elements apart, and add to saturated[row]. */
void TIERED(sslm_divide_tile)(const sslm_tile *tile, const sslm_tile_head *head, int32_t *out, size_t stride,
                              uint64_t *saturated);

#endif
