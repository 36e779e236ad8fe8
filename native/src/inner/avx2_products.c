/* Products with AVX2: bytes are widened to 16 bits, since its products of bytes saturate. */
#include <immintrin.h>

#include "outputs_plain.h"
#include "plain_codes.h"
#include "vectors_256.h"

/* Column groups of four after which 32-bit sums are full: each takes two products, of which 512 fit. */
#define GROUPS_OF_INT32 256

#define PREFETCH_BYTES 2048

/* Sums of neighbours: eight 32-bit parts of four rows become four 64-bit sums. */
ALWAYS_INLINE __m256i add_pairs(__m256i parts)
{
    __m256i odd = _mm256_srai_epi32(_mm256_shuffle_epi32(parts, 0xf5), 31);
    __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(parts, 32), odd, 0xaa);
    __m256i even = _mm256_srai_epi32(_mm256_shuffle_epi32(parts, 0xa0), 31);
    return _mm256_add_epi64(high, _mm256_blend_epi32(parts, even, 0xaa));
}

/* A panel against one or two rows of codes; `row_count` is a constant where this is inlined. */
ALWAYS_INLINE void dot_rows(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, const int row_count,
                            int64_t *sums)
{
    const int16_t *x[2];
    int32_t groups = (codes->width + 3) / 4;
    for (int i = 0; i < row_count; i++) {
        x[i] = row_codes(codes, picked[i]);
        for (int n = 0; n < 16; n++) sums[16 * i + n] = 0;
    }
    for (int32_t start = 0; start < groups; start += GROUPS_OF_INT32) {
        int32_t end = groups - start < GROUPS_OF_INT32 ? groups : start + GROUPS_OF_INT32;
        __m256i parts[2][4];
#pragma GCC unroll 2
        for (int i = 0; i < row_count; i++)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) parts[i][j] = _mm256_setzero_si256();
        for (int32_t group = start; group < end; group++) {
            const int8_t *weights = panel + 64 * (size_t)group;
            /* The hardware's own prefetching stops at each page of memory. */
            if (row_count == 1) _mm_prefetch((const char *)weights + PREFETCH_BYTES, _MM_HINT_T0);
            __m256i w[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                w[j] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(weights + 16 * j)));
#pragma GCC unroll 2
            for (int i = 0; i < row_count; i++) {
                int64_t four;
                __builtin_memcpy(&four, x[i] + 4 * (size_t)group, sizeof four);
                __m256i code = _mm256_set1_epi64x(four);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++)
                    parts[i][j] = _mm256_add_epi32(parts[i][j], _mm256_madd_epi16(w[j], code));
            }
        }
#pragma GCC unroll 2
        for (int i = 0; i < row_count; i++) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                __m256i *out = (__m256i *)(void *)(sums + 16 * i + 4 * j);
                _mm256_storeu_si256(out, _mm256_add_epi64(load(out), add_pairs(parts[i][j])));
            }
        }
    }
}

void sslm_multiply_avx2(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    for (int32_t panel = first; panel < last; panel++) {
        const int8_t *weights = (const int8_t *)matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        for (int32_t i = 0, rows; i < products->picked_count; i += rows) {
            int64_t sums[32];
            int32_t high[32], low[32];
            rows = products->picked_count - i < 2 ? 1 : 2;
            if (rows == 2) dot_rows(weights, codes, products->picked + i, 2, sums);
            else dot_rows(weights, codes, products->picked + i, 1, sums);
            split_sums(sums, 16 * rows, high, low);
            finish_one_panel(products, panel, i, rows, high, low);
        }
    }
}
