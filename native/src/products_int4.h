/* Products of codes and int4 weights: the inner loops of linear and logits where a matrix is SSLM_PANEL_INT4.
 *
 * A panel is 16 rows: the scales of their groups of 32 columns, uint8 [groups][16], padded to 64 bytes; then
 * the codes, a word of eight columns of a row after the other: [columns / 8][16][4 bytes], where byte j holds
 * columns j and j + 4 as low and high nibble, each plus 8.
 *
 * The 8 is not taken off the weights: the nibbles, as they are, multiply the high and the low bytes of the
 * codes, and the sum of a group starts at less 8 times the sum of the other operand. So a group's sum of
 * either plane is at most 32 · 7 · 128 = 28672, which fits 16 bits, and one multiplication of 16 bits scales
 * it. Sums of a plane over all of the at most 16384 columns fit 32 bits: 512 · 64 · 28672 < 2^31.
 */
#ifndef SSLM_PRODUCTS_INT4_H
#define SSLM_PRODUCTS_INT4_H

#include "products.h"

/* Where vectors are used, a row of codes has for each group of 32 columns a record: what the sums of its high and of
 * its low bytes start at, then for each four columns their four high bytes and their four low bytes. */
#define RECORD_INTS (2 + SSLM_GROUP_COLUMNS / 2)

static inline int32_t *row_records(const sslm_rows *rows, int32_t row)
{
    return (int32_t *)(void *)(rows->int4_base + (size_t)row * int4_row_size_bytes(rows->width));
}

/* Store the codes of a row, after sslm_store_codes has, where sslm_multiply_int4 of the same tier finds them:
 * rows->int4_base is not NULL. */
void TIERED(sslm_store_codes_int4)(const sslm_rows *rows, int32_t row, const int16_t *codes);

/* Finish the exact sums, group scales included, of all picked rows with panels first … last - 1 of the job's
 * matrix. */
void TIERED(sslm_multiply_int4)(const sslm_products *products, int32_t first, int32_t last);

/* Write the sums of a panel's 16 rows with rows of codes, as sslm_finish takes them. If this is the panel's first
 * use, it comes from memory. */
typedef void (*int4_dot)(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                         int32_t row_count, int32_t *high, int32_t *low);

/* What sslm_multiply_int4 does, with a function for up to rows_at_once rows, which is a constant of at most
 * SSLM_SUM_ROWS. */
ALWAYS_INLINE void multiply_with(int4_dot dot, const int32_t rows_at_once, const sslm_products *products,
                                 int32_t first, int32_t last)
{
    const sslm_matrix *matrix = &products->job->op->matrix;
    size_t size_bytes = panel_size_bytes(matrix);
    const uint8_t *weights = matrix->panels + (size_t)first * size_bytes;
    for (int32_t panel = first; panel < last; panel++, weights += size_bytes) {
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            int32_t high[SSLM_SUM_ROWS * SSLM_PANEL_ROWS], low[SSLM_SUM_ROWS * SSLM_PANEL_ROWS];
            rows = products->picked_count - i < rows_at_once ? products->picked_count - i : rows_at_once;
            dot(weights, i == 0, &products->job->source, products->picked + i, rows, high, low);
            finish_one_panel(products, panel, i, rows, high, low);
        }
    }
}

#endif
