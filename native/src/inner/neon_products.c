/* Products for AArch64, with its dot products of signed bytes (SDOT). */
#include <arm_neon.h>
#include <string.h>

#include "outputs_plain.h"

#define PREFETCH_BYTES 1024

/* A row of codes has, for each group of four columns, its four high bytes, then its four low bytes, so that a
 * vector is two groups. It is padded to a multiple of 64 columns. */
static int8_t *row_bytes(const sslm_rows *rows, int32_t row)
{
    return (int8_t *)rows->base + (size_t)row * 2 * padded_width(rows->width);
}

void sslm_store_codes_neon(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    int8_t *out = row_bytes(rows, row);
    for (size_t i = 0; i < padded; i += 8) {
        int16x8_t code = vld1q_s16(codes + i);
        int32x2_t high = vreinterpret_s32_s8(vrshrn_n_s16(code, 8)), low = vreinterpret_s32_s8(vmovn_s16(code));
        vst1q_s8(out + 2 * i, vreinterpretq_s8_s32(vcombine_s32(vzip1_s32(high, low), vzip2_s32(high, low))));
    }
}

/* Four columns of 16 rows. */
ALWAYS_INLINE void load_group(const int8_t *group, int8x16_t weights[4])
{
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) weights[j] = vld1q_s8(group + 16 * j);
}

/* A panel against one or two rows of codes; `row_count` is a constant where this is inlined. Two rows take 16
 * accumulators, 8 vectors of weights and 2 of codes, of 32 registers. Sums of up to 65536 products of 128 · 128
 * fit 32 bits. */
ALWAYS_INLINE void dot_rows(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, const int row_count,
                            int32_t *high_out, int32_t *low_out)
{
    int32_t groups = (codes->width + 3) / 4, group = 0;
    const int8_t *x[2];
    int32x4_t high[2][4], low[2][4];
#pragma GCC unroll 2
    for (int i = 0; i < row_count; i++) {
        x[i] = row_bytes(codes, picked[i]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) high[i][j] = low[i][j] = vdupq_n_s32(0);
    }
    for (; group + 2 <= groups; group += 2, panel += 128) {
        int8x16_t first[4], second[4];
        if (row_count == 1) {
            __builtin_prefetch(panel + PREFETCH_BYTES);
            __builtin_prefetch(panel + PREFETCH_BYTES + 64);
        }
        load_group(panel, first);
        load_group(panel + 64, second);
#pragma GCC unroll 2
        for (int i = 0; i < row_count; i++) {
            int8x16_t fours = vld1q_s8(x[i] + 8 * (size_t)group);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) high[i][j] = vdotq_laneq_s32(high[i][j], first[j], fours, 0);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) low[i][j] = vdotq_laneq_s32(low[i][j], first[j], fours, 1);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) high[i][j] = vdotq_laneq_s32(high[i][j], second[j], fours, 2);
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) low[i][j] = vdotq_laneq_s32(low[i][j], second[j], fours, 3);
        }
    }
    int8x16_t last[4];
    if (group < groups) load_group(panel, last);
#pragma GCC unroll 2
    for (int i = 0; i < row_count; i++) {
        int8x16_t fours = vld1q_s8(x[i] + 8 * (size_t)(group < groups ? group : 0));
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            if (group < groups) {
                high[i][j] = vdotq_laneq_s32(high[i][j], last[j], fours, 0);
                low[i][j] = vdotq_laneq_s32(low[i][j], last[j], fours, 1);
            }
            vst1q_s32(high_out + 16 * i + 4 * j, high[i][j]);
            vst1q_s32(low_out + 16 * i + 4 * j, low[i][j]);
        }
    }
}

void sslm_multiply_neon(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    for (int32_t panel = first; panel < last; panel++) {
        const int8_t *weights = (const int8_t *)matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            int32_t high[32], low[32];
            rows = products->picked_count - i < 2 ? 1 : 2;
            if (rows == 2) dot_rows(weights, codes, products->picked + i, 2, high, low);
            else dot_rows(weights, codes, products->picked + i, 1, high, low);
            finish_one_panel(products, panel, i, rows, high, low);
        }
    }
}
