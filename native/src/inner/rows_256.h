/* 8 lanes of 32 bits, for the tiers with AVX2; and the inner loops of rows over them. */
#ifndef SSLM_ROWS_256_H
#define SSLM_ROWS_256_H

#include <immintrin.h>

#include "rows.h"
#include "weights.h"

#define LANES 8

typedef __m256i lanes;

/* 64-bit results of even lanes, and of odd lanes. */
typedef struct {
    __m256i even, odd;
} wide_lanes;

ALWAYS_INLINE lanes load_lanes(const int32_t *from)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

ALWAYS_INLINE void store_lanes(int32_t *to, lanes x)
{
    _mm256_storeu_si256((__m256i *)(void *)to, x);
}

/* Store numbers that fit 16 bits. */
ALWAYS_INLINE void store_codes(int16_t *to, lanes x)
{
    __m128i codes = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storeu_si128((__m128i *)(void *)to, codes);
}

ALWAYS_INLINE lanes all_lanes(int32_t x)
{
    return _mm256_set1_epi32(x);
}

/* LANES / 2 numbers, each twice. */
ALWAYS_INLINE lanes load_twice(const int32_t *from)
{
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(half), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

ALWAYS_INLINE lanes swap_neighbours(lanes x)
{
    return _mm256_shuffle_epi32(x, 0xb1);
}

/* The even lanes of x negated. */
ALWAYS_INLINE lanes negate_even(lanes x)
{
    return _mm256_sign_epi32(x, _mm256_setr_epi32(-1, 1, -1, 1, -1, 1, -1, 1));
}

ALWAYS_INLINE lanes add_lanes(lanes a, lanes b)
{
    return _mm256_add_epi32(a, b);
}

ALWAYS_INLINE lanes subtract_lanes(lanes a, lanes b)
{
    return _mm256_sub_epi32(a, b);
}

ALWAYS_INLINE lanes and_lanes(lanes a, lanes b)
{
    return _mm256_and_si256(a, b);
}

/* The low 32 bits of products. */
ALWAYS_INLINE lanes multiply_low(lanes a, lanes b)
{
    return _mm256_mullo_epi32(a, b);
}

/* Products of 16-bit numbers, b not negative. */
ALWAYS_INLINE lanes multiply_short(lanes a, lanes b)
{
    return _mm256_madd_epi16(a, b);
}

ALWAYS_INLINE lanes absolute(lanes x)
{
    return _mm256_abs_epi32(x);
}

/* x, and one more where a and b have a bit in common. b is not negative. */
ALWAYS_INLINE lanes add_if_common(lanes x, lanes a, lanes b)
{
    return _mm256_sub_epi32(x, _mm256_cmpgt_epi32(_mm256_and_si256(a, b), _mm256_setzero_si256()));
}

/* whole - x where sign is not negative, else x. */
ALWAYS_INLINE lanes reflect(lanes sign, lanes whole, lanes x)
{
    return _mm256_blendv_epi8(_mm256_sub_epi32(whole, x), x, _mm256_srai_epi32(sign, 31));
}

ALWAYS_INLINE lanes shift_right(lanes x, int32_t bits)
{
    return _mm256_srav_epi32(x, _mm256_set1_epi32(bits));
}

ALWAYS_INLINE lanes shift_right_unsigned(lanes x, int32_t bits)
{
    return _mm256_srlv_epi32(x, _mm256_set1_epi32(bits));
}

ALWAYS_INLINE __m128i two_pairs(const int32_t *table, int32_t first, int32_t last)
{
    int64_t low, high;
    __builtin_memcpy(&low, table + first, sizeof low);
    __builtin_memcpy(&high, table + last, sizeof high);
    return _mm_set_epi64x(high, low);
}

/* table[a >> 10] and table[(a >> 10) + 1]; zeros where a is not below 2^20. By loads, since the instruction for it is
 * slow on many of these CPUs. */
ALWAYS_INLINE void look_up(const int32_t *table, lanes a, lanes *here, lanes *next)
{
    int32_t index[LANES];
    __m256i end = _mm256_set1_epi32((1 << 20) - 1);
    __m256i inside = _mm256_min_epu32(a, end), is_inside = _mm256_cmpeq_epi32(a, inside);
    store_lanes(index, _mm256_srli_epi32(inside, 10));
    __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(two_pairs(table, index[0], index[1])),
                                            two_pairs(table, index[4], index[5]), 1);
    __m256i last = _mm256_inserti128_si256(_mm256_castsi128_si256(two_pairs(table, index[2], index[3])),
                                           two_pairs(table, index[6], index[7]), 1);
    /* Only shuffles of this name take from two vectors. */
    __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(last), 0x88);
    __m256 odd = _mm256_shuffle_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(last), 0xdd);
    *here = _mm256_and_si256(_mm256_castps_si256(even), is_inside);
    *next = _mm256_and_si256(_mm256_castps_si256(odd), is_inside);
}

