/* Products of int4 weights for AArch64, with its dot products of signed bytes (SDOT). */
#include <arm_neon.h>

#include "products_int4.h"
#include "stream.h"

void sslm_store_codes_int4_neon(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    int32_t groups = int4_groups(rows->width);
    int8_t *out = (int8_t *)row_records(rows, row);
    for (int32_t group = 0; group < groups; group++, codes += 32, out += 4 * RECORD_INTS) {
        int16x8_t sum_high = vdupq_n_s16(0), sum_low = sum_high;
        for (int i = 0; i < 4; i++) {
            int16x8_t code = vld1q_s16(codes + 8 * i);
            int8x8_t high = vrshrn_n_s16(code, 8), low = vmovn_s16(code);
            sum_high = vaddw_s8(sum_high, high);
            sum_low = vaddw_s8(sum_low, low);
            int32x2_t h = vreinterpret_s32_s8(high), l = vreinterpret_s32_s8(low);
            vst1q_s8(out + 8 + 16 * i, vreinterpretq_s8_s32(vcombine_s32(vzip1_s32(h, l), vzip2_s32(h, l))));
        }
        int32_t start[2] = {-8 * vaddlvq_s16(sum_high), -8 * vaddlvq_s16(sum_low)};
        __builtin_memcpy(out, start, sizeof start);
    }
}

/* Quarters of a panel, four rows each, against one or two rows of codes; if this is the panel's first use, it comes
 * from memory. row_count, first and last are constants where this is inlined: four quarters of one row, or two of
 * two, have 16 accumulators, of 32 registers. */
ALWAYS_INLINE void dot_rows(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                            const int row_count, const int first, const int last, int32_t *high_out, int32_t *low_out)
{
    const int8_t *x[2];
    int32x4_t high[2][4], low[2][4];
    int32_t groups = int4_groups(codes->width);
    const uint8_t *words = panel + int4_scales_size_bytes(codes->width);
    const uint8x16_t nibble = vdupq_n_u8(15);
#pragma GCC unroll 2
    for (int i = 0; i < row_count; i++) {
        x[i] = (const int8_t *)row_records(codes, picked[i]);
#pragma GCC unroll 4
        for (int j = first; j < last; j++) high[i][j] = low[i][j] = vdupq_n_s32(0);
    }
    if (is_first)
        for (const uint8_t *line = panel; line < words; line += 64) keep_streaming(line, 1);
    for (int32_t group = 0; group < groups; group++, panel += 16, words += 256) {
        int32x4_t group_high[2][4], group_low[2][4];
#pragma GCC unroll 2
        for (int i = 0; i < row_count; i++) {
            int32_t start[2];
            __builtin_memcpy(start, x[i], sizeof start);
#pragma GCC unroll 4
            for (int j = first; j < last; j++) {
                group_high[i][j] = vdupq_n_s32(start[0]);
                group_low[i][j] = vdupq_n_s32(start[1]);
            }
        }
#pragma GCC unroll 4
        for (int word = 0; word < 4; word++) {
            if (is_first) keep_streaming(words + 64 * word, 1);
            int8x16_t fours[2];
#pragma GCC unroll 2
            for (int i = 0; i < row_count; i++) fours[i] = vld1q_s8(x[i] + 8 + 16 * word);
#pragma GCC unroll 4
            for (int j = first; j < last; j++) {
                uint8x16_t both = vld1q_u8(words + 64 * word + 16 * j);
                int8x16_t a = vreinterpretq_s8_u8(vandq_u8(both, nibble));
                int8x16_t b = vreinterpretq_s8_u8(vshrq_n_u8(both, 4));
#pragma GCC unroll 2
                for (int i = 0; i < row_count; i++) {
                    group_high[i][j] = vdotq_laneq_s32(group_high[i][j], a, fours[i], 0);
                    group_low[i][j] = vdotq_laneq_s32(group_low[i][j], a, fours[i], 1);
                    group_high[i][j] = vdotq_laneq_s32(group_high[i][j], b, fours[i], 2);
                    group_low[i][j] = vdotq_laneq_s32(group_low[i][j], b, fours[i], 3);
                }
            }
        }
        uint8x16_t bytes = vld1q_u8(panel);
        uint16x8_t wide[2] = {vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)};
#pragma GCC unroll 4
        for (int j = first; j < last; j++) {
            uint16x8_t two = wide[j / 2];
            int32x4_t scale = vreinterpretq_s32_u32(j % 2 ? vmovl_high_u16(two) : vmovl_u16(vget_low_u16(two)));
#pragma GCC unroll 2
            for (int i = 0; i < row_count; i++) {
                high[i][j] = vmlaq_s32(high[i][j], group_high[i][j], scale);
                low[i][j] = vmlaq_s32(low[i][j], group_low[i][j], scale);
            }
        }
#pragma GCC unroll 2
        for (int i = 0; i < row_count; i++) x[i] += 4 * RECORD_INTS;
    }
#pragma GCC unroll 2
    for (int i = 0; i < row_count; i++)
#pragma GCC unroll 4
        for (int j = first; j < last; j++) {
            vst1q_s32(high_out + 16 * i + 4 * j, high[i][j]);
            vst1q_s32(low_out + 16 * i + 4 * j, low[i][j]);
        }
}

static void dot_int4(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                     int32_t row_count, int32_t *high, int32_t *low)
{
    if (row_count == 2) {
        dot_rows(panel, is_first, codes, picked, 2, 0, 2, high, low);
        dot_rows(panel, 0, codes, picked, 2, 2, 4, high, low);
    } else {
        dot_rows(panel, is_first, codes, picked, 1, 0, 4, high, low);
    }
}

void sslm_multiply_int4_neon(const sslm_products *products, int32_t first, int32_t last)
{
    multiply_with(dot_int4, 2, products, first, last);
}
