/* 512-bit vectors, for the tiers that have them. */
#ifndef SSLM_VECTORS_512_H
#define SSLM_VECTORS_512_H

#include <immintrin.h>

#include "inner.h"

/* Put 2^bits · high + low at the sums of a mask. */
ALWAYS_INLINE void store_planes(__m512i high, __m512i low, const unsigned bits, __mmask16 mask, int64_t *sums)
{
    for (int half = 0; half < 2; half++) {
        __m256i h = half ? _mm512_extracti64x4_epi64(high, 1) : _mm512_castsi512_si256(high);
        __m256i l = half ? _mm512_extracti64x4_epi64(low, 1) : _mm512_castsi512_si256(low);
        __m512i upper = _mm512_slli_epi64(_mm512_cvtepi32_epi64(h), bits);
        __m512i sum = _mm512_add_epi64(upper, _mm512_cvtepi32_epi64(l));
        _mm512_mask_storeu_epi64(sums + 8 * half, (__mmask8)(mask >> 8 * half), sum);
    }
}

#endif
