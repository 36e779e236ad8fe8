/* The inner loops of attention with 256-bit vectors. A tier's file includes this once, after it has defined
 * ADD_PAIRS(sums, left, right): add to eight 32-bit sums the products of pairs of 16-bit numbers.
 */
#ifndef SSLM_ATTENTION_256_H
#define SSLM_ATTENTION_256_H

#include "arithmetic.h"
#include "attention.h"
#include "vectors_256.h"

void TIERED(sslm_dot_keys)(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                           int32_t last, int64_t *sums)
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

void TIERED(sslm_pow2neg_page)(const int32_t *nodes, const uint32_t *t, uint32_t *powers)
{
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) powers[i] = pow2neg(nodes, t[i]);
}

void TIERED(sslm_weigh_values)(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first,
                               int32_t last, int64_t *sums)
{
    int32_t high[SSLM_PAGE_TOKENS / 2], low[SSLM_PAGE_TOKENS / 2];
    for (int32_t pair = first; pair < last; pair++) {
        high[pair] = high_halves(weights[2 * pair], weights[2 * pair + 1]);
        low[pair] = low_halves(weights[2 * pair], weights[2 * pair + 1]);
    }
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
    for (; d < head_dim; d++) {
        sums[d] = 0;
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            sums[d] += (int64_t)weights[2 * pair] * v[0] + (int64_t)weights[2 * pair + 1] * v[1];
        }
    }
}

#endif
