/* The inner loops of ops that change rows element by element.
 *
 * Each does whole vectors from the front of a row and returns how many elements it did, 0 where the tier has
 * no vectors. The op does the rest, and says what the result is.
 */
#ifndef SSLM_ROWS_H
#define SSLM_ROWS_H

#include "inner.h"

/* y = ((codes of x) · reciprocal · gain + half) >> shift, for results that fit 32 bits. exponent is that of x,
 * 0 … 17; reciprocal at most 2^24; shift 32 … 62. y may be x. */
int32_t TIERED(sslm_normalize_lanes)(const int32_t *x, const int32_t *gain, int32_t count, int32_t exponent,
                                     int32_t reciprocal, int32_t shift, int32_t *y);

/* Rotate pairs of every head of a row, as rope does; return how many of each head, from the first. None where a
 * result might need a clamp. */
int32_t TIERED(sslm_rotate_lanes)(const sslm_rotation *rotation, int32_t position, int32_t *row, int32_t width);

/* Activate gates whose a has shift fewer fraction bits, 0 … 24, and raise *largest to the largest absolute
 * product of an activated gate and up. nodes is the table G. */
int32_t TIERED(sslm_activate_lanes)(const int32_t *nodes, const int32_t *gate, const int32_t *up, int32_t count,
                                    int32_t shift, int32_t *activated, uint64_t *largest);

/* Codes of the products of two rows, whose exponent is at most 48. */
int32_t TIERED(sslm_multiply_lanes)(const int32_t *left, const int32_t *right, int32_t count, int32_t exponent,
                                    int16_t *codes);

/* Weights of exponents of two, as weight_of_exponent in choosing.h. */
int32_t TIERED(sslm_weigh_lanes)(const uint32_t *exponents, int32_t count, uint64_t *weights);

#endif
