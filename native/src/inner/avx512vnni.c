/* The inner loops in plain C, for now. */
#include "inner.h"

/* Columns whose products with 16-bit codes surely fit 32 bits: 512 · 127 · 32639 < 2^31. */
#define COLUMNS_OF_INT32 512

void sslm_dot_panel_avx512vnni(const int8_t *panel, int32_t in_features, const sslm_rows *codes,
                           const int32_t *rows, int32_t count, int64_t *sums)
{
    int32_t padded = (in_features + 3) / 4 * 4;
    for (int32_t i = 0; i < count; i++) {
        const int16_t *x = row_codes(code_row(codes, rows[i]), codes->width);
        int64_t *out = sums + 16 * i;
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

void sslm_split_codes_avx512vnni(sslm_code_row *row, int32_t width)
{
    (void)row;
    (void)width;
}

void sslm_dot_keys_avx512vnni(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                          int32_t last, int64_t *sums)
{
    for (int32_t token = first; token < last; token++) {
        const int16_t *key = keys + (size_t)token * (size_t)head_dim;
        int64_t sum = 0;
        for (int32_t d = 0; d < head_dim; d++) sum += (int64_t)query[d] * key[d];
        sums[token] = sum;
    }
}

void sslm_weigh_values_avx512vnni(const uint32_t *weights, const int16_t *values, int32_t head_dim,
                              int32_t first, int32_t last, int64_t *sums)
{
    for (int32_t d = 0; d < head_dim; d++) sums[d] = 0;
    for (int32_t pair = first; pair < last; pair++) {
        const int16_t *v = values + 2 * (size_t)pair * (size_t)head_dim;
        int64_t even = weights[2 * pair], odd = weights[2 * pair + 1];
        for (int32_t d = 0; d < head_dim; d++) sums[d] += even * v[2 * d] + odd * v[2 * d + 1];
    }
}
