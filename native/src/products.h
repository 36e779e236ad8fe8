/* Products of codes and weights: the inner loops of linear and logits. */
#ifndef SSLM_PRODUCTS_H
#define SSLM_PRODUCTS_H

#include "inner.h"

/* Store the codes of a row where sslm_dot_panel of the same tier finds them. codes is int16
 * [padded_width(rows->width)], of which this zeroes what lies beyond the width. */
void TIERED(sslm_store_codes)(const sslm_rows *rows, int32_t row, int16_t *codes);

/* Write the exact sums of count rows of codes with the 16 rows of a panel: sums[i][panel row] for the
 * row of codes picked[i]; picked ascends. panel is int8 [width / 4][16][4]. */
void TIERED(sslm_dot_panel)(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                            int64_t *sums);

#endif
