/* The inner loops of attention in plain C. */
#include "arithmetic.h"
#include "attention.h"

void sslm_dot_keys_scalar(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                          int32_t last, int64_t *sums)
{
    for (int32_t token = first; token < last; token++) {
        const int16_t *key = keys + (size_t)token * (size_t)head_dim;
        int64_t sum = 0;
        for (int32_t d = 0; d < head_dim; d++) sum += (int64_t)query[d] * key[d];
        sums[token] = sum;
    }
}

void sslm_pow2neg_page_scalar(const int32_t *nodes, const uint32_t *t, uint32_t *powers)
{
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) powers[i] = pow2neg(nodes, t[i]);
}

void sslm_weigh_values_scalar(const uint32_t *weights, const int16_t *values, int32_t head_dim,
                              int32_t first, int32_t last, int64_t *sums)
{
    for (int32_t d = 0; d < head_dim; d++) sums[d] = 0;
    for (int32_t pair = first; pair < last; pair++) {
        const int16_t *v = values + 2 * (size_t)pair * (size_t)head_dim;
        int64_t even = weights[2 * pair], odd = weights[2 * pair + 1];
        for (int32_t d = 0; d < head_dim; d++) sums[d] += even * v[2 * d] + odd * v[2 * d + 1];
    }
}
