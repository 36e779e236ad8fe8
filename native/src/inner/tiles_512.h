/* What tiles of rows do with 512-bit vectors, in which a lane is a row, beside products. */
#ifndef SSLM_TILES_512_H
#define SSLM_TILES_512_H

#include <immintrin.h>

#include "arithmetic.h"
#include "attention.h"

/* Entries 0 … 63 of a table in four vectors, by index. */
ALWAYS_INLINE __m512i look_up(const __m512i table[4], __m512i index)
{
    __mmask16 is_upper = _mm512_test_epi32_mask(index, _mm512_set1_epi32(32));
    __m512i lower = _mm512_permutex2var_epi32(table[0], index, table[1]);
    return _mm512_mask_mov_epi32(lower, is_upper, _mm512_permutex2var_epi32(table[2], index, table[3]));
}

/* The lanes that see a position. */
ALWAYS_INLINE __mmask16 sees(const sslm_tile *tile, int32_t position)
{
    __m512i at = _mm512_set1_epi32(position);
    return _mm512_cmple_epi32_mask(_mm512_load_si512(tile->first_keys), at)
           & _mm512_cmpge_epi32_mask(_mm512_load_si512(tile->last_keys), at);
}

/* Where a head's share begins of the codes that come next. They come from far away: between two uses of a layer's pages
 * lie the weights of all others. */
ALWAYS_INLINE const char *start_fetch_ahead(const sslm_tile *tile, const sslm_tile_head *head,
                                            const sslm_tile_page *page)
{
    return (const char *)page->next + SSLM_PAGE_TOKENS * page->next_step * (size_t)(head - tile->heads);
}

/* Fetch a token's share of it. */
ALWAYS_INLINE void fetch_ahead(const char *next, size_t step, int32_t token)
{
    for (size_t i = 0; i < step; i += 64) _mm_prefetch(next + step * (size_t)token + i, _MM_HINT_T0);
}

/* How a page's sums of products become a head's scores, for every lane. */
typedef struct {
    __m512i right, left;         /* 8 - right: of sums of high bytes; right: of low ones, so that both fit 32 bits */
    __m512i shift;               /* of what comes out, for a key of exponent 0, less 1 */
    __m512i largest;             /* so far */
    const int32_t *exponents;
    int32_t (*scores)[SSLM_LANES];   /* of the page */
    const char *next;            /* to fetch ahead */
    size_t next_step;
} score_lanes;

ALWAYS_INLINE score_lanes start_scores(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page)
{
    __m512i right = _mm512_load_si512(head->sum_shifts);
    return (score_lanes){
        .right = right,
        .left = _mm512_sub_epi32(_mm512_set1_epi32(8), right),
        .shift = _mm512_load_si512(head->score_shifts),
        .largest = _mm512_load_si512(head->largest),
        .exponents = page->exponents,
        .scores = head->scores + page->score_start,
        .next = start_fetch_ahead(tile, head, page),
        .next_step = page->next_step,
    };
}

/* Turn a token's sums of products with high bytes and with low ones into its scores; lanes see them. */
ALWAYS_INLINE void finish_scores(score_lanes *lanes, int32_t token, __mmask16 seen, __m512i high, __m512i low)
{
    __m512i cut = _mm512_add_epi32(_mm512_sllv_epi32(high, lanes->left), _mm512_srav_epi32(low, lanes->right));
    __m512i shift = _mm512_sub_epi32(lanes->shift, _mm512_set1_epi32(lanes->exponents[token]));
    __m512i doubled = _mm512_srav_epi32(cut, shift);
    __m512i score = _mm512_srai_epi32(_mm512_add_epi32(doubled, _mm512_set1_epi32(1)), 1);
    _mm512_store_si512(lanes->scores[token], score);
    lanes->largest = _mm512_mask_max_epi32(lanes->largest, seen, lanes->largest, score);
}

/* Add D_g, cut by T. */
ALWAYS_INLINE void add_denominators(__m512i sums, __m512i wholes, int64_t *denominators)
{
    /* A cut by 54 leaves nothing, as longer ones. */
    wholes = _mm512_min_epu32(wholes, _mm512_set1_epi32(54));
    for (int half = 0; half < 2; half++) {
        __m256i sum = half ? _mm512_extracti64x4_epi64(sums, 1) : _mm512_castsi512_si256(sums);
        __m256i whole = half ? _mm512_extracti64x4_epi64(wholes, 1) : _mm512_castsi512_si256(wholes);
        __m512i shift = _mm512_cvtepu32_epi64(whole), x = _mm512_slli_epi64(_mm512_cvtepu32_epi64(sum), 7);
        __m512i middle = _mm512_srli_epi64(_mm512_sllv_epi64(_mm512_set1_epi64(1), shift), 1);
        x = _mm512_srlv_epi64(_mm512_add_epi64(x, middle), shift);
        _mm512_store_si512(denominators + 8 * half, _mm512_add_epi64(_mm512_load_si512(denominators + 8 * half), x));
    }
}

