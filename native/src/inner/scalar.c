/* The inner loops in plain C. */
#include <string.h>

#include "arithmetic.h"
#include "inner.h"

/* Columns whose products with 16-bit codes surely fit 32 bits: 512 · 127 · 32639 < 2^31. */
#define COLUMNS_OF_INT32 512

static int16_t *row_codes(const sslm_rows *rows, int32_t row)
{
    return (int16_t *)(void *)rows->base + (size_t)row * padded_width(rows->width);
}

void sslm_store_codes_scalar(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    memcpy(row_codes(rows, row), codes, padded * sizeof *codes);
}

void sslm_dot_panel_scalar(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                           int64_t *sums)
{
    int32_t padded = (codes->width + 3) / 4 * 4;
    for (int32_t i = 0; i < count; i++) {
        const int16_t *x = row_codes(codes, picked[i]);
        int64_t *out = sums + 16 * (size_t)i;
        for (int32_t n = 0; n < 16; n++) out[n] = 0;
        for (int32_t start = 0; start < padded; start += COLUMNS_OF_INT32) {
            int32_t end = padded - start < COLUMNS_OF_INT32 ? padded : start + COLUMNS_OF_INT32;
            int32_t block[16] = {0};
            for (int32_t k = start; k < end; k += 4) {
                const int8_t *w = panel + 16 * (size_t)k;
                for (int32_t n = 0; n < 16; n++)
                    block[n] += w[4 * n] * x[k] + w[4 * n + 1] * x[k + 1] + w[4 * n + 2] * x[k + 2]
                                + w[4 * n + 3] * x[k + 3];
            }
            for (int32_t n = 0; n < 16; n++) out[n] += block[n];
        }
    }
}

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
