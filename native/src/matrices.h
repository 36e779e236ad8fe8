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

/* Write the exact sums of count rows of codes with the 16 rows of a panel, as sslm_dot_panel does. */
ALWAYS_INLINE void dot_panel_of(const sslm_matrix *matrix, int32_t panel, const sslm_rows *codes,
                                const int32_t *picked, int32_t count, int64_t *sums)
{
    const uint8_t *weights = matrix->panels + (size_t)panel * panel_size_bytes(matrix);
    if (matrix->encoding == SSLM_PANEL_INT4) TIERED(sslm_dot_panel_int4)(weights, codes, picked, count, sums);
    else TIERED(sslm_dot_panel)((const int8_t *)weights, codes, picked, count, sums);
}

#endif
