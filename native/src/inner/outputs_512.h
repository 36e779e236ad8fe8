/* The last step of linear with AVX-512. A tier's file includes this once. */
#ifndef SSLM_OUTPUTS_512_H
#define SSLM_OUTPUTS_512_H

#include <immintrin.h>

#include "outputs.h"

/* 16 numbers of 32 bits as two vectors of 64 bits: the even ones and the odd ones. */
typedef struct {
    __m512i even, odd;
} both_halves;

ALWAYS_INLINE both_halves widen(__m512i x)
{
    return (both_halves){_mm512_srai_epi64(_mm512_slli_epi64(x, 32), 32), _mm512_srai_epi64(x, 32)};
}

/* Which of eight numbers do not fit: -2^31 counts as one that does not. */
ALWAYS_INLINE __mmask8 beyond_int32(__m512i x)
{
    __m512i limit = _mm512_set1_epi64(SSLM_INT32_MAX);
    return _mm512_cmpgt_epu64_mask(_mm512_add_epi64(x, limit), _mm512_set1_epi64(2 * SSLM_INT32_MAX));
}

ALWAYS_INLINE __m512i clamp(__m512i x)
{
    __m512i limit = _mm512_set1_epi64(SSLM_INT32_MAX);
    return _mm512_max_epi64(_mm512_min_epi64(x, limit), _mm512_set1_epi64(-SSLM_INT32_MAX));
}

/* A shift to the right for every number, and its half. */
typedef struct {
    __m512i count, half;
} rounding_shift;

ALWAYS_INLINE __m512i shift_down(__m512i product, const rounding_shift *shift)
{
    return _mm512_srav_epi64(_mm512_add_epi64(product, shift->half), shift->count);
}

/* (256 · high + low) · mantissa of the even numbers of 32 bits. */
ALWAYS_INLINE __m512i scale(__m512i high, __m512i low, __m512i mantissa)
{
    return _mm512_add_epi64(_mm512_slli_epi64(_mm512_mul_epi32(high, mantissa), 8), _mm512_mul_epi32(low, mantissa));
}

/* What is the same for all rows of codes. */
typedef struct {
    __m512i mantissa, odd_mantissa;
    both_halves bias;
    __mmask16 mask;              /* of the panel rows that there are */
} panel_scale;

ALWAYS_INLINE panel_scale panel_scale_of(const sslm_matrix *matrix, int32_t first_row, const int has_bias)
{
    int32_t rest = matrix->out_features - first_row;
    panel_scale scale;
    scale.mask = rest < SSLM_PANEL_ROWS ? (__mmask16)((1u << rest) - 1) : 0xffff;
    scale.mantissa = _mm512_maskz_loadu_epi32(scale.mask, matrix->mantissas + first_row);
    scale.odd_mantissa = _mm512_srli_epi64(scale.mantissa, 32);
    scale.bias.even = scale.bias.odd = _mm512_setzero_si512();
    if (has_bias) scale.bias = widen(_mm512_maskz_loadu_epi32(scale.mask, matrix->bias + first_row));
    return scale;
}

/* The outputs of a panel for one row of codes; is_narrow says that sums fit 32 bits. The last three are constants
 * where this is inlined. Returns how many saturated. */
ALWAYS_INLINE uint32_t finish_panel_row(const panel_scale *by, const rounding_shift *shift, const int32_t *high,
                                        const int32_t *low, int32_t *y, const int is_narrow, const int has_bias,
                                        const int accumulates)
{
    __m512i h = _mm512_loadu_si512(high), l = _mm512_loadu_si512(low), even, odd;
    if (is_narrow) {
        __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(h, 8), l);
        even = _mm512_mul_epi32(sum, by->mantissa);
        odd = _mm512_mul_epi32(_mm512_srli_epi64(sum, 32), by->odd_mantissa);
    } else {
        even = scale(h, l, by->mantissa);
        odd = scale(_mm512_srli_epi64(h, 32), _mm512_srli_epi64(l, 32), by->odd_mantissa);
    }
    even = shift_down(even, shift);
    odd = shift_down(odd, shift);
    if (has_bias) {
        even = _mm512_add_epi64(even, by->bias.even);
        odd = _mm512_add_epi64(odd, by->bias.odd);
    }
    if (accumulates) {
        both_halves old = widen(_mm512_maskz_loadu_epi32(by->mask, y));
        even = _mm512_add_epi64(even, old.even);
        odd = _mm512_add_epi64(odd, old.odd);
    }
    uint32_t saturated = 0;
    __mmask8 beyond_even = beyond_int32(even), beyond_odd = beyond_int32(odd);
    if (__builtin_expect(!_kortestz_mask8_u8(beyond_even, beyond_odd), 0)) {
        saturated = (uint32_t)__builtin_popcount((uint32_t)beyond_even | (uint32_t)beyond_odd << 8);
        even = clamp(even);
        odd = clamp(odd);
    }
    _mm512_mask_storeu_epi32(y, by->mask, _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)));
    return saturated;
}

