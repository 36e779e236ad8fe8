/* The loops that each tier writes for itself, in inner/. */
#ifndef SSLM_INNER_H
#define SSLM_INNER_H

#include "kernels.h"
#include "tier.h"

/* Write the exact sums of count rows of codes with the 16 rows of a panel: sums[row][panel row].
 * panel is int8 [in_features / 4][16][4]; rows[i] says which row of codes comes i-th. */
void TIERED(sslm_dot_panel)(const int8_t *panel, int32_t in_features, const sslm_rows *codes,
                            const int32_t *rows, int32_t count, int64_t *sums);

/* Fill in what the tier's sslm_dot_panel reads besides the int16 codes. */
void TIERED(sslm_split_codes)(sslm_code_row *row, int32_t width);

/* Write the exact dot products of a query with tokens first … last - 1 of a page of keys.
 * query is int16 [head_dim], keys int16 [64][head_dim], sums int64 [64]. */
void TIERED(sslm_dot_keys)(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                           int32_t last, int64_t *sums);

/* Write sums[d] = Σ weights[token] · values[token][d] over token pairs first … last - 1 of a page.
 * weights is uint32 [64], at most 2^20; values is int16 [32][head_dim][2]; sums int64 [head_dim].
 * A pair may hold a token of weight zero whose values are arbitrary. */
void TIERED(sslm_weigh_values)(const uint32_t *weights, const int16_t *values, int32_t head_dim,
                               int32_t first, int32_t last, int64_t *sums);

#endif
