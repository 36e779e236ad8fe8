/* The inner loops of attention with AVX-512 and its dot products of pairs. */
#include "attention_512.h"
#include "row_scores_512.h"

/* Pairs of dims lie at [pair][plane][lane]: planes are the high bytes of the codes, and the low ones, as numbers of
 * 16 bits. */
void sslm_pack_queries_avx512vnni(const sslm_tile *tile, sslm_tile_head *head)
{
    for (int32_t first = 0; first < tile->head_dim; first += 32) {
        __m512i high[SSLM_LANES], low[SSLM_LANES];
        for (int lane = 0; lane < SSLM_LANES; lane++) {
            __m512i codes = _mm512_loadu_si512(head->codes[lane] + first);
            high[lane] = _mm512_srai_epi16(_mm512_add_epi16(codes, _mm512_set1_epi16(128)), 8);
            low[lane] = _mm512_sub_epi16(codes, _mm512_slli_epi16(high[lane], 8));
        }
        transpose(high);
        transpose(low);
        int8_t *to = head->packed + 64 * (size_t)first;
        for (int pair = 0; pair < 16; pair++) {
            _mm512_store_si512(to + 128 * pair, high[pair]);
            _mm512_store_si512(to + 128 * pair + 64, low[pair]);
        }
    }
}

/* Two numbers of 16 bits, for every lane. */
ALWAYS_INLINE __m512i spread_pair(const int16_t *pair)
{
    return _mm512_set1_epi32(pair_at(pair));
}

static void score_head(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page)
{
    size_t head_dim = (size_t)tile->head_dim;
    score_lanes lanes = start_scores(tile, head, page);
    /* A page holds 64 tokens, so that whole groups of eight can be read whatever they contain; what a last pair has
     * beyond the dims meets a zero. */
    for (int32_t token = page->first / 8 * 8; token < page->last; token += 8) {
        const int16_t *keys = page->codes + (size_t)token * head_dim;
        __m512i high[8], low[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) high[i] = low[i] = _mm512_setzero_si512();
        for (size_t d = 0; d < head_dim; d += 2) {
            __m512i h = _mm512_load_si512(head->packed + 64 * d), l = _mm512_load_si512(head->packed + 64 * d + 64);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __m512i pair = spread_pair(keys + (size_t)i * head_dim + d);
                ADD_PAIRS(high[i], h, pair);
                ADD_PAIRS(low[i], l, pair);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __mmask16 seen = page->is_whole ? 0xffff : sees(tile, page->first_position + token + i);
            finish_scores(&lanes, token + i, seen, high[i], low[i]);
        }
        fetch_ahead(lanes.next, 8 * lanes.next_step, token / 8);
    }
    _mm512_store_si512(head->largest, lanes.largest);
}

void sslm_score_page_avx512vnni(sslm_tile *tile, const sslm_tile_page *page)
{
    for (int32_t i = 0; i < tile->head_count; i++) score_head(tile, &tile->heads[i], page);
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

ALWAYS_INLINE void start_group(sslm_tile_group *group, const group_range *range)
{
    _mm512_store_si512(group->wholes, _mm512_srli_epi32(range->nearest, 16));
    _mm512_store_si512(group->exponents, range->exponent);
    group->is_empty = _mm512_cmpneq_epi32_mask(range->nearest, _mm512_set1_epi32(-1)) == 0;
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
    const char *next = start_fetch_ahead(tile, head, page);
    for (int32_t token = page->first; token < page->last; token++) {
        __m512i t = distance_of(head, page, token, largest);
        __mmask16 is_near = _mm512_cmplt_epu32_mask(t, limit), is_far = (__mmask16)~is_near;
        if (!is_whole) {
            __mmask16 seen = sees(tile, page->first_position + token);
            is_far &= seen;
            is_near &= seen;
        }
        fetch_ahead(next, page->next_step, token);
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

/* The weights of the pairs of tokens that have any, in two halves. */
typedef struct {
    __m512i high[SSLM_PAGE_TOKENS / 2];
    __m512i low[SSLM_PAGE_TOKENS / 2];
    int32_t pairs[SSLM_PAGE_TOKENS / 2];
    int32_t count;
} weight_list;

static void list_weights(const sslm_tile_group *group, int32_t first, int32_t last, weight_list *list)
{
    __m512i part = _mm512_set1_epi32(0x3ff);
    int32_t count = 0;
    for (int32_t pair = first; pair < last; pair++) {
        __m512i even = _mm512_load_si512(group->weights[2 * pair]);
        __m512i odd = _mm512_load_si512(group->weights[2 * pair + 1]);
        __m512i high = _mm512_or_si512(_mm512_srli_epi32(even, 10), _mm512_slli_epi32(_mm512_srli_epi32(odd, 10), 16));
        __m512i low = _mm512_or_si512(_mm512_and_si512(even, part), _mm512_slli_epi32(_mm512_and_si512(odd, part), 16));
        list->high[count] = high;
        list->low[count] = low;
        list->pairs[count] = pair;
        count += _mm512_test_epi32_mask(_mm512_or_si512(high, low), _mm512_set1_epi32(-1)) != 0;
    }
    list->count = count;
}

static void add_group(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                      const sslm_tile_group *group)
{
    if (group->is_empty) return;
    weight_list list;
    list_weights(group, page->first / 2, (page->last + 1) / 2, &list);
    group_cut cut = cut_of(tile, group);
    size_t head_dim = (size_t)tile->head_dim;
    /* After the last page's last values there are exponents, so that whole groups of eight dims can be read. */
    for (size_t d = 0; d < head_dim; d += 8) {
        /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
        __m512i high[8], low[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) high[i] = low[i] = _mm512_setzero_si512();
        for (int32_t index = 0; index < list.count; index++) {
            const int16_t *values = page->codes + 2 * ((size_t)list.pairs[index] * head_dim + d);
            __m512i h = list.high[index], l = list.low[index];
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __m512i pair = spread_pair(values + 2 * i);
                ADD_PAIRS(high[i], h, pair);
                ADD_PAIRS(low[i], l, pair);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m512i rest = _mm512_slli_epi32(_mm512_and_si512(high[i], _mm512_set1_epi32(63)), 10);
            rest = _mm512_add_epi32(rest, low[i]);
            __m512i upper = _mm512_add_epi32(_mm512_srai_epi32(high[i], 6), _mm512_srai_epi32(rest, 16));
            add_numerators(&cut, upper, _mm512_slli_epi32(rest, 16), head->numerators[d + (size_t)i]);
        }
    }
}

#include "page_by_page.h"
