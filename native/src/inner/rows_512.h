/* 16 lanes of 32 bits, for the tiers with AVX-512; and the inner loops of rows over them. */
#ifndef SSLM_ROWS_512_H
#define SSLM_ROWS_512_H

#include <immintrin.h>

#include "rows.h"
#include "weights.h"

#define LANES 16

typedef __m512i lanes;

/* 64-bit results of even lanes, and of odd lanes. */
typedef struct {
    __m512i even, odd;
} wide_lanes;

ALWAYS_INLINE lanes load_lanes(const int32_t *from)
{
    return _mm512_loadu_si512(from);
}

ALWAYS_INLINE void store_lanes(int32_t *to, lanes x)
{
    _mm512_storeu_si512(to, x);
}

/* Store numbers that fit 16 bits. */
ALWAYS_INLINE void store_codes(int16_t *to, lanes x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(x));
}

ALWAYS_INLINE lanes all_lanes(int32_t x)
{
    return _mm512_set1_epi32(x);
}

/* LANES / 2 numbers, each twice. */
ALWAYS_INLINE lanes load_twice(const int32_t *from)
{
    const __m512i order = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm512_permutexvar_epi32(order, _mm512_castsi256_si512(half));
}

ALWAYS_INLINE lanes swap_neighbours(lanes x)
{
    return _mm512_shuffle_epi32(x, 0xb1);
}

/* The even lanes of x negated. */
ALWAYS_INLINE lanes negate_even(lanes x)
{
    return _mm512_mask_sub_epi32(x, 0x5555, _mm512_setzero_si512(), x);
}

ALWAYS_INLINE lanes add_lanes(lanes a, lanes b)
{
    return _mm512_add_epi32(a, b);
}

ALWAYS_INLINE lanes subtract_lanes(lanes a, lanes b)
{
    return _mm512_sub_epi32(a, b);
}

ALWAYS_INLINE lanes and_lanes(lanes a, lanes b)
{
    return _mm512_and_si512(a, b);
}

/* The low 32 bits of products. */
ALWAYS_INLINE lanes multiply_low(lanes a, lanes b)
{
    return _mm512_mullo_epi32(a, b);
}

/* Products of 16-bit numbers, b not negative. */
ALWAYS_INLINE lanes multiply_short(lanes a, lanes b)
{
    return _mm512_madd_epi16(a, b);
}

ALWAYS_INLINE lanes absolute(lanes x)
{
    return _mm512_abs_epi32(x);
}

/* x, and one more where a and b have a bit in common. b is not negative. */
ALWAYS_INLINE lanes add_if_common(lanes x, lanes a, lanes b)
{
    return _mm512_mask_sub_epi32(x, _mm512_test_epi32_mask(a, b), x, _mm512_set1_epi32(-1));
}

/* whole - x where sign is not negative, else x. */
ALWAYS_INLINE lanes reflect(lanes sign, lanes whole, lanes x)
{
    return _mm512_mask_sub_epi32(x, _mm512_cmpge_epi32_mask(sign, _mm512_setzero_si512()), whole, x);
}

ALWAYS_INLINE lanes shift_right(lanes x, int32_t bits)
{
    return _mm512_srav_epi32(x, _mm512_set1_epi32(bits));
}

ALWAYS_INLINE lanes shift_right_unsigned(lanes x, int32_t bits)
{
    return _mm512_srlv_epi32(x, _mm512_set1_epi32(bits));
}

/* table[a >> 10] and table[(a >> 10) + 1]; zeros where a is not below 2^20. */
ALWAYS_INLINE void look_up(const int32_t *table, lanes a, lanes *here, lanes *next)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    __m512i zero = _mm512_setzero_si512(), index = _mm512_srli_epi32(a, 10);
    __mmask16 inside = _mm512_cmplt_epu32_mask(a, _mm512_set1_epi32(1 << 20));
    __m256i first = _mm512_castsi512_si256(index), last = _mm512_extracti64x4_epi64(index, 1);
    __m512i low = _mm512_mask_i32gather_epi64(zero, (__mmask8)inside, first, table, 4);
    __m512i high = _mm512_mask_i32gather_epi64(zero, (__mmask8)(inside >> 8), last, table, 4);
    *here = _mm512_permutex2var_epi32(low, even, high);
    *next = _mm512_permutex2var_epi32(low, odd, high);
}

