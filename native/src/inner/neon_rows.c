/* Four lanes of 32 bits for AArch64, and the inner loops of rows over them. */
#include <arm_neon.h>

#include "rows.h"

#define LANES 4

typedef int32x4_t lanes;

/* 64-bit results of the lower two lanes, and of the upper two. */
typedef struct {
    int64x2_t lower, upper;
} wide_lanes;

ALWAYS_INLINE lanes load_lanes(const int32_t *from)
{
    return vld1q_s32(from);
}

ALWAYS_INLINE void store_lanes(int32_t *to, lanes x)
{
    vst1q_s32(to, x);
}

/* Store numbers that fit 16 bits. */
ALWAYS_INLINE void store_codes(int16_t *to, lanes x)
{
    vst1_s16(to, vmovn_s32(x));
}

ALWAYS_INLINE lanes all_lanes(int32_t x)
{
    return vdupq_n_s32(x);
}

/* LANES / 2 numbers, each twice. */
ALWAYS_INLINE lanes load_twice(const int32_t *from)
{
    int32x2_t half = vld1_s32(from);
    return vcombine_s32(vzip1_s32(half, half), vzip2_s32(half, half));
}

ALWAYS_INLINE lanes swap_neighbours(lanes x)
{
    return vrev64q_s32(x);
}

/* The even lanes of x negated. */
ALWAYS_INLINE lanes negate_even(lanes x)
{
    static const int32_t signs[4] = {-1, 1, -1, 1};
    return vmulq_s32(x, vld1q_s32(signs));
}

ALWAYS_INLINE lanes add_lanes(lanes a, lanes b)
{
    return vaddq_s32(a, b);
}

ALWAYS_INLINE lanes subtract_lanes(lanes a, lanes b)
{
    return vsubq_s32(a, b);
}

ALWAYS_INLINE lanes and_lanes(lanes a, lanes b)
{
    return vandq_s32(a, b);
}

/* The low 32 bits of products. */
ALWAYS_INLINE lanes multiply_low(lanes a, lanes b)
{
    return vmulq_s32(a, b);
}

/* Products of 16-bit numbers, b not negative. */
ALWAYS_INLINE lanes multiply_short(lanes a, lanes b)
{
    return vmulq_s32(a, b);
}

ALWAYS_INLINE lanes absolute(lanes x)
{
    return vabsq_s32(x);
}

/* x, and one more where a and b have a bit in common. b is not negative. */
ALWAYS_INLINE lanes add_if_common(lanes x, lanes a, lanes b)
{
    return vsubq_s32(x, vreinterpretq_s32_u32(vtstq_s32(a, b)));
}

/* whole - x where sign is not negative, else x. */
ALWAYS_INLINE lanes reflect(lanes sign, lanes whole, lanes x)
{
    return vbslq_s32(vcltzq_s32(sign), x, vsubq_s32(whole, x));
}

ALWAYS_INLINE lanes shift_right(lanes x, int32_t bits)
{
    return vshlq_s32(x, vdupq_n_s32(-bits));
}

ALWAYS_INLINE lanes shift_right_unsigned(lanes x, int32_t bits)
{
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-bits)));
}

/* table[a >> 10] and table[(a >> 10) + 1]; zeros where a is not below 2^20. */
ALWAYS_INLINE void look_up(const int32_t *table, lanes a, lanes *here, lanes *next)
{
    uint32x4_t unsigned_a = vreinterpretq_u32_s32(a), inside = vminq_u32(unsigned_a, vdupq_n_u32((1 << 20) - 1));
    int32x4_t is_inside = vreinterpretq_s32_u32(vceqq_u32(unsigned_a, inside));
    uint32x4_t index = vshrq_n_u32(inside, 10);
    int32x2_t pairs[LANES] = {
        vld1_s32(table + vgetq_lane_u32(index, 0)),
        vld1_s32(table + vgetq_lane_u32(index, 1)),
        vld1_s32(table + vgetq_lane_u32(index, 2)),
        vld1_s32(table + vgetq_lane_u32(index, 3)),
    };
    int32x4_t first = vcombine_s32(pairs[0], pairs[1]), last = vcombine_s32(pairs[2], pairs[3]);
    *here = vandq_s32(vuzp1q_s32(first, last), is_inside);
    *next = vandq_s32(vuzp2q_s32(first, last), is_inside);
}

ALWAYS_INLINE wide_lanes multiply(lanes a, lanes b)
{
    return (wide_lanes){vmull_s32(vget_low_s32(a), vget_low_s32(b)), vmull_high_s32(a, b)};
}

ALWAYS_INLINE wide_lanes add_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){vaddq_s64(a.lower, b.lower), vaddq_s64(a.upper, b.upper)};
}

ALWAYS_INLINE wide_lanes subtract_wide(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){vsubq_s64(a.lower, b.lower), vsubq_s64(a.upper, b.upper)};
}

ALWAYS_INLINE wide_lanes all_wide(int64_t x)
{
    return (wide_lanes){vdupq_n_s64(x), vdupq_n_s64(x)};
}

ALWAYS_INLINE wide_lanes shift_left_wide(wide_lanes x, const int bits)
{
    return (wide_lanes){vshlq_s64(x.lower, vdupq_n_s64(bits)), vshlq_s64(x.upper, vdupq_n_s64(bits))};
}

/* The low 32 bits of x >> bits; bits is 0 … 32. */
ALWAYS_INLINE lanes narrow(wide_lanes x, int32_t bits)
{
    int64x2_t count = vdupq_n_s64(-bits);
    return vuzp1q_s32(vreinterpretq_s32_s64(vshlq_s64(x.lower, count)),
                      vreinterpretq_s32_s64(vshlq_s64(x.upper, count)));
}

/* x >> 32. */
ALWAYS_INLINE lanes high_halves_of(wide_lanes x)
{
    return vuzp2q_s32(vreinterpretq_s32_s64(x.lower), vreinterpretq_s32_s64(x.upper));
}

ALWAYS_INLINE int64x2_t larger_of(int64x2_t a, int64x2_t b)
{
    return vbslq_s64(vcgtq_s64(a, b), a, b);
}

ALWAYS_INLINE wide_lanes larger(wide_lanes a, wide_lanes b)
{
    return (wide_lanes){larger_of(a.lower, b.lower), larger_of(a.upper, b.upper)};
}

ALWAYS_INLINE int64_t largest_of(wide_lanes x)
{
    int64x2_t both = larger_of(x.lower, x.upper);
    int64_t first = vgetq_lane_s64(both, 0), last = vgetq_lane_s64(both, 1);
    return first > last ? first : last;
}

#include "row_loops.h"

/* The compiler's own loop is as good. */
int32_t sslm_weigh_lanes_neon(const uint32_t *exponents, int32_t count, uint64_t *weights)
{
    (void)exponents, (void)count, (void)weights;
    return 0;
}
