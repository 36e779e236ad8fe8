/* Rows of codes and matrices, whatever the encoding of the matrices. */
#ifndef SSLM_MATRICES_H
#define SSLM_MATRICES_H

#include "products.h"
#include "products_int4.h"

/* Store the codes of a row for all the matrices that read them: int16 [padded_width(rows->width)], of which this
 * zeroes what lies beyond the width. */
ALWAYS_INLINE void keep_codes(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    TIERED(sslm_store_codes)(rows, row, codes);
    if (rows->int4_base != NULL) TIERED(sslm_store_codes_int4)(rows, row, codes);
}

/* Finish the exact sums of all picked rows with panels first … last - 1 of the job's matrix. */
ALWAYS_INLINE void multiply_matrix(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_matrix *matrix = &products->job->op->matrix;
    if (matrix->encoding != SSLM_PANEL_INT4) {
        TIERED(sslm_multiply)(products, first, last);
        return;
    }
    for (int32_t panel = first; panel < last; panel++) {
        const uint8_t *weights = matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            int64_t sums[SSLM_TILE_ROWS * SSLM_PANEL_ROWS];
            int32_t high[SSLM_TILE_ROWS * SSLM_PANEL_ROWS], low[SSLM_TILE_ROWS * SSLM_PANEL_ROWS];
            rows = products->picked_count - i < SSLM_TILE_ROWS ? products->picked_count - i : SSLM_TILE_ROWS;
            TIERED(sslm_dot_panel_int4)(weights, &products->job->source, products->picked + i, rows, sums);
            split_sums(sums, rows * SSLM_PANEL_ROWS, high, low);
            products->finish(products, panel, i, rows, high, low);
        }
    }
}

#endif