ALWAYS_INLINE __m512i odd_to_even(__m512i x)
{
    return _mm512_shuffle_epi32(x, 0xf5);
}

ALWAYS_INLINE wide_lanes multiply(lanes a, lanes b)
{
    return (wide_lanes){_mm512_mul_epi32(a, b), _mm512_mul_epi32(odd_to_even(a), odd_to_even(b))};
}

ALWAYS_INLINE wide_lanes add_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){_mm512_add_epi64(a.even, b.even), _mm512_add_epi64(a.odd, b.odd)};
}

ALWAYS_INLINE wide_lanes subtract_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){_mm512_sub_epi64(a.even, b.even), _mm512_sub_epi64(a.odd, b.odd)};
}

ALWAYS_INLINE wide_lanes all_wide(int64_t x)
{
    return (wide_lanes){_mm512_set1_epi64(x), _mm512_set1_epi64(x)};
}

ALWAYS_INLINE wide_lanes shift_left_wide(wide_lanes x, const unsigned bits)
{
    return (wide_lanes){_mm512_slli_epi64(x.even, bits), _mm512_slli_epi64(x.odd, bits)};
}

/* The low halves of even, the high halves of odd. */
ALWAYS_INLINE lanes join(__m512i even, __m512i odd)
{
    return _mm512_ternarylogic_epi64(_mm512_set1_epi64(0xffffffff), even, odd, 0xca);
}

/* The low 32 bits of x >> bits; bits is 0 … 32. */
ALWAYS_INLINE lanes narrow(wide_lanes x, int32_t bits)
{
    return join(_mm512_srlv_epi64(x.even, _mm512_set1_epi64(bits)),
                _mm512_sllv_epi64(x.odd, _mm512_set1_epi64(32 - bits)));
}

/* x >> 32. */
ALWAYS_INLINE lanes high_halves_of(wide_lanes x)
{
    return join(odd_to_even(x.even), x.odd);
}

ALWAYS_INLINE wide_lanes larger(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){_mm512_max_epi64(a.even, b.even), _mm512_max_epi64(a.odd, b.odd)};
}

ALWAYS_INLINE int64_t largest_of(wide_lanes x)
{
    return _mm512_reduce_max_epi64(_mm512_max_epi64(x.even, x.odd));
}

/* c - (fraction · h >> 32) */
ALWAYS_INLINE __m512i weigh_step(__m512i fraction, __m512i h, int64_t c)
{
    return _mm512_sub_epi64(_mm512_set1_epi64(c), _mm512_srli_epi64(_mm512_mul_epu32(fraction, h), 32));
}

int32_t TIERED(sslm_weigh_lanes)(const uint32_t *exponents, int32_t count, uint64_t *weights)
{
    int32_t done = 0;
    for (; done + 8 <= count; done += 8) {
        __m512i t = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)(exponents + done)));
        __m512i fraction = _mm512_slli_epi64(t, 32 - SSLM_EXPONENT_BITS);
        __m512i whole = _mm512_srli_epi64(t, SSLM_EXPONENT_BITS);
        __m512i h = weigh_step(fraction, _mm512_set1_epi64(SSLM_WEIGHT_7), SSLM_WEIGHT_6);
        h = weigh_step(fraction, h, SSLM_WEIGHT_5);
        h = weigh_step(fraction, h, SSLM_WEIGHT_4);
        h = weigh_step(fraction, h, SSLM_WEIGHT_3);
        h = weigh_step(fraction, h, SSLM_WEIGHT_2);
        h = weigh_step(fraction, h, SSLM_WEIGHT_1);
        h = _mm512_srli_epi64(_mm512_mul_epu32(fraction, h), 64 - SSLM_WEIGHT_BITS);
        __m512i doubled = _mm512_sub_epi64(_mm512_set1_epi64(INT64_C(2) << SSLM_WEIGHT_BITS), _mm512_slli_epi64(h, 1));
        h = _mm512_add_epi64(_mm512_srlv_epi64(doubled, whole), _mm512_set1_epi64(1));
        _mm512_storeu_si512((__m512i *)(void *)(weights + done), _mm512_srli_epi64(h, 1));
    }
    return done;
}

#include "row_loops.h"

#endif
