/* The inner loops of attention for AArch64. */
#include <arm_neon.h>

#include "row_weights.h"

#define TOKENS 1
#define DIMS 1
#include "single_rows_lanes.h"
#include "tiles_lanes.h"

/* The sums of one plane: a vector has those of the even and of the odd parts of the pairs of two lanes. */
typedef struct {
    int32x4_t parts[SSLM_LANES / 2];
} plane_sums;

ALWAYS_INLINE void clear_lanes(plane_sums *sums)
{
#pragma GCC unroll 8
    for (int i = 0; i < SSLM_LANES / 2; i++) sums->parts[i] = vdupq_n_s32(0);
}

ALWAYS_INLINE void add_lanes(plane_sums *sums, const int16_t *left, int16x8_t pair)
{
#pragma GCC unroll 4
    for (int i = 0; i < SSLM_LANES / 4; i++) {
        int16x8_t four = vld1q_s16(left + 8 * i);
        sums->parts[2 * i] = vmlal_s16(sums->parts[2 * i], vget_low_s16(four), vget_low_s16(pair));
        sums->parts[2 * i + 1] = vmlal_high_s16(sums->parts[2 * i + 1], four, pair);
    }
}

ALWAYS_INLINE void store_lanes(const plane_sums *sums, lane_sums out)
{
#pragma GCC unroll 4
    for (int i = 0; i < SSLM_LANES / 4; i++)
        vst1q_s32(out + 4 * i, vpaddq_s32(sums->parts[2 * i], sums->parts[2 * i + 1]));
}

static void dot_lanes(const int16_t *queries, const int16_t *keys, int32_t head_dim, lane_sums high[TOKENS],
                      lane_sums low[TOKENS])
{
    plane_sums h, l;
    clear_lanes(&h);
    clear_lanes(&l);
    for (int32_t d = 0; d < head_dim; d += 2, queries += 4 * SSLM_LANES) {
        int16x8_t pair = vreinterpretq_s16_s32(vdupq_n_s32(pair_at(keys + d)));
        add_lanes(&h, queries, pair);
        add_lanes(&l, queries + 2 * SSLM_LANES, pair);
    }
    store_lanes(&h, high[0]);
    store_lanes(&l, low[0]);
}

static void weigh_lanes(const weight_list *list, const int16_t *values, int32_t head_dim, lane_sums high[DIMS],
                        lane_sums low[DIMS])
{
    plane_sums h, l;
    clear_lanes(&h);
    clear_lanes(&l);
    for (int32_t index = 0; index < list->count; index++) {
        const int16_t *pairs = values + 2 * (size_t)list->pairs[index] * (size_t)head_dim;
        int16x8_t pair = vreinterpretq_s16_s32(vdupq_n_s32(pair_at(pairs)));
        add_lanes(&h, (const int16_t *)(const void *)list->high[index], pair);
        add_lanes(&l, (const int16_t *)(const void *)list->low[index], pair);
    }
    store_lanes(&h, high[0]);
    store_lanes(&l, low[0]);
}

static void dot_keys(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first, int32_t last,
                     int64_t *sums)
{
    int32_t whole = head_dim / 8 * 8;
    /* A page holds 64 tokens, so that whole groups of four can be read whatever they contain. */
    for (int32_t token = first / 4 * 4; token < last; token += 4) {
        const int16_t *group = keys + (size_t)token * (size_t)head_dim;
        int64x2_t parts[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) parts[i] = vdupq_n_s64(0);
        for (int32_t d = 0; d < whole; d += 8) {
            int16x8_t q = vld1q_s16(query + d);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                int16x8_t k = vld1q_s16(group + i * head_dim + d);
                parts[i] = vpadalq_s32(parts[i], vmull_s16(vget_low_s16(q), vget_low_s16(k)));
                parts[i] = vpadalq_s32(parts[i], vmull_high_s16(q, k));
            }
        }
        for (int i = 0; i < 4; i++) {
            int64_t sum = vaddvq_s64(parts[i]);
            for (int32_t d = whole; d < head_dim; d++) sum += query[d] * group[i * head_dim + d];
            sums[token + i] = sum;
        }
    }
}

/* Four dims of one page: a vector of values holds an even and an odd token's of each. */
typedef struct {
    int32x4_t high[2];
    int32x4_t low[2];
} value_sums;

ALWAYS_INLINE void weigh_four(value_sums *sums, int16x8_t high, int16x8_t low, const int16_t *values)
{
    int16x8_t v = vld1q_s16(values);
    sums->high[0] = vmlal_s16(sums->high[0], vget_low_s16(high), vget_low_s16(v));
    sums->high[1] = vmlal_high_s16(sums->high[1], high, v);
    sums->low[0] = vmlal_s16(sums->low[0], vget_low_s16(low), vget_low_s16(v));
    sums->low[1] = vmlal_high_s16(sums->low[1], low, v);
}

/* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
ALWAYS_INLINE void store_four(const value_sums *sums, int64_t *out)
{
    int32x4_t high = vpaddq_s32(sums->high[0], sums->high[1]), low = vpaddq_s32(sums->low[0], sums->low[1]);
    vst1q_s64(out, vaddw_s32(vshll_n_s32(vget_low_s32(high), 10), vget_low_s32(low)));
    vst1q_s64(out + 2, vaddw_high_s32(vshll_high_n_s32(high, 10), low));
}

/* Dims d … d + 4 · fours - 1; `fours` is a constant where this is inlined, at most 4. */
ALWAYS_INLINE void weigh_dims(const int32_t *high, const int32_t *low, const int16_t *values, int32_t head_dim,
                              int32_t first, int32_t last, const int fours, int64_t *out)
{
    value_sums sums[4];
    int32x4_t zero = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int i = 0; i < fours; i++) sums[i] = (value_sums){{zero, zero}, {zero, zero}};
    for (int32_t pair = first; pair < last; pair++) {
        const int16_t *v = values + 2 * (size_t)pair * (size_t)head_dim;
        int16x8_t h = vreinterpretq_s16_s32(vdupq_n_s32(high[pair])), l = vreinterpretq_s16_s32(vdupq_n_s32(low[pair]));
#pragma GCC unroll 4
        for (int i = 0; i < fours; i++) weigh_four(&sums[i], h, l, v + 8 * i);
    }
#pragma GCC unroll 4
    for (int i = 0; i < fours; i++) store_four(&sums[i], out + 4 * i);
}

static void weigh_values(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first,
                         int32_t last, int64_t *sums)
{
    int32_t high[SSLM_PAGE_TOKENS / 2], low[SSLM_PAGE_TOKENS / 2];
    halve_weights(weights, first, last, high, low);
    int32_t d = 0;
    for (; d + 16 <= head_dim; d += 16) weigh_dims(high, low, values + 2 * d, head_dim, first, last, 4, sums + d);
    for (; d + 4 <= head_dim; d += 4) weigh_dims(high, low, values + 2 * d, head_dim, first, last, 1, sums + d);
    weigh_rest(weights, values, head_dim, d, first, last, sums);
}
