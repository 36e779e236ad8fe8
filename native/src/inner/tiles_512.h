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

/* Of the codes that come next, fetch a token's share of a head's share. They come from far away: between two uses of a
 * layer's pages lie the weights of all others. */
ALWAYS_INLINE void fetch_ahead(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page,
                               int32_t token)
{
    int32_t lines = (2 * tile->head_dim + 64 * tile->head_count - 1) / (64 * tile->head_count);
    size_t turn = (size_t)(head - tile->heads) * SSLM_PAGE_TOKENS + (size_t)token;
    const char *next = (const char *)page->next + 64 * turn * (size_t)lines;
    for (int32_t i = 0; i < lines; i++) _mm_prefetch(next + 64 * i, _MM_HINT_T0);
}

/* Turn a token's sums of products, cut by head->sum_shifts, into its scores; return the largest so far. */
ALWAYS_INLINE __m512i finish_scores(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page,
                                    int32_t token, __m512i cut, __m512i largest)
{
    __m512i shift = _mm512_load_si512(head->score_shifts);
    shift = _mm512_sub_epi32(shift, _mm512_set1_epi32(page->exponents[token]));
    __m512i doubled = _mm512_srav_epi32(cut, shift);
    __m512i score = _mm512_srai_epi32(_mm512_add_epi32(doubled, _mm512_set1_epi32(1)), 1);
    __mmask16 seen = page->is_whole ? 0xffff : sees(tile, page->first_position + token);
    _mm512_store_si512(head->scores[page->score_start + token], score);
    fetch_ahead(tile, head, page, token);
    return _mm512_mask_max_epi32(largest, seen, largest, score);
}

/* What the distances of a page's keys say of a group. */
typedef struct {
    __m512i nearest;
    __m512i exponent;
} group_range;

ALWAYS_INLINE __m512i distance_of(const sslm_tile_head *head, const sslm_tile_page *page, int32_t token,
                                  __m512i largest)
{
    return _mm512_sub_epi32(largest, _mm512_load_si512(head->scores[page->score_start + token]));
}

