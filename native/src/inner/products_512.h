/* Products with AVX-512 and its dot products of bytes, for the tiers that have them.
 *
 * vpdpbusd multiplies unsigned by signed bytes. The weights become the unsigned operand: a code w is
 * w + 128 after its top bit is flipped, so that a sum is too large by 128 times the sum of the other
 * operand, which does not depend on the weights. The other operand are the high and low bytes of the
 * codes. Sums of up to 65536 products of 255 · 128 fit 32 bits.
 */
#ifndef SSLM_PRODUCTS_512_H
#define SSLM_PRODUCTS_512_H

#include <immintrin.h>
#include <string.h>

#include "products.h"
#include "vectors_512.h"

/* Rows of codes lie in tiles of eight; the last tile of a run may have fewer. With r rows in a tile, each
 * group of four columns has its r times four high bytes, then its r times four low bytes. So one pointer
 * walks through a tile, and a single row is dense. */
#define TILE_ROWS 8

#define PREFETCH_BYTES 2048

static int32_t *tile_start(const sslm_rows *rows, int32_t tile)
{
    return (int32_t *)(void *)(rows->base + (size_t)tile * TILE_ROWS * 2 * padded_width(rows->width));
}

static int32_t tile_rows(const sslm_rows *rows, int32_t tile)
{
    int32_t rest = rows->row_count - tile * TILE_ROWS;
    return rest < TILE_ROWS ? rest : TILE_ROWS;
}

static void store_codes(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    int32_t in_tile = tile_rows(rows, row / TILE_ROWS);
    int32_t *out = tile_start(rows, row / TILE_ROWS) + row % TILE_ROWS;
    __m512i sum_high = _mm512_setzero_si512(), sum_low = sum_high;
    __m512i ones = _mm512_set1_epi8(1), half = _mm512_set1_epi16(128);
    for (size_t i = 0; i < padded; i += 32) {
        __m512i code = _mm512_loadu_si512(codes + i);
        __m256i high = _mm512_cvtepi16_epi8(_mm512_srai_epi16(_mm512_add_epi16(code, half), 8));
        __m256i low = _mm512_cvtepi16_epi8(code);
        sum_high = _mm512_dpbusd_epi32(sum_high, ones, _mm512_zextsi256_si512(high));
        sum_low = _mm512_dpbusd_epi32(sum_low, ones, _mm512_zextsi256_si512(low));
        int32_t fours[2][8];
        _mm256_storeu_si256((__m256i *)(void *)fours[0], high);
        _mm256_storeu_si256((__m256i *)(void *)fours[1], low);
        for (int j = 0; j < 8; j++, out += 2 * in_tile) {
            out[0] = fours[0][j];
            out[in_tile] = fours[1][j];
        }
    }
    rows->code_rows[row].sum_high = _mm512_reduce_add_epi32(sum_high);
    rows->code_rows[row].sum_low = _mm512_reduce_add_epi32(sum_low);
}

/* One group of four columns: the weights of 16 rows. */
ALWAYS_INLINE __m512i load_weights(const int8_t *group)
{
    return _mm512_xor_si512(_mm512_loadu_si512(group), _mm512_set1_epi8((char)0x80));
}

/* Add the products with four bytes that are the same for all rows. As an instruction, since gcc 12 copies
 * the accumulators of a loop to and fro where it is free to choose. */
#define ADD_PRODUCTS(sums, weights, four) \
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(weights), "m"(four))

/* A panel against `row_count` rows that lie at x in a tile of `in_tile`; `unroll` column groups have sums
 * of their own, which hides the latency where there are few rows. row_count and unroll are constants where
 * this is inlined, their product at most 8: gcc 12 spills more than 16 accumulators. */
