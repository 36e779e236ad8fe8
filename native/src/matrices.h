/* Rows of codes and matrices, whatever the encoding of the matrices. */
#ifndef SSLM_MATRICES_H
#define SSLM_MATRICES_H

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
    if (products->job->op->matrix.encoding == SSLM_PANEL_INT4) TIERED(sslm_multiply_int4)(products, first, last);
    else TIERED(sslm_multiply)(products, first, last);
}

#endif
