/* The weights of a page's token pairs, in plain C: what a tier's vectors leave. */
#ifndef SSLM_ROW_WEIGHTS_H
#define SSLM_ROW_WEIGHTS_H

#include "attention.h"

/* What weigh_values writes of the dims from first_dim on, in plain C. */
static inline void weigh_rest(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first_dim,
                              int32_t first, int32_t last, int64_t *sums)
{
    for (int32_t d = first_dim; d < head_dim; d++) sums[d] = 0;
    for (int32_t pair = first; pair < last; pair++) {
        const int16_t *v = values + 2 * (size_t)pair * (size_t)head_dim;
        int64_t even = weights[2 * pair], odd = weights[2 * pair + 1];
        for (int32_t d = first_dim; d < head_dim; d++) sums[d] += even * v[2 * d] + odd * v[2 * d + 1];
    }
}

/* The halves of the weights of token pairs first … last - 1. */
static inline void halve_weights(const uint32_t *weights, int32_t first, int32_t last, int32_t *high, int32_t *low)
{
    for (int32_t pair = first; pair < last; pair++) {
        high[pair] = high_halves(weights[2 * pair], weights[2 * pair + 1]);
        low[pair] = low_halves(weights[2 * pair], weights[2 * pair + 1]);
    }
}

#endif
