/* Products of int4 weights in plain C. */
#include <string.h>

#include "products_int4.h"

/* A row of codes is kept as it is, padded with zeros to a whole group. */
static int16_t *row_codes(const sslm_rows *rows, int32_t row)
{
    return (int16_t *)(void *)(rows->int4_base + (size_t)row * int4_row_size_bytes(rows->width));
}

void sslm_store_codes_int4_scalar(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    memcpy(row_codes(rows, row), codes, SSLM_GROUP_COLUMNS * (size_t)int4_groups(rows->width) * sizeof *codes);
}

/* The sum of one group of one row of a panel: below 32 · 7 · 32639 < 2^23. */
static int32_t dot_group(const uint8_t *words, const int16_t *x)
{
    int32_t sum = 0;
    for (int32_t k = 0; k < SSLM_GROUP_COLUMNS; k += 8, words += 64)
        for (int32_t j = 0; j < 4; j++)
            sum += ((words[j] & 15) - 8) * x[k + j] + ((words[j] >> 4) - 8) * x[k + 4 + j];
    return sum;
}

static void dot_int4(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                     int32_t row_count, int32_t *high, int32_t *low)
{
    (void)is_first;
    (void)row_count;
    const int16_t *x = row_codes(codes, picked[0]);
    const uint8_t *words = panel + int4_scales_size_bytes(codes->width);
    int32_t groups = int4_groups(codes->width);
    int64_t sums[SSLM_PANEL_ROWS] = {0};
    for (int32_t group = 0; group < groups; group++, panel += 16, words += 256, x += SSLM_GROUP_COLUMNS)
        for (int32_t n = 0; n < 16; n++) sums[n] += dot_group(words + 4 * n, x) * panel[n];
    split_sums(sums, SSLM_PANEL_ROWS, high, low);
}

void sslm_multiply_int4_scalar(const sslm_products *products, int32_t first, int32_t last)
{
    multiply_with(dot_int4, 1, products, first, last);
}
