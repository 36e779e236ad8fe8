/* The last step of linear for one row and one panel, in plain C. */
#ifndef SSLM_OUTPUTS_H
#define SSLM_OUTPUTS_H

#include "arithmetic.h"
#include "products.h"

/* Beyond this a value saturates whatever its left shift, bias and previous value are, and up to it a left
 * shift of 24 stays within 64 bits. */
#define LEFT_SHIFT_MAX (INT64_C(1) << 36)

static inline int64_t shift_sum(int64_t product, int32_t shift)
{
    if (shift >= 0) return rshift_round(product, shift);
    if (product > LEFT_SHIFT_MAX) product = LEFT_SHIFT_MAX;
    if (product < -LEFT_SHIFT_MAX) product = -LEFT_SHIFT_MAX;
    return scale_shift(product, shift);
}

/* The first count outputs from first_row on. Returns how many saturated. Not inlined: for a count that they
 * know to be 16, compilers unroll these loops instead of turning them into vectors. */
static __attribute__((noinline)) uint64_t finish_row(const sslm_op *op, int32_t first_row, int32_t count,
                                                     int32_t shift, const int32_t *high, const int32_t *low,
                                                     int32_t *y)
{
    const int32_t *mantissas = op->matrix.mantissas + first_row;
    int64_t values[SSLM_PANEL_ROWS];
    for (int32_t n = 0; n < count; n++) values[n] = (256 * (int64_t)high[n] + low[n]) * mantissas[n];
    if (shift >= 0 && shift <= 62) {
        int64_t half = (INT64_C(1) << shift) >> 1;
        for (int32_t n = 0; n < count; n++) values[n] = (values[n] + half) >> shift;
    } else {
        for (int32_t n = 0; n < count; n++) values[n] = shift_sum(values[n], shift);
    }
    if (op->matrix.bias != NULL)
        for (int32_t n = 0; n < count; n++) values[n] += op->matrix.bias[first_row + n];
    if (op->accumulates)
        for (int32_t n = 0; n < count; n++) values[n] += y[n];
    uint64_t saturated = 0;
    for (int32_t n = 0; n < count; n++) {
        int64_t kept = clamp32(values[n]);
        saturated += kept != values[n];
        y[n] = (int32_t)kept;
    }
    return saturated;
}

#endif
