/* Single rows in plain C, for compilers to turn into vectors. A tier's file includes this once, and says below how to
 *   dot_keys: write the exact dot products of a query with tokens first … last - 1 of a page of keys; query is int16
 *     [head_dim], keys int16 [64][head_dim], sums int64 [64];
 *   weigh_values: write sums[d] = Σ weights[token] · values[token][d] over token pairs first … last - 1 of a page;
 *     weights is uint32 [64], at most 2^20; values int16 [32][head_dim][2]; sums int64 [head_dim]. A pair may hold a
 *     token of weight zero whose values are arbitrary.
 */
#ifndef SSLM_SINGLE_ROWS_LANES_H
#define SSLM_SINGLE_ROWS_LANES_H

#include "attention.h"

static void dot_keys(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first, int32_t last,
                     int64_t *sums);
static void weigh_values(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first, int32_t last,
                         int64_t *sums);

/* Turn a page's sums of products into scores. A function of its own, since compilers make vectors of it
 * only where its pointers promise not to overlap. */
static __attribute__((noinline)) void shift_scores(const int64_t *restrict sums, const uint8_t *restrict exponents,
                                                   int32_t shift, int32_t *restrict scores)
{
    int32_t own[SSLM_PAGE_TOKENS];
    /* Where there is no key yet, there may be any number. */
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        own[i] = exponents[i] < shift ? shift - exponents[i] : 0;
        own[i] = own[i] < 62 ? own[i] : 62;
    }
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) scores[i] = (int32_t)(((sums[i] >> own[i]) + 1) >> 1);
}

static void score_head_row(sslm_row_head *head, const sslm_row_page *page)
{
    int64_t sums[SSLM_PAGE_TOKENS] = {0};
    int32_t *scores = head->scores + page->score_start;
    dot_keys(head->codes, page->codes, page->head_dim, page->first, page->last, sums);
    shift_scores(sums, page->exponents, head->score_shift + head->sum_shift, scores);
    for (int32_t token = page->first; token < page->last; token++)
        head->largest = scores[token] > head->largest ? scores[token] : head->largest;
}

void TIERED(sslm_score_row)(sslm_row_heads *row, const sslm_row_page *page)
{
    for (int32_t i = 0; i < row->head_count; i++) score_head_row(&row->heads[i], page);
}

/* The distances of a page's tokens, and which of them are in a group. */
typedef struct {
    uint32_t distances[SSLM_PAGE_TOKENS];     /* t */
    uint32_t members[SSLM_PAGE_TOKENS];       /* 0, or all bits set */
} key_group;

static void find_powers(const int32_t *nodes, const uint32_t *t, uint32_t *powers)
{
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) powers[i] = pow2neg(nodes, t[i]);
}

/* Steps 3 to 5 for one group: add its part, if it has any, to the sums. Loops run over whole pages, so that
 * compilers turn them into vectors. */
static void add_row_group(sslm_row_head *head, const sslm_row_page *page, const key_group *group)
{
    uint32_t nearest = UINT32_MAX, exponent = 0, denominator = 0;
    int32_t first = SSLM_PAGE_TOKENS, last = 0;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t distance = group->distances[i] | ~group->members[i];
        uint32_t own = page->exponents[i] & group->members[i];
        int32_t before = group->members[i] != 0 ? i : SSLM_PAGE_TOKENS, after = group->members[i] != 0 ? i + 1 : 0;
        nearest = distance < nearest ? distance : nearest;
        exponent = own > exponent ? own : exponent;
        first = before < first ? before : first;
        last = after > last ? after : last;
    }
    if (nearest == UINT32_MAX) return;
    uint32_t weights[SSLM_PAGE_TOKENS], t[SSLM_PAGE_TOKENS], whole = nearest >> 16, lifts = 0;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) t[i] = group->distances[i] - (whole << 16);
    find_powers(page->nodes, t, weights);
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t lift = (exponent - page->exponents[i]) & group->members[i];
        denominator += weights[i] & group->members[i];
        lifts |= lift;
        /* The cut keeps the sum from wrapping; it changes no power, as from there on all are 0. */
        t[i] = (t[i] < POW2_END ? t[i] : POW2_END) + (lift << 16);
    }
    if (lifts != 0) find_powers(page->nodes, t, weights);
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) weights[i] &= group->members[i];
    head->denominator += rshift_round((int64_t)denominator << 7, (int32_t)whole);
    int32_t shift = (int32_t)whole + page->value_exponent - (int32_t)exponent;
    if (shift > 62) return;
    int64_t sums[SSLM_HEAD_DIM_MAX];
    weigh_values(weights, page->codes, page->head_dim, first / 2, (last + 1) / 2, sums);
    int64_t half = (INT64_C(1) << shift) >> 1;
    for (int32_t d = 0; d < page->head_dim; d++) head->numerators[d] += (sums[d] * 128 + half) >> shift;
}

static void attend_head_row(sslm_row_head *head, const sslm_row_page *page)
{
    const int32_t *scores = head->scores + page->score_start;
    key_group near, far;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t distance = (uint32_t)head->largest - (uint32_t)scores[i];
        uint32_t is_visible = i >= page->first && i < page->last ? UINT32_MAX : 0;
        near.distances[i] = far.distances[i] = distance;
        near.members[i] = distance < SSLM_FAR ? is_visible : 0;
        far.members[i] = distance < SSLM_FAR ? 0 : is_visible;
    }
    add_row_group(head, page, &near);
    add_row_group(head, page, &far);
}

void TIERED(sslm_attend_row)(sslm_row_heads *row, const sslm_row_page *page)
{
    for (int32_t i = 0; i < row->head_count; i++) attend_head_row(&row->heads[i], page);
}

uint64_t TIERED(sslm_divide_row)(const sslm_row_head *head, int32_t head_dim, int32_t value_exponent, int32_t *out)
{
    divisor by = divisor_of(head->denominator);
    uint64_t saturated = 0;
    for (int32_t d = 0; d < head_dim; d++) saturated += divide_by(by, head->numerators[d], value_exponent, &out[d]);
    return saturated;
}

#endif
