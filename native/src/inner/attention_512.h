/* The inner loops of attention with AVX-512 and its dot products of pairs, for the tiers that have them. */
#ifndef SSLM_ATTENTION_512_H
#define SSLM_ATTENTION_512_H

#include <immintrin.h>
#include <string.h>

#include "arithmetic.h"
#include "attention.h"
#include "tiles_512.h"
#include "vectors_512.h"

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

/* Add the products of pairs of 16-bit numbers; as an instruction for the same reason. */
#define ADD_PAIRS(sums, left, right) __asm__("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(left), "v"(right))

void TIERED(sslm_dot_keys)(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first,
                              int32_t last, int64_t *sums)
{
    /* Products of a byte and a code over 256 dims fit 32 bits, so the query is taken in two planes. */
    int16_t high[SSLM_HEAD_DIM_MAX], low[SSLM_HEAD_DIM_MAX];
    for (int32_t d = 0; d < head_dim; d++) {
        high[d] = (int16_t)((query[d] + 128) >> 8);
        low[d] = (int16_t)(query[d] - 256 * high[d]);
    }
    /* A page holds 64 tokens, so that whole groups of eight can be read whatever they contain. */
    for (int32_t token = first / 8 * 8; token < last; token += 8) {
        const int16_t *group = keys + (size_t)token * (size_t)head_dim;
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) v[i] = _mm512_setzero_si512();
        for (int32_t d = 0; d < head_dim; d += 32) {
            __mmask32 mask = head_dim - d < 32 ? (__mmask32)((UINT32_C(1) << (head_dim - d)) - 1) : UINT32_MAX;
            __m512i h = _mm512_maskz_loadu_epi16(mask, high + d), l = _mm512_maskz_loadu_epi16(mask, low + d);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __m512i key = _mm512_maskz_loadu_epi16(mask, group + i * head_dim + d);
                ADD_PAIRS(v[i], h, key);
                ADD_PAIRS(v[8 + i], l, key);
            }
        }
        __m512i both = sum_each(v);
        __m512i upper = _mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(both)), 8);
        __m512i lower = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(both, 1));
        _mm512_storeu_si512(sums + token, _mm512_add_epi64(upper, lower));
    }
}

void TIERED(sslm_pow2neg_page)(const int32_t *nodes, const uint32_t *t, uint32_t *powers)
{
    __m512i starts[4], steps[4];
    for (int i = 0; i < 4; i++) {
        starts[i] = _mm512_loadu_si512(nodes + 16 * i);
        steps[i] = _mm512_sub_epi32(starts[i], _mm512_loadu_si512(nodes + 16 * i + 1));
    }
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i += 16) {
        __m512i x = _mm512_min_epu32(_mm512_loadu_si512(t + i), _mm512_set1_epi32(POW2_END));
        __m512i node = _mm512_srli_epi32(_mm512_and_si512(x, _mm512_set1_epi32(0xffff)), 10);
        __m512i rest = _mm512_and_si512(x, _mm512_set1_epi32(0x3ff));
        __m512i fall = _mm512_mullo_epi32(look_up(steps, node), rest);
        fall = _mm512_srli_epi32(_mm512_add_epi32(fall, _mm512_set1_epi32(512)), 10);
        __m512i y = _mm512_sub_epi32(look_up(starts, node), fall);
        __m512i shift = _mm512_add_epi32(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(4));
        __m512i half = _mm512_srli_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), shift), 1);
        _mm512_storeu_si512(powers + i, _mm512_srlv_epi32(_mm512_add_epi32(y, half), shift));
    }
}

ALWAYS_INLINE void split_weights(const uint32_t *weights, int32_t pair, __m512i *high, __m512i *low)
{
    *high = _mm512_set1_epi32(high_halves(weights[2 * pair], weights[2 * pair + 1]));
    *low = _mm512_set1_epi32(low_halves(weights[2 * pair], weights[2 * pair + 1]));
}

void TIERED(sslm_weigh_values)(const uint32_t *weights, const int16_t *values, int32_t head_dim,
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
                ADD_PAIRS(high_sums[i], high, codes);
                ADD_PAIRS(low_sums[i], low, codes);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) store_planes(high_sums[i], low_sums[i], 10, masks[i], sums + d + 16 * i);
    }
}

#endif
