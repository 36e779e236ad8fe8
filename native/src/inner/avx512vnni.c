/* The inner loops with AVX-512 and its dot products of bytes.
 *
 * vpdpbusd multiplies unsigned by signed bytes. The weights become the unsigned operand: a code w is
 * w + 128 after its top bit is flipped, so that a sum is too large by 128 times the sum of the other
 * operand, which does not depend on the weights. The other operand are the high and low bytes of the
 * codes. Sums of up to 65536 products of 255 · 128 fit 32 bits.
 */
#include <immintrin.h>

#include "inner.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* One group of four columns: the weights of 16 rows. */
ALWAYS_INLINE __m512i load_weights(const int8_t *group)
{
    __m512i flip = _mm512_set1_epi8((char)0x80);
    return _mm512_xor_si512(_mm512_loadu_si512(group), flip);
}

ALWAYS_INLINE __m512i broadcast_four(const int8_t *plane, int32_t group)
{
    int32_t four;
    __builtin_memcpy(&four, plane + 4 * (size_t)group, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Put 256 · high + low, less what the flipped bits added, at sums[0 … 15]. */
ALWAYS_INLINE void store_sums(__m512i high, __m512i low, const sslm_code_row *row, int64_t *sums)
{
    high = _mm512_sub_epi32(high, _mm512_set1_epi32(128 * row->sum_high));
    low = _mm512_sub_epi32(low, _mm512_set1_epi32(128 * row->sum_low));
    for (int half = 0; half < 2; half++) {
        __m256i h = half ? _mm512_extracti64x4_epi64(high, 1) : _mm512_castsi512_si256(high);
        __m256i l = half ? _mm512_extracti64x4_epi64(low, 1) : _mm512_castsi512_si256(low);
        __m512i sum = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(h), 8), _mm512_cvtepi32_epi64(l));
        _mm512_storeu_si512(sums + 8 * half, sum);
    }
}

/* A panel against `rows` rows of codes; `unroll` column groups have sums of their own, which hides the
 * latency where there are few rows. Both are constants where this is inlined, and rows · unroll is at
 * most 8: gcc 12 spills more than 16 accumulators. */
ALWAYS_INLINE void dot_rows(const int8_t *panel, int32_t groups, const sslm_rows *codes, const int32_t *rows,
                            const int row_count, const int unroll, int64_t *sums)
{
    const int8_t *high_planes[8], *low_planes[8];
    __m512i high[8], low[8];
#pragma GCC unroll 8
    for (int i = 0; i < row_count; i++) {
        const sslm_code_row *row = code_row(codes, rows[i]);
        high_planes[i] = high_plane(row);
        low_planes[i] = low_plane(row, codes->width);
    }
#pragma GCC unroll 8
    for (int i = 0; i < row_count * unroll; i++) high[i] = low[i] = _mm512_setzero_si512();
    int32_t group = 0;
    for (; group + unroll <= groups; group += unroll) {
#pragma GCC unroll 8
        for (int u = 0; u < unroll; u++) {
            __m512i w = load_weights(panel + 64 * (size_t)(group + u));
#pragma GCC unroll 8
            for (int i = 0; i < row_count; i++) {
                int at = u * row_count + i;
                high[at] = _mm512_dpbusd_epi32(high[at], w, broadcast_four(high_planes[i], group + u));
                low[at] = _mm512_dpbusd_epi32(low[at], w, broadcast_four(low_planes[i], group + u));
            }
        }
    }
    for (; group < groups; group++) {
        __m512i w = load_weights(panel + 64 * (size_t)group);
#pragma GCC unroll 8
        for (int i = 0; i < row_count; i++) {
            high[i] = _mm512_dpbusd_epi32(high[i], w, broadcast_four(high_planes[i], group));
            low[i] = _mm512_dpbusd_epi32(low[i], w, broadcast_four(low_planes[i], group));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < row_count; i++) {
#pragma GCC unroll 8
        for (int u = 1; u < unroll; u++) {
            high[i] = _mm512_add_epi32(high[i], high[u * row_count + i]);
            low[i] = _mm512_add_epi32(low[i], low[u * row_count + i]);
        }
        store_sums(high[i], low[i], code_row(codes, rows[i]), sums + 16 * i);
    }
}

void sslm_dot_panel_avx512vnni(const int8_t *panel, int32_t in_features, const sslm_rows *codes,
                               const int32_t *rows, int32_t count, int64_t *sums)
{
    int32_t groups = (in_features + 3) / 4;
    for (; count >= 8; count -= 8, rows += 8, sums += 128) dot_rows(panel, groups, codes, rows, 8, 1, sums);
    switch (count) {
    case 7: dot_rows(panel, groups, codes, rows, 7, 1, sums); break;
    case 6: dot_rows(panel, groups, codes, rows, 6, 1, sums); break;
    case 5: dot_rows(panel, groups, codes, rows, 5, 1, sums); break;
    case 4: dot_rows(panel, groups, codes, rows, 4, 2, sums); break;
    case 3: dot_rows(panel, groups, codes, rows, 3, 2, sums); break;
    case 2: dot_rows(panel, groups, codes, rows, 2, 4, sums); break;
    case 1: dot_rows(panel, groups, codes, rows, 1, 4, sums); break;
    default: break;
    }
}

void sslm_split_codes_avx512vnni(sslm_code_row *row, int32_t width)
{
    const int16_t *codes = row_codes(row, width);
    int8_t *high = high_plane(row), *low = low_plane(row, width);
    __m512i sum_high = _mm512_setzero_si512(), sum_low = sum_high;
    __m512i ones = _mm512_set1_epi8(1), half = _mm512_set1_epi16(128);
    /* Rows are padded with zeros to whole vectors. */
    for (int32_t i = 0; i < width; i += 32) {
        __m512i code = _mm512_loadu_si512(codes + i);
        __m256i h = _mm512_cvtepi16_epi8(_mm512_srai_epi16(_mm512_add_epi16(code, half), 8));
        __m256i l = _mm512_cvtepi16_epi8(code);
        _mm256_storeu_si256((__m256i *)(void *)(high + i), h);
        _mm256_storeu_si256((__m256i *)(void *)(low + i), l);
        sum_high = _mm512_dpbusd_epi32(sum_high, ones, _mm512_zextsi256_si512(h));
        sum_low = _mm512_dpbusd_epi32(sum_low, ones, _mm512_zextsi256_si512(l));
    }
    row->sum_high = _mm512_reduce_add_epi32(sum_high);
    row->sum_low = _mm512_reduce_add_epi32(sum_low);
}

/* Turn 16 vectors into the vector of their 16 sums, by adding in pairs. */
ALWAYS_INLINE __m512i sum_each(__m512i v[16])
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]),
                                _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0x88),
                                _mm512_shuffle_i32x4(v[2 * i], v[2 * i + 1], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x88), _mm512_shuffle_i32x4(v[0], v[1], 0xdd));
}