/* The part of a power that does not depend on whole powers of two: 2^24 · 2^-t for the last 16 bits of t. */
ALWAYS_INLINE __m512i fraction_power(const __m512i starts[4], const __m512i steps[4], __m512i t)
{
    __m512i node = _mm512_srli_epi32(t, 10), rest = _mm512_and_si512(t, _mm512_set1_epi32(0x3ff));
    __m512i fall = _mm512_mullo_epi32(look_up(steps, node), rest);
    fall = _mm512_srli_epi32(_mm512_add_epi32(fall, _mm512_set1_epi32(512)), 10);
    return _mm512_sub_epi32(look_up(starts, node), fall);
}

ALWAYS_INLINE void load_nodes(const int32_t *nodes, __m512i starts[4], __m512i steps[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        starts[i] = _mm512_loadu_si512(nodes + 16 * i);
        steps[i] = _mm512_sub_epi32(starts[i], _mm512_loadu_si512(nodes + 16 * i + 1));
    }
}

/* Where a lane's numerators lie. */
static inline int32_t numerator_place(int32_t lane)
{
    return (lane & 1) | (lane >> 1 & 6) | (lane & 2) << 2;
}

/* Turn the 16 by 16 numbers of 16 vectors round. */
ALWAYS_INLINE void transpose(__m512i v[16])
{
    __m512i w[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(w[i], w[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(w[i], w[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(w[i + 1], w[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(w[i + 1], w[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        w[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
        w[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
        w[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
        w[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0x88);
        v[i + 8] = _mm512_shuffle_i32x4(w[i], w[i + 8], 0xdd);
        v[i + 4] = _mm512_shuffle_i32x4(w[i + 4], w[i + 12], 0x88);
        v[i + 12] = _mm512_shuffle_i32x4(w[i + 4], w[i + 12], 0xdd);
    }
}

query_shifts TIERED(sslm_quantize_query)(const sslm_job *job, const int32_t *x, int32_t head_dim, int16_t *codes)
{
    __m512i largest = _mm512_setzero_si512(), sizes = largest;
    for (int32_t d = 0; d < head_dim; d += 16) {
        __mmask16 mask = head_dim - d < 16 ? (__mmask16)((1u << (head_dim - d)) - 1) : 0xffff;
        largest = _mm512_max_epu32(largest, _mm512_abs_epi32(_mm512_maskz_loadu_epi32(mask, x + d)));
    }
    int32_t exponent = block_exponent(_mm512_reduce_max_epu32(largest));
    __m512i half = _mm512_set1_epi32((1 << exponent) >> 1), shift = _mm512_set1_epi32(exponent);
    for (int32_t d = 0; d < (int32_t)padded_width(head_dim); d += 16) {
        int32_t rest = head_dim - d;
        __mmask16 mask = rest >= 16 ? 0xffff : rest <= 0 ? 0 : (__mmask16)((1u << rest) - 1);
        __m512i value = _mm512_maskz_loadu_epi32(mask, x + d), code = _mm512_srav_epi32(value, shift);
        /* What is rounded is the last bit that was shifted out. */
        __mmask16 is_up = _mm512_test_epi32_mask(value, half);
        code = _mm512_mask_add_epi32(code, is_up, code, _mm512_set1_epi32(1));
        sizes = _mm512_add_epi32(sizes, _mm512_abs_epi32(code));
        _mm256_storeu_si256((__m256i *)(void *)(codes + d), _mm512_cvtepi32_epi16(code));
    }
    return query_shifts_of(job, exponent, (uint32_t)_mm512_reduce_add_epi32(sizes));
}

/* Steps 6 and 7: what every lane divides by. */
typedef struct {
    __m512i downs[2];            /* of the numerator */
    __m512i middles[2];
    __m512i reciprocals[2];
    __m512i rights[2];           /* of the quotient, times 2^4, less its last bit */
} lane_divisors;

static lane_divisors divisors_of(const sslm_tile *tile, const sslm_tile_head *head)
{
    _Alignas(64) int32_t downs[SSLM_LANES], reciprocals[SSLM_LANES], rights[SSLM_LANES];
    for (int lane = 0; lane < SSLM_LANES; lane++) {
        divisor by = divisor_of(head->denominators[lane]);
        downs[lane] = by.down;
        reciprocals[lane] = by.reciprocal;
        rights[lane] = 17 - tile->value_exponents[lane];
    }
    __m512i down = _mm512_load_si512(downs), reciprocal = _mm512_load_si512(reciprocals);
    __m512i right = _mm512_load_si512(rights), zero = _mm512_setzero_si512();
    lane_divisors divisors = {
        .downs = {_mm512_unpacklo_epi32(down, zero), _mm512_unpackhi_epi32(down, zero)},
        .reciprocals = {_mm512_unpacklo_epi32(reciprocal, zero), _mm512_unpackhi_epi32(reciprocal, zero)},
        .rights = {_mm512_unpacklo_epi32(right, zero), _mm512_unpackhi_epi32(right, zero)},
    };
    for (int i = 0; i < 2; i++)
        divisors.middles[i] = _mm512_srli_epi64(_mm512_sllv_epi64(_mm512_set1_epi64(1), divisors.downs[i]), 1);
    return divisors;
}

/* The quotients of half of the lanes for one dim, 14 bits finer than a code, below 2^30. */
ALWAYS_INLINE __m512i quotients_of(const lane_divisors *by, const int half, const int64_t *numerators)
{
    __m512i x = _mm512_add_epi64(_mm512_load_si512(numerators + 8 * half), by->middles[half]);
    x = _mm512_mul_epi32(_mm512_srav_epi64(x, by->downs[half]), by->reciprocals[half]);
    return _mm512_srai_epi64(_mm512_add_epi64(x, _mm512_set1_epi64(INT64_C(1) << 30)), 31);
}

/* The outputs of half of the lanes for one dim; count what had to be clamped. */
ALWAYS_INLINE __m512i divide_half(const lane_divisors *by, const int half, const int64_t *numerators, __m512i *clamped)
{
    __m512i x = quotients_of(by, half, numerators);
    x = _mm512_srav_epi64(_mm512_slli_epi64(x, 4), by->rights[half]);
    x = _mm512_srai_epi64(_mm512_add_epi64(x, _mm512_set1_epi64(1)), 1);
    __m512i kept = _mm512_min_epi64(x, _mm512_set1_epi64(SSLM_INT32_MAX));
    kept = _mm512_max_epi64(kept, _mm512_set1_epi64(-SSLM_INT32_MAX));
    __mmask8 is_other = _mm512_cmpneq_epi64_mask(x, kept);
    *clamped = _mm512_mask_add_epi64(*clamped, is_other, *clamped, _mm512_set1_epi64(1));
    return kept;
}

/* The order of lanes in numerators undone. */
ALWAYS_INLINE __m512i in_order(__m512i low, __m512i high)
{
    const __m512i order = _mm512_setr_epi32(0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    return _mm512_permutex2var_epi32(low, order, high);
}

/* The outputs for one dim, where the largest exponents are so small that quotients lose bits or keep them all. */
ALWAYS_INLINE __m512i divide_small(const lane_divisors *by, __m512i right, const int64_t *numerators)
{
    __m512i x = in_order(quotients_of(by, 0, numerators), quotients_of(by, 1, numerators));
    x = _mm512_srav_epi32(_mm512_add_epi32(x, x), right);
    return _mm512_srai_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(1)), 1);
}

/* Turn the outputs of 16 dims round and write them. */
ALWAYS_INLINE void store_outputs(const sslm_tile *tile, int32_t first, __m512i v[16], int32_t *out, size_t stride)
{
    int32_t rest = tile->head_dim - first;
    __mmask16 mask = rest < 16 ? (__mmask16)((1u << rest) - 1) : 0xffff;
    transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < SSLM_LANES; i++)
        if (i < tile->row_count) _mm512_mask_storeu_epi32(out + (size_t)i * stride + first, mask, v[i]);
}

void TIERED(sslm_divide_tile)(const sslm_tile *tile, const sslm_tile_head *head, int32_t *out, size_t stride,
                              uint64_t *saturated)
{
    lane_divisors by = divisors_of(tile, head);
    __m512i right = _mm512_sub_epi32(_mm512_set1_epi32(14), _mm512_load_si512(tile->value_exponents));
    int is_small = _mm512_movepi32_mask(right) == 0;
    __m512i clamped[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int32_t first = 0; first < tile->head_dim; first += 16) {
        __m512i v[16];
        if (is_small) {
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) v[i] = divide_small(&by, right, head->numerators[first + i]);
        } else {
#pragma GCC unroll 4
            for (int i = 0; i < 16; i++) {
                v[i] = _mm512_setzero_si512();
                if (first + i >= tile->head_dim) continue;
                __m512i low = divide_half(&by, 0, head->numerators[first + i], &clamped[0]);
                v[i] = in_order(low, divide_half(&by, 1, head->numerators[first + i], &clamped[1]));
            }
        }
        store_outputs(tile, first, v, out, stride);
    }
    _Alignas(64) uint32_t counts[SSLM_LANES];
    _mm512_store_si512(counts, in_order(clamped[0], clamped[1]));
    for (int32_t i = 0; i < tile->row_count; i++) saturated[i] += counts[i];
}

#endif