ALWAYS_INLINE __m256i odd_to_even(__m256i x)
{
    return _mm256_shuffle_epi32(x, 0xf5);
}

ALWAYS_INLINE wide_lanes multiply(lanes a, lanes b)
{
    return (wide_lanes){_mm256_mul_epi32(a, b), _mm256_mul_epi32(odd_to_even(a), odd_to_even(b))};
}

ALWAYS_INLINE wide_lanes add_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){_mm256_add_epi64(a.even, b.even), _mm256_add_epi64(a.odd, b.odd)};
}

ALWAYS_INLINE wide_lanes subtract_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){_mm256_sub_epi64(a.even, b.even), _mm256_sub_epi64(a.odd, b.odd)};
}

ALWAYS_INLINE wide_lanes all_wide(int64_t x)
{
    return (wide_lanes){_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)};
}

ALWAYS_INLINE wide_lanes shift_left_wide(wide_lanes x, const int bits)
{
    return (wide_lanes){_mm256_slli_epi64(x.even, bits), _mm256_slli_epi64(x.odd, bits)};
}

/* The low halves of even, the high halves of odd. */
ALWAYS_INLINE lanes join(__m256i even, __m256i odd)
{
    return _mm256_blend_epi32(even, odd, 0xaa);
}

/* The low 32 bits of x >> bits; bits is 0 … 32. */
ALWAYS_INLINE lanes narrow(wide_lanes x, int32_t bits)
{
    return join(_mm256_srlv_epi64(x.even, _mm256_set1_epi64x(bits)),
                _mm256_sllv_epi64(x.odd, _mm256_set1_epi64x(32 - bits)));
}

/* x >> 32. */
ALWAYS_INLINE lanes high_halves_of(wide_lanes x)
{
    return join(odd_to_even(x.even), x.odd);
}

ALWAYS_INLINE __m256i larger_of(__m256i a, __m256i b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a));
}

ALWAYS_INLINE wide_lanes larger(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){larger_of(a.even, b.even), larger_of(a.odd, b.odd)};
}

ALWAYS_INLINE int64_t largest_of(wide_lanes x)
{
    int64_t parts[4], largest = 0;
    _mm256_storeu_si256((__m256i *)(void *)parts, larger_of(x.even, x.odd));
    for (int i = 0; i < 4; i++) largest = parts[i] > largest ? parts[i] : largest;
    return largest;
}

/* c - (fraction · h >> 32) */
ALWAYS_INLINE __m256i weigh_step(__m256i fraction, __m256i h, int64_t c)
{
    return _mm256_sub_epi64(_mm256_set1_epi64x(c), _mm256_srli_epi64(_mm256_mul_epu32(fraction, h), 32));
}

int32_t TIERED(sslm_weigh_lanes)(const uint32_t *exponents, int32_t count, uint64_t *weights)
{
    int32_t done = 0;
    for (; done + 4 <= count; done += 4) {
        __m256i t = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(const void *)(exponents + done)));
        __m256i fraction = _mm256_slli_epi64(t, 32 - SSLM_EXPONENT_BITS);
        __m256i whole = _mm256_srli_epi64(t, SSLM_EXPONENT_BITS);
        __m256i h = weigh_step(fraction, _mm256_set1_epi64x(SSLM_WEIGHT_7), SSLM_WEIGHT_6);
        h = weigh_step(fraction, h, SSLM_WEIGHT_5);
        h = weigh_step(fraction, h, SSLM_WEIGHT_4);
        h = weigh_step(fraction, h, SSLM_WEIGHT_3);
        h = weigh_step(fraction, h, SSLM_WEIGHT_2);
        h = weigh_step(fraction, h, SSLM_WEIGHT_1);
        h = _mm256_srli_epi64(_mm256_mul_epu32(fraction, h), 64 - SSLM_WEIGHT_BITS);
        __m256i doubled = _mm256_sub_epi64(_mm256_set1_epi64x(INT64_C(2) << SSLM_WEIGHT_BITS), _mm256_slli_epi64(h, 1));
        h = _mm256_add_epi64(_mm256_srlv_epi64(doubled, whole), _mm256_set1_epi64x(1));
        _mm256_storeu_si256((__m256i *)(void *)(weights + done), _mm256_srli_epi64(h, 1));
    }
    return done;
}

#include "row_loops.h"

#endif