ALWAYS_INLINE void dot_rows(const int8_t *panel, int32_t groups, const int32_t *x, const int in_tile,
                            const int row_count, const int unroll, const sslm_code_row *code_rows, int64_t *sums)
{
    __m512i high[8], low[8];
#pragma GCC unroll 8
    for (int i = 0; i < row_count * unroll; i++) high[i] = low[i] = _mm512_setzero_si512();
    int32_t group = 0;
    for (; group + unroll <= groups; group += unroll, panel += 64 * unroll, x += 2 * in_tile * unroll) {
#pragma GCC unroll 8
        for (int u = 0; u < unroll; u++) {
            __m512i w = load_weights(panel + 64 * u);
            /* The hardware's own prefetching stops at each page of memory. */
            if (row_count == 1) _mm_prefetch((const char *)panel + 64 * u + PREFETCH_BYTES, _MM_HINT_T0);
#pragma GCC unroll 8
            for (int i = 0; i < row_count; i++) {
                ADD_PRODUCTS(high[u * row_count + i], w, x[2 * in_tile * u + i]);
                ADD_PRODUCTS(low[u * row_count + i], w, x[2 * in_tile * u + in_tile + i]);
            }
        }
    }
    for (; group < groups; group++, panel += 64, x += 2 * in_tile) {
        __m512i w = load_weights(panel);
#pragma GCC unroll 8
        for (int i = 0; i < row_count; i++) {
            ADD_PRODUCTS(high[i], w, x[i]);
            ADD_PRODUCTS(low[i], w, x[in_tile + i]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < row_count; i++) {
#pragma GCC unroll 8
        for (int u = 1; u < unroll; u++) {
            high[i] = _mm512_add_epi32(high[i], high[u * row_count + i]);
            low[i] = _mm512_add_epi32(low[i], low[u * row_count + i]);
        }
        /* Less what the flipped bits added. */
        high[i] = _mm512_sub_epi32(high[i], _mm512_set1_epi32(128 * code_rows[i].sum_high));
        low[i] = _mm512_sub_epi32(low[i], _mm512_set1_epi32(128 * code_rows[i].sum_low));
        store_planes(high[i], low[i], 8, 0xffff, sums + 16 * i);
    }
}

static void dot_eight(const int8_t *panel, int32_t groups, const int32_t *x, int32_t row_count,
                      const sslm_code_row *code_rows, int64_t *sums)
{
    switch (row_count) {
    case 8: dot_rows(panel, groups, x, 8, 8, 1, code_rows, sums); break;
    case 7: dot_rows(panel, groups, x, 7, 7, 1, code_rows, sums); break;
    case 6: dot_rows(panel, groups, x, 6, 6, 1, code_rows, sums); break;
    case 5: dot_rows(panel, groups, x, 5, 5, 1, code_rows, sums); break;
    case 4: dot_rows(panel, groups, x, 4, 4, 2, code_rows, sums); break;
    case 3: dot_rows(panel, groups, x, 3, 3, 2, code_rows, sums); break;
    case 2: dot_rows(panel, groups, x, 2, 2, 4, code_rows, sums); break;
    default: dot_rows(panel, groups, x, 1, 1, 4, code_rows, sums); break;
    }
}

static void dot_panel(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count, int64_t *sums)
{
    int32_t groups = (codes->width + 3) / 4;
    for (int32_t i = 0; i < count;) {
        int32_t tile = picked[i] / TILE_ROWS, in_tile = tile_rows(codes, tile);
        const int32_t *x = tile_start(codes, tile);
        /* Rows are picked in ascending order: a tile is whole if its ends are there. */
        int is_start = picked[i] % TILE_ROWS == 0 && i + in_tile <= count;
        if (is_start && picked[i + in_tile - 1] == picked[i] + in_tile - 1) {
            dot_eight(panel, groups, x, in_tile, codes->code_rows + picked[i], sums + 16 * (size_t)i);
            i += in_tile;
        } else {
            x += picked[i] % TILE_ROWS;
            dot_rows(panel, groups, x, in_tile, 1, 4, codes->code_rows + picked[i], sums + 16 * (size_t)i);
            i++;
        }
    }
}

#endif
