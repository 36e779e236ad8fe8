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

#include "inner.h"

/* Store the codes of a row, after sslm_store_codes has, where sslm_dot_panel_int4 of the same tier finds them:
 * rows->int4_base is not NULL. */
void TIERED(sslm_store_codes_int4)(const sslm_rows *rows, int32_t row, const int16_t *codes);

/* Write the exact sums of count rows of codes with the 16 rows of a panel, group scales included:
 * sums[i][panel row] for the row of codes picked[i]. */
void TIERED(sslm_dot_panel_int4)(const uint8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                                 int64_t *sums);

#endif
