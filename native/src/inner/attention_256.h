/* The inner loops of attention with 256-bit vectors. A tier's file includes this once, after it has defined
 * ADD_PAIRS(sums, left, right): add to eight 32-bit sums the products of pairs of 16-bit numbers.
 */
#ifndef SSLM_ATTENTION_256_H
#define SSLM_ATTENTION_256_H

#include "row_weights.h"
#include "vectors_256.h"

#define TOKENS 2
#define DIMS 2
#include "single_rows_lanes.h"
#include "tiles_lanes.h"

/* The sums of one token or dim: of the first and of the last lanes, in both planes. */
typedef struct {
    __m256i high[2];
    __m256i low[2];
} sums_256;

ALWAYS_INLINE sums_256 no_sums(void)
{
    __m256i zero = _mm256_setzero_si256();
    return (sums_256){{zero, zero}, {zero, zero}};
}

ALWAYS_INLINE void add_lanes(sums_256 *sums, const __m256i high[2], const __m256i low[2], const int16_t *pair)
{
    __m256i both = _mm256_set1_epi32(pair_at(pair));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        ADD_PAIRS(sums->high[i], high[i], both);
        ADD_PAIRS(sums->low[i], low[i], both);
    }
}

ALWAYS_INLINE void store_lanes(const sums_256 *sums, lane_sums high, lane_sums low)
{
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        _mm256_store_si256((__m256i *)(void *)(high + 8 * i), sums->high[i]);
        _mm256_store_si256((__m256i *)(void *)(low + 8 * i), sums->low[i]);
    }
}

static void dot_lanes(const int16_t *queries, const int16_t *keys, int32_t head_dim, lane_sums high[TOKENS],
                      lane_sums low[TOKENS])
{
    sums_256 sums[TOKENS] = {no_sums(), no_sums()};
    for (int32_t d = 0; d < head_dim; d += 2, queries += 4 * SSLM_LANES) {
        __m256i h[2] = {load(queries), load(queries + 16)}, l[2] = {load(queries + 32), load(queries + 48)};
#pragma GCC unroll 2
        for (int i = 0; i < TOKENS; i++) add_lanes(&sums[i], h, l, keys + (size_t)i * (size_t)head_dim + d);
    }
#pragma GCC unroll 2
    for (int i = 0; i < TOKENS; i++) store_lanes(&sums[i], high[i], low[i]);
}

static void weigh_lanes(const weight_list *list, const int16_t *values, int32_t head_dim, lane_sums high[DIMS],
                        lane_sums low[DIMS])
{
    /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
    sums_256 sums[DIMS] = {no_sums(), no_sums()};
    for (int32_t index = 0; index < list->count; index++) {
        const int32_t *halves = list->high[index], *rest = list->low[index];
        const int16_t *pairs = values + 2 * (size_t)list->pairs[index] * (size_t)head_dim;
        __m256i h[2] = {load(halves), load(halves + 8)}, l[2] = {load(rest), load(rest + 8)};
#pragma GCC unroll 2
        for (int i = 0; i < DIMS; i++) add_lanes(&sums[i], h, l, pairs + 2 * i);
    }
#pragma GCC unroll 2
    for (int i = 0; i < DIMS; i++) store_lanes(&sums[i], high[i], low[i]);
}

static void dot_keys(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first, int32_t last,
                     int64_t *sums)
{
    /* Products of a byte and a code over 256 dims fit 32 bits, so the query is taken in two planes. */
    int16_t high[SSLM_HEAD_DIM_MAX], low[SSLM_HEAD_DIM_MAX];
    for (int32_t d = 0; d < head_dim; d++) {
        high[d] = (int16_t)((query[d] + 128) >> 8);
        low[d] = (int16_t)(query[d] - 256 * high[d]);
    }
    int32_t whole = head_dim / 16 * 16;
    for (int32_t token = first; token < last; token++) {
        const int16_t *key = keys + (size_t)token * (size_t)head_dim;
        __m256i h = _mm256_setzero_si256(), l = h;
        for (int32_t d = 0; d < whole; d += 16) {
            __m256i k = load(key + d);
            ADD_PAIRS(h, k, load(high + d));
            ADD_PAIRS(l, k, load(low + d));
        }
        int64_t sum = 256 * (int64_t)sum_all(h) + sum_all(l);
        for (int32_t d = whole; d < head_dim; d++) sum += query[d] * key[d];
        sums[token] = sum;
    }
}

static void weigh_values(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first,
                         int32_t last, int64_t *sums)
{
    int32_t high[SSLM_PAGE_TOKENS / 2], low[SSLM_PAGE_TOKENS / 2];
    halve_weights(weights, first, last, high, low);
    int32_t d = 0;
    for (; d + 32 <= head_dim; d += 32) {
        /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
        __m256i high_sums[4], low_sums[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) high_sums[i] = low_sums[i] = _mm256_setzero_si256();
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            __m256i h = _mm256_set1_epi32(high[pair]), l = _mm256_set1_epi32(low[pair]);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                __m256i codes = load(v + 16 * i);
                ADD_PAIRS(high_sums[i], h, codes);
                ADD_PAIRS(low_sums[i], l, codes);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) store_halves(high_sums[i], low_sums[i], 10, sums + d + 8 * i);
    }
    for (; d + 8 <= head_dim; d += 8) {
        __m256i high_sum = _mm256_setzero_si256(), low_sum = high_sum;
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            __m256i codes = load(v);
            ADD_PAIRS(high_sum, _mm256_set1_epi32(high[pair]), codes);
            ADD_PAIRS(low_sum, _mm256_set1_epi32(low[pair]), codes);
        }
        store_halves(high_sum, low_sum, 10, sums + d);
    }
    weigh_rest(weights, values, head_dim, d, first, last, sums);
}

#endif
