/* Products of int4 weights on 256-bit vectors. A tier that includes this has defined:
 *
 *   TILE_ROWS                            rows of codes, more than one, that share the nibbles of half a panel:
 *                                        4 accumulators each, of 16 registers in all
 *   START(sum)                           32 bits at which a group's sums start whose other operand has that sum
 *   ADD_PRODUCTS(sums, nibbles, fours)   add to eight rows' sums
 *   SCALES                               a shuffle that puts eight bytes where scaled sums want them
 */
#ifndef SSLM_INT4_256_H
#define SSLM_INT4_256_H

#include "products_int4.h"
#include "stream.h"
#include "vectors_256.h"

void TIERED(sslm_store_codes_int4)(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    int32_t groups = int4_groups(rows->width);
    int32_t *out = row_records(rows, row);
    __m256i ones = _mm256_set1_epi16(1), half = _mm256_set1_epi16(128), low_bytes = _mm256_set1_epi16(255);
    for (int32_t group = 0; group < groups; group++, codes += 32, out += RECORD_INTS) {
        __m256i sum_high = _mm256_setzero_si256(), sum = sum_high;
        for (int i = 0; i < 2; i++) {
            __m256i code = load(codes + 16 * i), high = _mm256_srai_epi16(_mm256_add_epi16(code, half), 8);
            sum_high = _mm256_add_epi32(sum_high, _mm256_madd_epi16(high, ones));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(code, ones));
            /* Eight high bytes and eight low bytes in each half. */
            __m256i bytes = _mm256_packus_epi16(_mm256_and_si256(high, low_bytes), _mm256_and_si256(code, low_bytes));
            _mm256_storeu_si256((__m256i *)(void *)(out + 2 + 8 * i), _mm256_shuffle_epi32(bytes, 0xd8));
        }
        int32_t all_high = sum_all(sum_high);
        out[0] = START(all_high);
        out[1] = START(sum_all(sum) - 256 * all_high);
    }
}

/* Half a panel, or the whole of it, against rows of codes; if this is the panel's first use, it comes from memory.
 * row_count, first_half and last_half are constants where this is inlined. */
ALWAYS_INLINE void dot_rows(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                            const int row_count, const int first_half, const int last_half, int32_t *high_out,
                            int32_t *low_out)
{
    const int32_t *x[TILE_ROWS];
    __m256i high[TILE_ROWS][2], low[TILE_ROWS][2];
    int32_t groups = int4_groups(codes->width);
    const uint8_t *words = panel + int4_scales_size_bytes(codes->width);
    const __m256i nibble = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < row_count; i++) {
        x[i] = row_records(codes, picked[i]);
        for (int half = first_half; half < last_half; half++) high[i][half] = low[i][half] = _mm256_setzero_si256();
    }
    if (is_first)
        for (const uint8_t *line = panel; line < words; line += 64) keep_streaming(line, 1);
    for (int32_t group = 0; group < groups; group++, panel += 16, words += 256) {
        __m256i group_high[TILE_ROWS][2], group_low[TILE_ROWS][2];
#pragma GCC unroll 4
        for (int i = 0; i < row_count; i++) {
#pragma GCC unroll 2
            for (int half = first_half; half < last_half; half++) {
                group_high[i][half] = _mm256_set1_epi32(x[i][0]);
                group_low[i][half] = _mm256_set1_epi32(x[i][1]);
            }
            x[i] += 2;
        }
#pragma GCC unroll 4
        for (int word = 0; word < 4; word++) {
            if (is_first) keep_streaming(words + 64 * word, 1);
#pragma GCC unroll 2
            for (int half = first_half; half < last_half; half++) {
                __m256i both = load(words + 64 * word + 32 * half);
                __m256i first = _mm256_and_si256(both, nibble);
                __m256i second = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
#pragma GCC unroll 4
                for (int i = 0; i < row_count; i++) {
                    ADD_PRODUCTS(group_high[i][half], first, _mm256_set1_epi32(x[i][4 * word]));
                    ADD_PRODUCTS(group_low[i][half], first, _mm256_set1_epi32(x[i][4 * word + 1]));
                    ADD_PRODUCTS(group_high[i][half], second, _mm256_set1_epi32(x[i][4 * word + 2]));
                    ADD_PRODUCTS(group_low[i][half], second, _mm256_set1_epi32(x[i][4 * word + 3]));
                }
            }
        }
#pragma GCC unroll 2
        for (int half = first_half; half < last_half; half++) {
            int64_t eight;
            __builtin_memcpy(&eight, panel + 8 * half, sizeof eight);
            __m256i scales = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), SCALES);
#pragma GCC unroll 4
            for (int i = 0; i < row_count; i++) {
                high[i][half] = _mm256_add_epi32(high[i][half], _mm256_madd_epi16(group_high[i][half], scales));
                low[i][half] = _mm256_add_epi32(low[i][half], _mm256_madd_epi16(group_low[i][half], scales));
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < row_count; i++) x[i] += RECORD_INTS - 2;
    }
#pragma GCC unroll 4
    for (int i = 0; i < row_count; i++) {
#pragma GCC unroll 2
        for (int half = first_half; half < last_half; half++) {
            _mm256_storeu_si256((__m256i *)(void *)(high_out + 16 * i + 8 * half), high[i][half]);
            _mm256_storeu_si256((__m256i *)(void *)(low_out + 16 * i + 8 * half), low[i][half]);
        }
    }
}

static void dot_int4(const uint8_t *panel, int32_t is_first, const sslm_rows *codes, const int32_t *picked,
                     int32_t row_count, int32_t *high, int32_t *low)
{
    if (row_count == TILE_ROWS) {
        dot_rows(panel, is_first, codes, picked, TILE_ROWS, 0, 1, high, low);
        dot_rows(panel, 0, codes, picked, TILE_ROWS, 1, 2, high, low);
        return;
    }
    for (int32_t i = 0; i < row_count; i++)
        dot_rows(panel, is_first && i == 0, codes, picked + i, 1, 0, 2, high + 16 * i, low + 16 * i);
}

void TIERED(sslm_multiply_int4)(const sslm_products *products, int32_t first, int32_t last)
{
    multiply_with(dot_int4, TILE_ROWS, products, first, last);
}

#endif
