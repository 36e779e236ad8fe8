/* Products with the dot products of bytes on 256-bit vectors, for CPUs without AVX-512.
 *
 * vpdpbusd multiplies unsigned by signed bytes. As in products_512.h a code is 256 · h + l, where l is its low byte
 * without sign, and h + 128 takes the place of h: that sum is too large by 128 times the sum of the weights. Sums of
 * up to 65536 products of 255 · 127 fit 32 bits.
 */
#include <immintrin.h>
#include <string.h>

#include "outputs_plain.h"
#include "vectors_256.h"

/* Add to eight 32-bit sums the products of fours of bytes: codes and weights. As an instruction, since gcc 12 copies
 * the accumulators of a loop to and fro where it is free to choose. */
#define ADD_FOURS(sums, codes, weights) __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(codes), "x"(weights))

/* Rows of codes that share a load of the weights: 4 accumulators each, of 16 registers in all. Those that come first
 * leave room for the sums of the weights. */
#define FIRST_ROWS 2
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
    __m256i top = _mm256_set1_epi16((short)0x8000), low_bytes = _mm256_set1_epi16(255);
    for (size_t i = 0; i < padded; i += 16, out++) {
        __m256i code = load(codes + i);
        __m256i high = _mm256_srli_epi16(_mm256_xor_si256(code, top), 8), low = _mm256_and_si256(code, low_bytes);
        /* Eight high bytes and eight low bytes in each half. */
        _mm256_storeu_si256(out, _mm256_shuffle_epi32(_mm256_packus_epi16(high, low), 0xd8));
    }
}

/* A panel, what its sums of weights are times 128, and what to ask the memory for meanwhile. */
typedef struct {
    const int8_t *start, *ahead;
    int32_t groups;              /* of four columns */
    __m256i excess[2];
} panel_run;

typedef int32_t strip_sums[2][TILE_ROWS][SSLM_PANEL_ROWS];

/* A panel against `row_count` rows of codes, those of picked; the first rows sum the weights up, too. Both are
 * constants where this is inlined. */
ALWAYS_INLINE void dot_rows(panel_run *run, const sslm_rows *codes, const int32_t *picked, const int row_count,
                            const int is_first, strip_sums sums)
{
    const int32_t *x[TILE_ROWS];
    __m256i parts[TILE_ROWS][4], weight_sums[2], ones = _mm256_set1_epi8(1);
#pragma GCC unroll 3
    for (int i = 0; i < row_count; i++) {
        x[i] = row_fours(codes, picked[i]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) parts[i][j] = _mm256_setzero_si256();
    }
    weight_sums[0] = weight_sums[1] = _mm256_setzero_si256();
    const int8_t *panel = run->start, *ahead = run->ahead;
    int32_t groups = run->groups;
    for (int32_t group = 0; group < groups; group++, panel += 64) {
        if (is_first) _mm_prefetch((const char *)ahead + 64 * (size_t)group, _MM_HINT_T1);
        __m256i w0 = load(panel), w1 = load(panel + 32);
        if (is_first) ADD_FOURS(weight_sums[0], ones, w0);
        if (is_first) ADD_FOURS(weight_sums[1], ones, w1);
#pragma GCC unroll 3
        for (int i = 0; i < row_count; i++) {
            __m256i high = _mm256_set1_epi32(x[i][2 * group]), low = _mm256_set1_epi32(x[i][2 * group + 1]);
            ADD_FOURS(parts[i][0], high, w0);
            ADD_FOURS(parts[i][1], high, w1);
            ADD_FOURS(parts[i][2], low, w0);
            ADD_FOURS(parts[i][3], low, w1);
        }
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        if (is_first) run->excess[j] = _mm256_slli_epi32(weight_sums[j], 7);
#pragma GCC unroll 3
        for (int i = 0; i < row_count; i++) {
            __m256i high = _mm256_sub_epi32(parts[i][j], run->excess[j]);
            _mm256_storeu_si256((__m256i *)(void *)(sums[0][i] + 8 * j), high);
            _mm256_storeu_si256((__m256i *)(void *)(sums[1][i] + 8 * j), parts[i][2 + j]);
        }
    }
}

static void dot_any(panel_run *run, const sslm_rows *codes, const int32_t *picked, int32_t row_count, int is_first,
                    strip_sums sums)
{
    if (row_count == 3) dot_rows(run, codes, picked, 3, 0, sums);
    else if (row_count == 2 && is_first) dot_rows(run, codes, picked, 2, 1, sums);
    else if (row_count == 2) dot_rows(run, codes, picked, 2, 0, sums);
    else if (is_first) dot_rows(run, codes, picked, 1, 1, sums);
    else dot_rows(run, codes, picked, 1, 0, sums);
}

void sslm_multiply_avxvnni(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    size_t size_bytes = panel_size_bytes(matrix);
    panel_run run = {.groups = (matrix->in_features + 3) / 4};
    for (int32_t panel = first; panel < last; panel++) {
        run.start = (const int8_t *)matrix->panels + (size_t)panel * size_bytes;
        run.ahead = run.start + size_bytes;
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            strip_sums sums;
            int32_t most = i == 0 ? FIRST_ROWS : TILE_ROWS;
            rows = products->picked_count - i < most ? products->picked_count - i : most;
            dot_any(&run, codes, products->picked + i, rows, i == 0, sums);
            finish_one_panel(products, panel, i, rows, sums[0][0], sums[1][0]);
        }
    }
}
