/* The inner loops of attention. */
#ifndef SSLM_ATTENTION_H
#define SSLM_ATTENTION_H

#include "inner.h"

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

#endif