/* The dot products of one plane of a query with 16 keys. Products of a byte and a code over 256 dims fit
 * 32 bits. */
ALWAYS_INLINE __m512i dot_16_keys(const int16_t *plane, const int16_t *keys, int32_t head_dim)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) v[i] = _mm512_setzero_si512();
    for (int32_t d = 0; d < head_dim; d += 32) {
        __mmask32 mask = head_dim - d < 32 ? (__mmask32)((UINT32_C(1) << (head_dim - d)) - 1) : UINT32_MAX;
        __m512i q = _mm512_maskz_loadu_epi16(mask, plane + d);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            v[i] = _mm512_dpwssd_epi32(v[i], q, _mm512_maskz_loadu_epi16(mask, keys + (size_t)i * (size_t)head_dim + d));
    }
    return sum_each(v);
}

void sslm_dot_keys_avx512vnni(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                              int32_t last, int64_t *sums)
{
    int16_t high[SSLM_HEAD_DIM_MAX], low[SSLM_HEAD_DIM_MAX];
    for (int32_t d = 0; d < head_dim; d++) {
        high[d] = (int16_t)((query[d] + 128) >> 8);
        low[d] = (int16_t)(query[d] - 256 * high[d]);
    }
    /* A page holds 64 tokens, so that whole groups of 16 can be read whatever they contain. */
    for (int32_t token = first / 16 * 16; token < last; token += 16) {
        const int16_t *group = keys + (size_t)token * (size_t)head_dim;
        __m512i h = dot_16_keys(high, group, head_dim), l = dot_16_keys(low, group, head_dim);
        for (int half = 0; half < 2; half++) {
            __m256i h8 = half ? _mm512_extracti64x4_epi64(h, 1) : _mm512_castsi512_si256(h);
            __m256i l8 = half ? _mm512_extracti64x4_epi64(l, 1) : _mm512_castsi512_si256(l);
            __m512i sum = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(h8), 8), _mm512_cvtepi32_epi64(l8));
            _mm512_storeu_si512(sums + token + 8 * half, sum);
        }
    }
}

/* The two 10-bit halves of the weights of a pair of tokens, side by side as the values are. */
ALWAYS_INLINE void split_weights(const uint32_t *weights, int32_t pair, __m512i *high, __m512i *low)
{
    uint32_t even = weights[2 * pair], odd = weights[2 * pair + 1];
    *high = _mm512_set1_epi32((int32_t)(even >> 10 | odd >> 10 << 16));
    *low = _mm512_set1_epi32((int32_t)((even & 0x3ff) | (odd & 0x3ff) << 16));
}

void sslm_weigh_values_avx512vnni(const uint32_t *weights, const int16_t *values, int32_t head_dim,
                                  int32_t first, int32_t last, int64_t *sums)
{
    /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
    for (int32_t d = 0; d < head_dim; d += 64) {
        __m512i high_sums[4], low_sums[4];
        __mmask16 masks[4];
        for (int i = 0; i < 4; i++) {
            int32_t rest = head_dim - d - 16 * i;
            masks[i] = rest >= 16 ? 0xffff : rest <= 0 ? 0 : (__mmask16)((1u << rest) - 1);
            high_sums[i] = low_sums[i] = _mm512_setzero_si512();
        }
        for (int32_t pair = first; pair < last; pair++) {
            const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)d);
            __m512i high, low;
            split_weights(weights, pair, &high, &low);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                __m512i codes = _mm512_maskz_loadu_epi32(masks[i], v + 32 * i);
                high_sums[i] = _mm512_dpwssd_epi32(high_sums[i], high, codes);
                low_sums[i] = _mm512_dpwssd_epi32(low_sums[i], low, codes);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256i h0 = _mm512_castsi512_si256(high_sums[i]), h1 = _mm512_extracti64x4_epi64(high_sums[i], 1);
            __m256i l0 = _mm512_castsi512_si256(low_sums[i]), l1 = _mm512_extracti64x4_epi64(low_sums[i], 1);
            __m512i s0 = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(h0), 10), _mm512_cvtepi32_epi64(l0));
            __m512i s1 = _mm512_add_epi64(_mm512_slli_epi64(_mm512_cvtepi32_epi64(h1), 10), _mm512_cvtepi32_epi64(l1));
            _mm512_mask_storeu_epi64(sums + d + 16 * i, (__mmask8)masks[i], s0);
            _mm512_mask_storeu_epi64(sums + d + 16 * i + 8, (__mmask8)(masks[i] >> 8), s1);
        }
    }
}
