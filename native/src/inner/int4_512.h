/* Products of int4 weights with AVX-512 and its dot products of bytes. */
#ifndef SSLM_INT4_512_H
#define SSLM_INT4_512_H

#include <immintrin.h>

#include "products_int4.h"
#include "stream.h"

/* Rows of codes that share a panel's nibbles: 16 accumulators. */
#define INT4_ROWS 4

static void store_codes_int4(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    int32_t groups = int4_groups(rows->width);
    int32_t *out = row_records(rows, row);
    __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    __m512i half = _mm512_set1_epi16(128), eights = _mm512_set1_epi8(8);
    for (int32_t group = 0; group < groups; group++, out += RECORD_INTS) {
        __m512i code = _mm512_loadu_si512(codes + 32 * (size_t)group);
        __m256i high = _mm512_cvtepi16_epi8(_mm512_srai_epi16(_mm512_add_epi16(code, half), 8));
        __m256i low = _mm512_cvtepi16_epi8(code);
        __m512i fours = _mm512_permutexvar_epi32(order, _mm512_inserti64x4(_mm512_castsi256_si512(high), low, 1));
        __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), eights, fours);
        /* High and low alternate. */
        __m256i x = _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
        __m128i y = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
        y = _mm_add_epi32(y, _mm_unpackhi_epi64(y, y));
        _mm_storel_epi64((__m128i *)(void *)out, _mm_sub_epi32(_mm_setzero_si128(), y));
        _mm512_storeu_si512(out + 2, fours);
    }
}

/* As instructions, since gcc 12 copies the accumulators of a loop to and fro where it is free to choose. */
#define ADD_PRODUCTS(sums, nibbles, four) \
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(nibbles), "m"(four))
#define ADD_SCALED(sums, group_sums, scales) \
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(group_sums), "v"(scales))

/* A panel, which comes from memory if this is its first use, against `row_count` rows of codes, a constant where
 * this is inlined. */
ALWAYS_INLINE void dot_int4_rows(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                                 const int row_count, int32_t *high_out, int32_t *low_out)
{
    const int32_t *x[INT4_ROWS];
    __m512i high[INT4_ROWS], low[INT4_ROWS];
    int32_t groups = int4_groups(codes->width);
    const uint8_t *words = panel + int4_scales_size_bytes(codes->width);
    const __m512i nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < row_count; i++) {
        x[i] = row_records(codes, picked[i]);
        high[i] = low[i] = _mm512_setzero_si512();
    }
    if (is_first)
        for (const uint8_t *line = panel; line < words; line += 64) keep_streaming(line, 1);
    for (int32_t group = 0; group < groups; group++, panel += 16, words += 256) {
        __m512i group_high[INT4_ROWS], group_low[INT4_ROWS];
        size_t at = RECORD_INTS * (size_t)group;
#pragma GCC unroll 4
        for (int i = 0; i < row_count; i++) {
            group_high[i] = _mm512_set1_epi32(x[i][at]);
            group_low[i] = _mm512_set1_epi32(x[i][at + 1]);
        }
#pragma GCC unroll 4
        for (int word = 0; word < 4; word++) {
            __m512i both = _mm512_loadu_si512(words + 64 * word);
            if (is_first) keep_streaming(words + 64 * word, 1);
            __m512i first = _mm512_and_si512(both, nibble);
            __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
#pragma GCC unroll 4
            for (int i = 0; i < row_count; i++) {
                ADD_PRODUCTS(group_high[i], first, x[i][at + 2 + 4 * (size_t)word]);
                ADD_PRODUCTS(group_low[i], first, x[i][at + 3 + 4 * (size_t)word]);
                ADD_PRODUCTS(group_high[i], second, x[i][at + 4 + 4 * (size_t)word]);
                ADD_PRODUCTS(group_low[i], second, x[i][at + 5 + 4 * (size_t)word]);
            }
        }
        /* The upper half of a group's sum is only its sign: the scales there are 0. */
        __m512i scales = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)panel));
#pragma GCC unroll 4
        for (int i = 0; i < row_count; i++) {
            ADD_SCALED(high[i], group_high[i], scales);
            ADD_SCALED(low[i], group_low[i], scales);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < row_count; i++) {
        _mm512_storeu_si512(high_out + 16 * i, high[i]);
        _mm512_storeu_si512(low_out + 16 * i, low[i]);
    }
}

static void dot_int4(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                     int32_t row_count, int32_t *high, int32_t *low)
{
    switch (row_count) {
    case 4: dot_int4_rows(panel, is_first, codes, picked, 4, high, low); break;
    case 3: dot_int4_rows(panel, is_first, codes, picked, 3, high, low); break;
    case 2: dot_int4_rows(panel, is_first, codes, picked, 2, high, low); break;
    default: dot_int4_rows(panel, is_first, codes, picked, 1, high, low); break;
    }
}

#endif
