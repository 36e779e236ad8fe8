/* The integer arithmetic of docs/arithmetic.md, sections 1 and 2. */
#ifndef SSLM_ARITHMETIC_H
#define SSLM_ARITHMETIC_H

#include <stdint.h>

/* Right shifts of negative numbers are arithmetic in every compiler that is supported. */
_Static_assert((-3 >> 1) == -2, "arithmetic right shift");

#define SSLM_CODE_MAX 32639
#define SSLM_INT32_MAX INT64_C(2147483647)

/* |x| < 2^62. */
static inline int64_t rshift_round(int64_t x, int32_t shift)
{
    if (shift > 62) return 0;
    return (x + ((INT64_C(1) << shift) >> 1)) >> shift;
}

/* |x| < 2^62, and x · 2^-shift has to fit where shift is negative. */
static inline int64_t scale_shift(int64_t x, int32_t shift)
{
    return shift >= 0 ? rshift_round(x, shift) : x * (INT64_C(1) << -shift);
}

/* The same for shifts of -24 … 62, in a form that gcc turns into vectors: the last bit is rounded after the
 * shift. */
static inline int64_t scale_shift_flat(int64_t x, int32_t shift)
{
    int64_t right = shift > 0 ? shift : 0, left = right - shift;
    int64_t doubled = (int64_t)((uint64_t)x << (left + 1));
    return ((doubled >> right) + 1) >> 1;
}

static inline uint64_t div_round(uint64_t a, uint64_t d)
{
    return (2 * a + d) / (2 * d);
}

static inline int64_t clamp32(int64_t x)
{
    x = x > SSLM_INT32_MAX ? SSLM_INT32_MAX : x;
    return x < -SSLM_INT32_MAX ? -SSLM_INT32_MAX : x;
}

static inline int32_t bit_length(uint64_t x)
{
    return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

/* floor(sqrt(x)) for x from 2^62. Each line is a step of Newton's method towards R = sqrt(x >> 56), (x >> 48),
 * (x >> 32) and x, from A = root · 2^b, which is less than 2^b away from R. The mean of A and R² / A is above R by
 * (A - R)² / 2A < 1, as root is at least 2^(b - 1); so its floor, the next root, is right or 1 too large. */
static inline uint64_t isqrt(uint64_t x)
{
    uint32_t root = 1 + (uint32_t)(x >> 62);
    root = (root << 1) + (uint32_t)(x >> 59) / root;
    root = (root << 3) + (uint32_t)(x >> 53) / root;
    root = (root << 7) + (uint32_t)(x >> 41) / root;
    uint64_t last = ((uint64_t)root << 15) + (x >> 17) / root;
    return last - (last > UINT32_MAX || last * last > x);
}

/* The exponent of a row whose largest absolute value is below 2^62. */
static inline int32_t block_exponent(uint64_t largest)
{
    int32_t shift = bit_length(largest) - 15;
    if (shift <= 0) shift = 0;
    return rshift_round((int64_t)largest, shift) > SSLM_CODE_MAX ? shift + 1 : shift;
}

static inline uint32_t abs32(int32_t x)
{
    return x < 0 ? 0u - (uint32_t)x : (uint32_t)x;
}

static inline uint32_t largest_size(const int32_t *row, int32_t count)
{
    uint32_t largest = 0;
    for (int32_t i = 0; i < count; i++) {
        uint32_t size = abs32(row[i]);
        largest = size > largest ? size : largest;
    }
    return largest;
}

static inline int32_t block_exponent_int32(const int32_t *row, int32_t count)
{
    return block_exponent(largest_size(row, count));
}

/* rshift_round(x, exponent) for a code of an int32 row, in 32 bits: what is rounded is the last bit that was shifted
 * out. */
static inline int32_t code_of(int32_t x, int32_t exponent)
{
    int32_t half = (1 << exponent) >> 1;
    return (x >> exponent) + ((x & half) != 0);
}

/* From here on pow2neg is 0. */
#define POW2_END (22u << 16)

/* 2^20 · 2^-t at 16 fraction bits. nodes is the table X. At POW2_END the formula itself gives 0. */
static inline uint32_t pow2neg(const int32_t *nodes, uint32_t t)
{
    t = t < POW2_END ? t : POW2_END;
    uint32_t whole = t >> 16, node = (t & 0xffff) >> 10, rest = t & 0x3ff;
    uint32_t high = (uint32_t)nodes[node], low = (uint32_t)nodes[node + 1];
    uint32_t y = high - (((high - low) * rest + 512) >> 10);
    return (y + (1u << (3 + whole))) >> (4 + whole);
}

/* 2^28 · sigmoid(-a) at 16 fraction bits. nodes is the table G. */
static inline uint32_t sigmoid_neg(const int32_t *nodes, uint32_t a)
{
    uint32_t is_inside = 0u - (uint32_t)(a < (1u << 20));
    uint32_t node = (a & is_inside) >> 10, rest = a & 0x3ff;
    uint32_t high = (uint32_t)nodes[node], low = (uint32_t)nodes[node + 1];
    return (high - (((high - low) * rest + 512) >> 10)) & is_inside;
}

#endif
