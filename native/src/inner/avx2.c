/* The inner loops with AVX2: bytes are widened to 16 bits, since its products of bytes saturate. */
#include <immintrin.h>
#include <string.h>

#include "arithmetic.h"
#include "inner.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE __m256i load(const void *from)
{
    return _mm256_loadu_si256(from);
}

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

static int16_t *row_codes(const sslm_rows *rows, int32_t row)
{
    return (int16_t *)(void *)rows->base + (size_t)row * padded_width(rows->width);
}

void sslm_store_codes_avx2(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    memcpy(row_codes(rows, row), codes, padded * sizeof *codes);
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

void sslm_dot_panel_avx2(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                         int64_t *sums)
{
    for (; count >= 2; count -= 2, picked += 2, sums += 32) dot_rows(panel, codes, picked, 2, sums);
    if (count == 1) dot_rows(panel, codes, picked, 1, sums);
}

ALWAYS_INLINE int32_t sum_all(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}

void sslm_dot_keys_avx2(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first, int32_t last,
                        int64_t *sums)
{
    /* Products of a byte and a code over 256 dims fit 32 bits, so the query is taken in two planes. */
    int16_t high[SSLM_HEAD_DIM_MAX], low[SSLM_HEAD_DIM_MAX];
    for (int32_t d = 0; d < head_dim; d++) {
        high[d] = (int16_t)((query[d] + 128) >> 8);
        low[d] = (int16_t)(query[d] - 256 * high[d]);
    }
    int32_t whole = head_dim / 16 * 16;
    for (int32_t token = first; token < last; token++) {
        const int16_t *key = keys + (size_t)token * (size_t)head_dim;
        __m256i h = _mm256_setzero_si256(), l = h;
        for (int32_t d = 0; d < whole; d += 16) {
            __m256i k = load(key + d);
            h = _mm256_add_epi32(h, _mm256_madd_epi16(k, load(high + d)));
            l = _mm256_add_epi32(l, _mm256_madd_epi16(k, load(low + d)));
        }
        int64_t sum = 256 * (int64_t)sum_all(h) + sum_all(l);
        for (int32_t d = whole; d < head_dim; d++) sum += query[d] * key[d];
        sums[token] = sum;
    }
}

void sslm_pow2neg_page_avx2(const int32_t *nodes, const uint32_t *t, uint32_t *powers)
{
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) powers[i] = pow2neg(nodes, t[i]);
}

/* Add 2^10 · high + low of eight dims to sums. */
ALWAYS_INLINE void store_halves(__m256i high, __m256i low, int64_t *sums)
{
    for (int half = 0; half < 2; half++) {
        __m128i h = half ? _mm256_extracti128_si256(high, 1) : _mm256_castsi256_si128(high);
        __m128i l = half ? _mm256_extracti128_si256(low, 1) : _mm256_castsi256_si128(low);
        __m256i sum = _mm256_add_epi64(_mm256_slli_epi64(_mm256_cvtepi32_epi64(h), 10), _mm256_cvtepi32_epi64(l));
        _mm256_storeu_si256((__m256i *)(void *)(sums + 4 * half), sum);
    }
}

void sslm_weigh_values_avx2(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first,
                            int32_t last, int64_t *sums)
{
    /* The two 10-bit halves of the weights of each pair of tokens, side by side as the values are. */
    int32_t high[SSLM_PAGE_TOKENS / 2], low[SSLM_PAGE_TOKENS / 2];
    for (int32_t pair = first; pair < last; pair++) {
        uint32_t even = weights[2 * pair], odd = weights[2 * pair + 1];
        high[pair] = (int32_t)(even >> 10 | odd >> 10 << 16);
        low[pair] = (int32_t)((even & 0x3ff) | (odd & 0x3ff) << 16);
    }
    int32_t d = 0;
    for (; d + 32 <= head_dim; d += 32) {
        /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
        __m256i high_sums[4], low_sums[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) high_sums[i] = low_sums[i] = _mm256_setzero_si256();
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            __m256i h = _mm256_set1_epi32(high[pair]), l = _mm256_set1_epi32(low[pair]);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                __m256i codes = load(v + 16 * i);
                high_sums[i] = _mm256_add_epi32(high_sums[i], _mm256_madd_epi16(h, codes));
                low_sums[i] = _mm256_add_epi32(low_sums[i], _mm256_madd_epi16(l, codes));
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) store_halves(high_sums[i], low_sums[i], sums + d + 8 * i);
    }
    for (; d + 8 <= head_dim; d += 8) {
        __m256i high_sum = _mm256_setzero_si256(), low_sum = high_sum;
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            __m256i codes = load(v);
            high_sum = _mm256_add_epi32(high_sum, _mm256_madd_epi16(_mm256_set1_epi32(high[pair]), codes));
            low_sum = _mm256_add_epi32(low_sum, _mm256_madd_epi16(_mm256_set1_epi32(low[pair]), codes));
        }
        store_halves(high_sum, low_sum, sums + d);
    }
    for (; d < head_dim; d++) {
        sums[d] = 0;
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            sums[d] += (int64_t)weights[2 * pair] * v[0] + (int64_t)weights[2 * pair + 1] * v[1];
        }
    }
}
