/* 256-bit vectors, for the tiers that have no wider ones. */
#ifndef SSLM_VECTORS_256_H
#define SSLM_VECTORS_256_H

#include <immintrin.h>

#include "inner.h"

ALWAYS_INLINE __m256i load(const void *from)
{
    return _mm256_loadu_si256(from);
}

ALWAYS_INLINE int32_t sum_all(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}

/* Put 2^bits · high + low at eight sums. */
ALWAYS_INLINE void store_halves(__m256i high, __m256i low, const int bits, int64_t *sums)
{
    for (int half = 0; half < 2; half++) {
        __m128i h = half ? _mm256_extracti128_si256(high, 1) : _mm256_castsi256_si128(high);
        __m128i l = half ? _mm256_extracti128_si256(low, 1) : _mm256_castsi256_si128(low);
        __m256i sum = _mm256_add_epi64(_mm256_slli_epi64(_mm256_cvtepi32_epi64(h), bits), _mm256_cvtepi32_epi64(l));
        _mm256_storeu_si256((__m256i *)(void *)(sums + 4 * half), sum);
    }
}

#endif
