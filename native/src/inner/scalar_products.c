/* Products in plain C. */
#include "outputs_plain.h"
#include "plain_codes.h"

/* Columns whose products with 16-bit codes surely fit 32 bits: 512 · 127 · 32639 < 2^31. */
#define COLUMNS_OF_INT32 512

/* The sums of a row of codes with a panel. */
static void dot_row(const int8_t *panel, int32_t padded, const int16_t *x, int64_t *out)
{
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

void sslm_multiply_scalar(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    int32_t padded = (matrix->in_features + 3) / 4 * 4;
    for (int32_t panel = first; panel < last; panel++) {
        const int8_t *weights = (const int8_t *)matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        for (int32_t i = 0; i < products->picked_count; i++) {
            int64_t sums[16];
            int32_t high[16], low[16];
            dot_row(weights, padded, row_codes(codes, products->picked[i]), sums);
            split_sums(sums, 16, high, low);
            finish_one_panel(products, panel, i, 1, high, low);
        }
    }
}