/* Step 3 for both groups. */
ALWAYS_INLINE void measure_groups(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page,
                                  const int is_whole, group_range *near, group_range *far)
{
    __m512i largest = _mm512_load_si512(head->largest), limit = _mm512_set1_epi32(SSLM_FAR);
    near->nearest = far->nearest = _mm512_set1_epi32(-1);
    near->exponent = far->exponent = _mm512_setzero_si512();
    for (int32_t token = page->first; token < page->last; token++) {
        __m512i t = distance_of(head, page, token, largest);
        __m512i exponent = _mm512_set1_epi32(page->exponents[token]);
        __mmask16 is_near = _mm512_cmplt_epu32_mask(t, limit), is_far = (__mmask16)~is_near;
        if (!is_whole) {
            __mmask16 seen = sees(tile, page->first_position + token);
            is_near &= seen;
            is_far &= seen;
        }
        near->nearest = _mm512_mask_min_epu32(near->nearest, is_near, near->nearest, t);
        far->nearest = _mm512_mask_min_epu32(far->nearest, is_far, far->nearest, t);
        near->exponent = _mm512_mask_max_epu32(near->exponent, is_near, near->exponent, exponent);
        far->exponent = _mm512_mask_max_epu32(far->exponent, is_far, far->exponent, exponent);
    }
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

ALWAYS_INLINE void start_group(sslm_tile_group *group, const group_range *range)
{
    _mm512_store_si512(group->wholes, _mm512_srli_epi32(range->nearest, 16));
    _mm512_store_si512(group->exponents, range->exponent);
    group->is_empty = _mm512_cmpneq_epi32_mask(range->nearest, _mm512_set1_epi32(-1)) == 0;
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

/* Steps 3 and 4 for a page: the weights of both groups, and the denominators. */
ALWAYS_INLINE void weigh_keys(sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page, const int is_whole)
{
    group_range near, far;
    measure_groups(tile, head, page, is_whole, &near, &far);
    start_group(&tile->near, &near);
    start_group(&tile->far, &far);
    __m512i largest = _mm512_load_si512(head->largest), limit = _mm512_set1_epi32(SSLM_FAR);
    __m512i starts[4], steps[4], one = _mm512_set1_epi32(1), three = _mm512_set1_epi32(3);
    load_nodes(tile->nodes, starts, steps);
    /* A power is cut by four bits and its whole powers of two; the last bit goes after rounding. */
    __m512i near_whole = _mm512_sub_epi32(_mm512_load_si512(tile->near.wholes), three);
    __m512i far_whole = _mm512_sub_epi32(_mm512_load_si512(tile->far.wholes), three);
    __m512i near_sum = _mm512_setzero_si512(), far_sum = near_sum;
    for (int32_t token = page->first; token < page->last; token++) {
        __m512i t = distance_of(head, page, token, largest);
        __mmask16 is_near = _mm512_cmplt_epu32_mask(t, limit), is_far = (__mmask16)~is_near;
        if (!is_whole) {
            __mmask16 seen = sees(tile, page->first_position + token);
            is_far &= seen;
            is_near &= seen;
        }
        fetch_ahead(tile, head, page, token);
        __m512i power = fraction_power(starts, steps, t);
        __m512i whole = _mm512_mask_mov_epi32(far_whole, is_near, near_whole);
        __m512i down = _mm512_sub_epi32(_mm512_srli_epi32(t, 16), whole);
        __m512i p = _mm512_srli_epi32(_mm512_add_epi32(_mm512_srlv_epi32(power, down), one), 1);
        near_sum = _mm512_mask_add_epi32(near_sum, is_near, near_sum, p);
        far_sum = _mm512_mask_add_epi32(far_sum, is_far, far_sum, p);
        __m512i lift = _mm512_mask_mov_epi32(far.exponent, is_near, near.exponent);
        lift = _mm512_sub_epi32(lift, _mm512_set1_epi32(page->exponents[token]));
        __m512i n = _mm512_add_epi32(_mm512_srlv_epi32(power, _mm512_add_epi32(down, lift)), one);
        _mm512_store_si512(tile->near.weights[token], _mm512_maskz_srli_epi32(is_near, n, 1));
        _mm512_store_si512(tile->far.weights[token], _mm512_maskz_srli_epi32(is_far, n, 1));
    }
    add_denominators(near_sum, _mm512_load_si512(tile->near.wholes), head->denominators);
    add_denominators(far_sum, _mm512_load_si512(tile->far.wholes), head->denominators);
}

ALWAYS_INLINE void clear_weights(sslm_tile *tile, int32_t first, int32_t last)
{
    for (int32_t token = first; token < last; token++) {
        _mm512_store_si512(tile->near.weights[token], _mm512_setzero_si512());
        _mm512_store_si512(tile->far.weights[token], _mm512_setzero_si512());
    }
}

static void weigh_page(sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page)
{
    clear_weights(tile, 0, page->first);
    clear_weights(tile, page->last, SSLM_PAGE_TOKENS);
    if (page->is_whole) weigh_keys(tile, head, page, 1);
    else weigh_keys(tile, head, page, 0);
}

/* The last shift of a group's sums, times 2^16 as they are there, and the half that is added before. Numerators lie in
 * the order in which unpacking gives lanes: 0, 1, 4, 5, 8, 9, 12, 13, and then the others. */
typedef struct {
    __m512i shifts[2];
    __m512i middles[2];
} group_cut;

ALWAYS_INLINE group_cut cut_of(const sslm_tile *tile, const sslm_tile_group *group)
{
    __m512i rise = _mm512_sub_epi32(_mm512_load_si512(tile->value_exponents), _mm512_loadu_si512(group->exponents));
    __m512i shift = _mm512_add_epi32(_mm512_loadu_si512(group->wholes), rise), zero = _mm512_setzero_si512();
    /* A cut by 54 leaves nothing, as longer ones. */
    shift = _mm512_add_epi32(_mm512_min_epu32(shift, _mm512_set1_epi32(54)), _mm512_set1_epi32(9));
    group_cut cut = {.shifts = {_mm512_unpacklo_epi32(shift, zero), _mm512_unpackhi_epi32(shift, zero)}};
    for (int i = 0; i < 2; i++)
        cut.middles[i] = _mm512_srli_epi64(_mm512_sllv_epi64(_mm512_set1_epi64(1), cut.shifts[i]), 1);
    return cut;
}

/* Step 5 for a dim: add a group's sums, of which upper has all but the 16 low bits, and lower these, times 2^16. */
ALWAYS_INLINE void add_numerators(const group_cut *cut, __m512i upper, __m512i lower, int64_t *numerators)
{
    __m512i sums[2] = {_mm512_unpacklo_epi32(lower, upper), _mm512_unpackhi_epi32(lower, upper)};
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i part = _mm512_srav_epi64(_mm512_add_epi64(sums[i], cut->middles[i]), cut->shifts[i]);
        _mm512_store_si512(numerators + 8 * i, _mm512_add_epi64(_mm512_load_si512(numerators + 8 * i), part));
    }
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

/* The outputs of half of the lanes for one dim; count what had to be clamped. */
ALWAYS_INLINE __m512i divide_half(const lane_divisors *by, const int half, const int64_t *numerators, __m512i *clamped)
{
    __m512i x = _mm512_add_epi64(_mm512_load_si512(numerators + 8 * half), by->middles[half]);
    x = _mm512_mul_epi32(_mm512_srav_epi64(x, by->downs[half]), by->reciprocals[half]);
    x = _mm512_srai_epi64(_mm512_add_epi64(x, _mm512_set1_epi64(INT64_C(1) << 30)), 31);
    x = _mm512_srav_epi64(_mm512_slli_epi64(x, 4), by->rights[half]);
    x = _mm512_srai_epi64(_mm512_add_epi64(x, _mm512_set1_epi64(1)), 1);
    __m512i kept = _mm512_min_epi64(x, _mm512_set1_epi64(SSLM_INT32_MAX));
    kept = _mm512_max_epi64(kept, _mm512_set1_epi64(-SSLM_INT32_MAX));
    __mmask8 is_other = _mm512_cmpneq_epi64_mask(x, kept);
    *clamped = _mm512_mask_add_epi64(*clamped, is_other, *clamped, _mm512_set1_epi64(1));
    return kept;
}

void TIERED(sslm_divide_tile)(const sslm_tile *tile, const sslm_tile_head *head, int32_t *out, size_t stride,
                              uint64_t *saturated)
{
    lane_divisors by = divisors_of(tile, head);
    const __m512i in_order = _mm512_setr_epi32(0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    __m512i clamped[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int32_t first = 0; first < tile->head_dim; first += 16) {
        int32_t rest = tile->head_dim - first;
        __mmask16 mask = rest < 16 ? (__mmask16)((1u << rest) - 1) : 0xffff;
        __m512i v[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i >= rest) {
                v[i] = _mm512_setzero_si512();
                continue;
            }
            __m512i low = divide_half(&by, 0, head->numerators[first + i], &clamped[0]);
            __m512i high = divide_half(&by, 1, head->numerators[first + i], &clamped[1]);
            v[i] = _mm512_permutex2var_epi32(low, in_order, high);
        }
        transpose(v);
#pragma GCC unroll 16
        for (int i = 0; i < SSLM_LANES; i++)
            if (i < tile->row_count) _mm512_mask_storeu_epi32(out + (size_t)i * stride + first, mask, v[i]);
    }
    _Alignas(64) uint32_t counts[SSLM_LANES];
    _mm512_store_si512(counts, _mm512_permutex2var_epi32(clamped[0], in_order, clamped[1]));
    for (int32_t i = 0; i < tile->row_count; i++) saturated[i] += counts[i];
}

#endif