/* Sums with codes of up to this absolute sum fit 32 bits: weights are below 2^7, those of int4 with their scales
 * at most 2^9. */
static inline int32_t narrow_sum_max(const sslm_matrix *matrix)
{
    return (int32_t)(SSLM_INT32_MAX >> (matrix->encoding == SSLM_PANEL_INT4 ? 9 : 7));
}

/* Rows of codes against panels. The last three are constants where this is inlined. */
ALWAYS_INLINE void finish_rows(const sslm_products *products, const sslm_sums *sums, const int panel_count,
                               const int has_bias, const int accumulates)
{
    const sslm_job *job = products->job;
    const sslm_matrix *matrix = &job->op->matrix;
    uint64_t *saturated = site_counts(job, products->thread);
    int32_t first_row = sums->panel * SSLM_PANEL_ROWS, sum_max = narrow_sum_max(matrix);
    int32_t exponent = matrix->exponent;
    const int32_t *high = sums->high, *low = sums->low, *picked = products->picked + sums->first;
    const sslm_code_row *code_rows = job->source.code_rows;
    uint8_t *base = job->out.base + 4 * (size_t)first_row;
    size_t next_panel = sums->next_panel, stride_bytes = job->out.stride_bytes;
    panel_scale by[2];
#pragma GCC unroll 2
    for (int p = 0; p < panel_count; p++)
        by[p] = panel_scale_of(matrix, first_row + SSLM_PANEL_ROWS * p, has_bias);
    for (int32_t i = sums->row_count; i > 0; i--, picked++, high += SSLM_PANEL_ROWS, low += SSLM_PANEL_ROWS) {
        size_t row = (size_t)*picked;
        int32_t *y = (int32_t *)(void *)(base + row * stride_bytes);
        int32_t shift = exponent - code_rows[row].exponent;
        int64_t half = (int64_t)((UINT64_C(1) << (shift & 63)) >> 1);
        rounding_shift rounding = {_mm512_set1_epi64(shift), _mm512_set1_epi64(half)};
        uint64_t beyond = 0;
        if ((uint32_t)shift > 62) {
            for (int p = 0; p < panel_count; p++)
                beyond += finish_row(job->op, first_row + SSLM_PANEL_ROWS * p, __builtin_popcount(by[p].mask), shift,
                                     high + (size_t)p * next_panel, low + (size_t)p * next_panel,
                                     y + SSLM_PANEL_ROWS * p);
        } else if (code_rows[row].absolute_sum <= sum_max) {
#pragma GCC unroll 2
            for (int p = 0; p < panel_count; p++)
                beyond += finish_panel_row(&by[p], &rounding, high + (size_t)p * next_panel,
                                           low + (size_t)p * next_panel, y + SSLM_PANEL_ROWS * p, 1, has_bias,
                                           accumulates);
        } else {
#pragma GCC unroll 2
            for (int p = 0; p < panel_count; p++)
                beyond += finish_panel_row(&by[p], &rounding, high + (size_t)p * next_panel,
                                           low + (size_t)p * next_panel, y + SSLM_PANEL_ROWS * p, 0, has_bias,
                                           accumulates);
        }
        if (beyond != 0) saturated[row] += beyond;
    }
}

void TIERED(sslm_finish_linear)(const sslm_products *products, const sslm_sums *sums)
{
    const sslm_op *op = products->job->op;
    switch ((sums->panel_count == 2) * 4 + (op->matrix.bias != NULL) * 2 + (op->accumulates != 0)) {
    case 0: finish_rows(products, sums, 1, 0, 0); break;
    case 1: finish_rows(products, sums, 1, 0, 1); break;
    case 2: finish_rows(products, sums, 1, 1, 0); break;
    case 3: finish_rows(products, sums, 1, 1, 1); break;
    case 4: finish_rows(products, sums, 2, 0, 0); break;
    case 5: finish_rows(products, sums, 2, 0, 1); break;
    case 6: finish_rows(products, sums, 2, 1, 0); break;
    default: finish_rows(products, sums, 2, 1, 1); break;
    }
}

#endif
