/* Products with the dot products of bytes on 256-bit vectors, for CPUs without AVX-512.
 *
 * vpdpbusd multiplies unsigned by signed bytes. As in avx512vnni_products.c the weights become the unsigned operand, a
 * code w as w + 128, and the sums are too large by 128 times the sum of the other operand: the high and the
 * low bytes of the codes. Sums of up to 65536 products of 255 · 128 fit 32 bits.
 */
#include <immintrin.h>
#include <string.h>

#include "outputs_plain.h"
#include "vectors_256.h"

/* Add to eight 32-bit sums the products of fours of bytes, those of left without sign. As an instruction, since
 * gcc 12 copies the accumulators of a loop to and fro where it is free to choose. */
#define ADD_FOURS(sums, left, right) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(left), "x"(right))
#define PREFETCH_BYTES 2048

/* Rows of codes that share a load of the weights: 4 accumulators each, of 16 registers in all. */
#define TILE_ROWS 3

/* A row of codes has, for each group of four columns, its four high bytes, then its four low bytes. */
static int32_t *row_fours(const sslm_rows *rows, int32_t row)
{
    return (int32_t *)(void *)(rows->base + (size_t)row * 2 * padded_width(rows->width));
}

void sslm_store_codes_avxvnni(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    __m256i *out = (__m256i *)(void *)row_fours(rows, row);
    __m256i sum_high = _mm256_setzero_si256(), sum_low = sum_high;
    __m256i ones = _mm256_set1_epi8(1), half = _mm256_set1_epi16(128), low_bytes = _mm256_set1_epi16(255);
    for (size_t i = 0; i < padded; i += 16, out++) {
        __m256i code = load(codes + i);
        __m256i high = _mm256_srli_epi16(_mm256_add_epi16(code, half), 8), low = _mm256_and_si256(code, low_bytes);
        /* Eight high bytes and eight low bytes in each half. */
        __m256i bytes = _mm256_packus_epi16(high, low);
        __m256i fours = _mm256_shuffle_epi32(bytes, 0xd8);
        _mm256_storeu_si256(out, fours);
        ADD_FOURS(sum_high, ones, _mm256_blend_epi32(fours, _mm256_setzero_si256(), 0xaa));
        ADD_FOURS(sum_low, ones, _mm256_blend_epi32(fours, _mm256_setzero_si256(), 0x55));
    }
    rows->code_rows[row].sum_high = sum_all(sum_high);
    rows->code_rows[row].sum_low = sum_all(sum_low);
}

/* Four columns of eight rows. */
ALWAYS_INLINE __m256i load_weights(const int8_t *from)
{
    return _mm256_xor_si256(load(from), _mm256_set1_epi8((char)0x80));
}

/* Put eight sums, less what the flipped bits added. */
ALWAYS_INLINE void store_sums(__m256i sums, int32_t code_sum, int32_t *out)
{
    __m256i excess = _mm256_set1_epi32(128 * code_sum);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_sub_epi32(sums, excess));
}

/* A panel against `row_count` rows of codes; `unroll` column groups have sums of their own, which hides the
 * latency of a single row. Both are constants where this is inlined, and their product is at most 3. */
ALWAYS_INLINE void dot_rows(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, const int row_count,
                            const int unroll, int32_t *high_out, int32_t *low_out)
{
    int32_t groups = (codes->width + 3) / 4, group = 0;
    const int32_t *x[TILE_ROWS];
    __m256i parts[TILE_ROWS][4];
#pragma GCC unroll 3
    for (int i = 0; i < row_count; i++) x[i] = row_fours(codes, picked[i]);
#pragma GCC unroll 3
    for (int i = 0; i < row_count * unroll; i++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) parts[i][j] = _mm256_setzero_si256();
    for (; group + unroll <= groups; group += unroll) {
#pragma GCC unroll 2
        for (int u = 0; u < unroll; u++) {
            const int8_t *weights = panel + 64 * (size_t)(group + u);
            /* The hardware's own prefetching stops at each page of memory. */
            if (row_count == 1) _mm_prefetch((const char *)weights + PREFETCH_BYTES, _MM_HINT_T0);
            __m256i w0 = load_weights(weights), w1 = load_weights(weights + 32);
#pragma GCC unroll 3
            for (int i = 0; i < row_count; i++) {
                __m256i *sum = parts[i + u];
                __m256i high = _mm256_set1_epi32(x[i][2 * (group + u)]);
                ADD_FOURS(sum[0], w0, high);
                ADD_FOURS(sum[1], w1, high);
                __m256i low = _mm256_set1_epi32(x[i][2 * (group + u) + 1]);
                ADD_FOURS(sum[2], w0, low);
                ADD_FOURS(sum[3], w1, low);
            }
        }
    }
    if (unroll == 2 && group < groups) {
        const int8_t *weights = panel + 64 * (size_t)group;
        __m256i w0 = load_weights(weights), w1 = load_weights(weights + 32);
        __m256i high = _mm256_set1_epi32(x[0][2 * group]), low = _mm256_set1_epi32(x[0][2 * group + 1]);
        ADD_FOURS(parts[0][0], w0, high);
        ADD_FOURS(parts[0][1], w1, high);
        ADD_FOURS(parts[0][2], w0, low);
        ADD_FOURS(parts[0][3], w1, low);
    }
#pragma GCC unroll 3
    for (int i = 0; i < row_count; i++) {
        if (unroll == 2)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) parts[0][j] = _mm256_add_epi32(parts[0][j], parts[1][j]);
        const sslm_code_row *row = codes->code_rows + picked[i];
        store_sums(parts[i][0], row->sum_high, high_out + 16 * i);
        store_sums(parts[i][1], row->sum_high, high_out + 16 * i + 8);
        store_sums(parts[i][2], row->sum_low, low_out + 16 * i);
        store_sums(parts[i][3], row->sum_low, low_out + 16 * i + 8);
    }
}

void sslm_multiply_avxvnni(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    for (int32_t panel = first; panel < last; panel++) {
        const int8_t *weights = (const int8_t *)matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            const int32_t *picked = products->picked + i;
            int32_t high[TILE_ROWS * 16], low[TILE_ROWS * 16];
            rows = products->picked_count - i < TILE_ROWS ? products->picked_count - i : TILE_ROWS;
            if (rows == 3) dot_rows(weights, codes, picked, 3, 1, high, low);
            else if (rows == 2) dot_rows(weights, codes, picked, 2, 1, high, low);
            else dot_rows(weights, codes, picked, 1, 2, high, low);
            finish_one_panel(products, panel, i, rows, high, low);
        }
    }
}
