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
ALWAYS_INLINE uint32_t beyond_int32(__m512i x)
{
    __m512i limit = _mm512_set1_epi64(SSLM_INT32_MAX);
    return _mm512_cmpgt_epu64_mask(_mm512_add_epi64(x, limit), _mm512_slli_epi64(limit, 1));
}

ALWAYS_INLINE __m512i clamp(__m512i x)
{
    __m512i limit = _mm512_set1_epi64(SSLM_INT32_MAX);
    return _mm512_max_epi64(_mm512_min_epi64(x, limit), _mm512_sub_epi64(_mm512_setzero_si512(), limit));
}

/* (256 · high + low) · mantissa, rounded after a shift, of the even numbers of 32 bits. */
ALWAYS_INLINE __m512i scale(__m512i high, __m512i low, __m512i mantissa, __m512i half, __m128i shift)
{
    __m512i upper = _mm512_slli_epi64(_mm512_mul_epi32(high, mantissa), 8);
    __m512i product = _mm512_add_epi64(upper, _mm512_add_epi64(_mm512_mul_epi32(low, mantissa), half));
    return _mm512_sra_epi64(product, shift);
}

void TIERED(sslm_finish_linear)(const sslm_products *products, int32_t panel, int32_t first, int32_t count,
                                const int32_t *high, const int32_t *low)
{
    const sslm_job *job = products->job;
    const sslm_matrix *matrix = &job->op->matrix;
    uint64_t *saturated = site_counts(job, products->thread);
    int32_t first_row = panel * SSLM_PANEL_ROWS;
    int32_t rest = matrix->out_features - first_row;
    int32_t output_count = rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
    __mmask16 mask = (__mmask16)((1u << output_count) - 1);
    __m512i mantissa = _mm512_maskz_loadu_epi32(mask, matrix->mantissas + first_row);
    __m512i odd_mantissa = _mm512_srli_epi64(mantissa, 32);
    both_halves bias = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (matrix->bias != NULL) bias = widen(_mm512_maskz_loadu_epi32(mask, matrix->bias + first_row));
    for (int32_t i = 0; i < count; i++, high += SSLM_PANEL_ROWS, low += SSLM_PANEL_ROWS) {
        int32_t row = products->picked[first + i];
        int32_t shift = matrix->exponent - job->source.code_rows[row].exponent;
        int32_t *y = int32_row(&job->out, row) + first_row;
        if (shift < 0 || shift > 62) {
            saturated[row] += finish_row(job->op, first_row, output_count, shift, high, low, y);
            continue;
        }
        __m512i half = _mm512_set1_epi64((INT64_C(1) << shift) >> 1);
        __m128i by = _mm_cvtsi32_si128(shift);
        __m512i h = _mm512_loadu_si512(high), l = _mm512_loadu_si512(low);
        __m512i even = scale(h, l, mantissa, half, by);
        __m512i odd = scale(_mm512_srli_epi64(h, 32), _mm512_srli_epi64(l, 32), odd_mantissa, half, by);
        even = _mm512_add_epi64(even, bias.even);
        odd = _mm512_add_epi64(odd, bias.odd);
        if (job->op->accumulates) {
            both_halves old = widen(_mm512_maskz_loadu_epi32(mask, y));
            even = _mm512_add_epi64(even, old.even);
            odd = _mm512_add_epi64(odd, old.odd);
        }
        uint32_t beyond = beyond_int32(even) | beyond_int32(odd) << 8;
        if (beyond != 0) {
            saturated[row] += (uint64_t)__builtin_popcount(beyond);
            even = clamp(even);
            odd = clamp(odd);
        }
        _mm512_mask_storeu_epi32(y, mask, _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32)));
    }
}

#endif
