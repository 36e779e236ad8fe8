/* The weights of a page as tiles of bytes want them.
 *
 * docs/arithmetic.md 3.7 has sums of each group of a page cut by S = T + E - e, rounded, and then added up. Weights
 * that are first raised by 15 - S bits have sums in one unit of their own, 2^-8, whatever their group and page: all
 * their bytes but the lowest can be multiplied together, and of the sums of the lowest bytes each group's are rounded
 * apart. With N' = N · 2^(15 - S) = 256 · H + L, where L has the products of lowest bytes with low bytes of values,
 *
 *     rshift_round(N · 2^7, S) = floor((N' + 128) / 256) = H + floor((L + 128) / 256).
 *
 * Since weights are at most 2^20, they have five bytes then. From S = 49 on nothing is left of |N · 2^7| < 2^48. What
 * lies between, which is rare, is left to the loops of single rows.
 */
#ifndef SSLM_AMX_WEIGHTS_H
#define SSLM_AMX_WEIGHTS_H

#include "amx_tiles.h"
#include "attention_512.h"

/* The largest S of weights that are raised, and the smallest of groups that add nothing. */
#define RAISED_MAX 15
#define VANISHING 49

#define WEIGHT_BYTES 5

/* Bytes of raised weights, the lowest first, at [four tokens][lane]; of four tokens the two in the middle change
 * places. */
typedef int8_t weight_planes[WEIGHT_BYTES][SIDE][BLOCK];

/* Bytes a … d of each lane of a vector, to shuffle it by. */
#define LANE_BYTES(a, b, c, d)                                                                                      \
    _mm512_add_epi8(_mm512_set1_epi32((a) | (b) << 8 | (c) << 16 | (d) << 24),                                      \
                    _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0))

/* A group, for every lane. */
typedef struct {
    __m512i origin;              /* t - T · 2^16 + 3 · 2^16 is this less the score */
    __m512i whole;               /* T, at most 64 */
    __m512i exponent;            /* e */
    __m512i shift;               /* S, at most 64; 64 where the group is empty */
    __m512i left;                /* of weights: 15 - S; their low 32 bits are what is left of them */
    __m512i right;               /* what the bits beyond these are cut by */
} lane_group;

typedef struct {
    lane_group near, far;
    __m512i limit;               /* near are scores above this */
    __mmask16 is_odd;            /* lanes that are left to the loops of single rows */
    int has_near_rest;           /* some near weight may have a lowest byte */
    int has_top;                 /* some weight has a highest byte */
} page_groups;

/* 2^24 · 2^-t for the last 16 bits of t, by lines between 64 nodes, as dot products of two pairs make them. */
typedef struct {
    __m512i starts[4], steps[4];
} power_lines;

/* A step has 18 bits: its last five are multiplied by the low half of t, the others by its last ten bits times 32. Bits
 * of the node that get into the product, times 1024, are taken from the starts before. */
ALWAYS_INLINE power_lines lines_of(const int32_t *nodes)
{
    power_lines lines;
    __m512i node = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i start = _mm512_loadu_si512(nodes + 16 * i);
        __m512i step = _mm512_sub_epi32(start, _mm512_loadu_si512(nodes + 16 * i + 1));
        __m512i upper = _mm512_srli_epi32(step, 5), lower = _mm512_and_si512(step, _mm512_set1_epi32(31));
        __m512i number = _mm512_add_epi32(node, _mm512_set1_epi32(i < 2 ? 16 * i : 16 * i - 64));
        __m512i odd = _mm512_slli_epi32(_mm512_and_si512(node, _mm512_set1_epi32(1)), 5);
        lines.starts[i] = _mm512_add_epi32(start, _mm512_sub_epi32(_mm512_mullo_epi32(lower, number),
                                                                   _mm512_mullo_epi32(upper, odd)));
        lines.steps[i] = _mm512_or_si512(lower, _mm512_slli_epi32(upper, 16));
    }
    return lines;
}

/* Bits of the first where a mask has them, of the second elsewhere. */
ALWAYS_INLINE __m512i choose(__m512i mask, __m512i first, __m512i second)
{
    return _mm512_ternarylogic_epi32(first, second, mask, 0xe4);
}

ALWAYS_INLINE __m512i power_of(const power_lines *lines, __m512i t)
{
    __m512i node = _mm512_srli_epi32(t, 10);
    __mmask16 is_upper = _mm512_test_epi32_mask(t, _mm512_set1_epi32(1 << 15));
    __m512i start = _mm512_permutex2var_epi32(lines->starts[0], node, lines->starts[1]);
    __m512i step = _mm512_permutex2var_epi32(lines->steps[0], node, lines->steps[1]);
    start = _mm512_mask_mov_epi32(start, is_upper,
                                  _mm512_permutex2var_epi32(lines->starts[2], node, lines->starts[3]));
    step = _mm512_mask_mov_epi32(step, is_upper, _mm512_permutex2var_epi32(lines->steps[2], node, lines->steps[3]));
    __m512i rest = choose(_mm512_set1_epi32(0xffff), t, _mm512_slli_epi32(t, 21));
    __m512i fall = _mm512_dpwssd_epi32(_mm512_set1_epi32(512), step, rest);
    return _mm512_sub_epi32(start, _mm512_srai_epi32(fall, 10));
}

/* Members have scores, of which `highest` is the largest; lanes without any do not have is_there. */
ALWAYS_INLINE lane_group group_of(const sslm_tile *tile, __m512i largest, __m512i highest, __m512i exponent,
                                  __mmask16 is_there)
{
    __m512i limit = _mm512_set1_epi32(64);
    __m512i whole = _mm512_srli_epi32(_mm512_sub_epi32(largest, highest), 16);
    /* From 64 on, neither numerators nor denominators are left. */
    whole = _mm512_maskz_min_epu32(is_there, whole, limit);
    __m512i shift = _mm512_sub_epi32(_mm512_load_si512(tile->value_exponents), exponent);
    shift = _mm512_mask_min_epu32(limit, is_there, _mm512_add_epi32(shift, whole), limit);
    __m512i origin = _mm512_sub_epi32(_mm512_set1_epi32(3), whole);
    return (lane_group){
        .origin = _mm512_add_epi32(largest, _mm512_slli_epi32(origin, 16)),
        .whole = whole,
        .exponent = exponent,
        .shift = shift,
        /* Shifts by 32 and more, and negative ones, leave nothing. */
        .left = _mm512_sub_epi32(_mm512_set1_epi32(RAISED_MAX), shift),
        .right = _mm512_add_epi32(shift, _mm512_set1_epi32(32 - RAISED_MAX)),
    };
}

ALWAYS_INLINE __mmask16 is_between(__m512i x, uint32_t first, uint32_t last)
{
    x = _mm512_sub_epi32(x, _mm512_set1_epi32((int32_t)first));
    return _mm512_cmple_epu32_mask(x, _mm512_set1_epi32((int32_t)(last - first)));
}

/* Let no weight of some lanes be left. */
ALWAYS_INLINE void drop_lanes(lane_group *group, __mmask16 lanes)
{
    group->left = _mm512_mask_mov_epi32(group->left, lanes, _mm512_set1_epi32(64));
    group->right = _mm512_mask_mov_epi32(group->right, lanes, _mm512_set1_epi32(64));
}

/* The place of the highest bit of numbers below 2^24, of which none is 0. */
ALWAYS_INLINE __m512i highest_bit(__m512i x)
{
    __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(_mm512_cvtepi32_ps(x)), 23);
    return _mm512_sub_epi32(exponent, _mm512_set1_epi32(127));
}

/* 2^e of every token. Exponents are 17 at most where there is a token. */
ALWAYS_INLINE void write_exponent_bits(const sslm_tile_page *page, uint32_t bits[SSLM_PAGE_TOKENS])
{
#pragma GCC unroll 4
    for (int32_t first = 0; first < SSLM_PAGE_TOKENS; first += 16)
        _mm512_store_si512(bits + first, _mm512_sllv_epi32(_mm512_set1_epi32(1),
                                                           _mm512_load_si512(page->exponents + first)));
}

/* Step 3 for both groups. */
ALWAYS_INLINE page_groups find_groups(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page,
                                      const int is_whole)
{
    __m512i largest = _mm512_load_si512(head->largest), none = _mm512_set1_epi32(INT32_MIN);
    __m512i limit = _mm512_max_epi32(largest, _mm512_set1_epi32(INT32_MIN + (int32_t)SSLM_FAR));
    limit = _mm512_sub_epi32(limit, _mm512_set1_epi32((int32_t)SSLM_FAR));
    __m512i highest = none, far_highest = none, near_exponents = _mm512_setzero_si512(), far_exponents = near_exponents;
    _Alignas(64) uint32_t bits[SSLM_PAGE_TOKENS];
    write_exponent_bits(page, bits);
    for (int32_t token = page->first; token < page->last; token++) {
        __m512i score = _mm512_load_si512(head->scores[page->score_start + token]);
        __m512i exponent = _mm512_set1_epi32((int32_t)bits[token]);
        __mmask16 seen = is_whole ? 0xffff : sees(tile, page->first_position + token);
        __mmask16 is_near = _mm512_mask_cmpgt_epi32_mask(seen, score, limit);
        __mmask16 is_far = _mm512_mask_cmple_epi32_mask(seen, score, limit);
        highest = _mm512_mask_max_epi32(highest, seen, highest, score);
        far_highest = _mm512_mask_max_epi32(far_highest, is_far, far_highest, score);
        near_exponents = _mm512_mask_or_epi32(near_exponents, is_near, near_exponents, exponent);
        far_exponents = _mm512_mask_or_epi32(far_exponents, is_far, far_exponents, exponent);
    }
    page_groups groups = {
        .near = group_of(tile, largest, highest, highest_bit(near_exponents),
                         _mm512_cmpgt_epi32_mask(highest, limit)),
        .far = group_of(tile, largest, far_highest, highest_bit(far_exponents),
                        _mm512_cmpneq_epi32_mask(far_highest, none)),
        .limit = limit,
    };
    groups.is_odd = is_between(groups.near.shift, RAISED_MAX + 1, VANISHING - 1)
                    | is_between(groups.far.shift, RAISED_MAX + 1, VANISHING - 1);
    groups.has_near_rest = (is_between(groups.near.shift, 8, RAISED_MAX) & ~groups.is_odd) != 0;
    drop_lanes(&groups.near, groups.is_odd);
    drop_lanes(&groups.far, groups.is_odd);
    return groups;
}

/* What a token's keys have of a page, for every lane. */
typedef struct {
    __m512i low;                 /* 32 bits of the raised weight */
    __m512i high;                /* and those above */
} raised_weight;

/* Step 4 for a token. */
ALWAYS_INLINE raised_weight weigh_token(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page,
                                        const int is_whole, const page_groups *groups, const power_lines *lines,
                                        int32_t token, __m512i *sum, __m512i *near_sum)
{
    const lane_group *near = &groups->near, *far = &groups->far;
    __m512i one = _mm512_set1_epi32(1);
    __m512i score = _mm512_load_si512(head->scores[page->score_start + token]);
    __mmask16 seen = is_whole ? 0xffff : sees(tile, page->first_position + token);
    __mmask16 is_near = _mm512_mask_cmpgt_epi32_mask(seen, score, groups->limit);
    __m512i t = _mm512_sub_epi32(_mm512_mask_mov_epi32(far->origin, is_near, near->origin), score);
    /* The last bit goes after rounding. */
    __m512i power = power_of(lines, t), down = _mm512_srli_epi32(t, 16);
    __m512i p = _mm512_srli_epi32(_mm512_add_epi32(_mm512_srlv_epi32(power, down), one), 1);
    *sum = is_whole ? _mm512_add_epi32(*sum, p) : _mm512_mask_add_epi32(*sum, seen, *sum, p);
    *near_sum = _mm512_mask_add_epi32(*near_sum, is_near, *near_sum, p);
    __m512i lift = _mm512_mask_mov_epi32(far->exponent, is_near, near->exponent);
    lift = _mm512_sub_epi32(lift, _mm512_set1_epi32(page->exponents[token]));
    __m512i n = _mm512_srlv_epi32(power, _mm512_add_epi32(down, lift));
    n = _mm512_srli_epi32(_mm512_add_epi32(n, one), 1);
    __m512i left = _mm512_mask_mov_epi32(far->left, is_near, near->left);
    return (raised_weight){
        .low = is_whole ? _mm512_sllv_epi32(n, left) : _mm512_maskz_sllv_epi32(seen, n, left),
        /* Far weights are cut by 8 or more. */
        .high = _mm512_maskz_srlv_epi32(is_near, n, near->right),
    };
}

/* Put the bytes of four tokens' weights side by side; return the highest ones. */
ALWAYS_INLINE __m512i store_weights(const raised_weight w[4], weight_planes planes, int32_t four)
{
    const __m512i first_up = LANE_BYTES(0, 0, 0, 1), last_down = LANE_BYTES(2, 3, 0, 0);
    const __m512i left = LANE_BYTES(0, 0, 0, 2), right = LANE_BYTES(1, 0, 3, 0);
    __m512i low[2], high[2], top[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512i even = w[2 * i].low, odd = w[2 * i + 1].low;
        low[i] = _mm512_mask_shuffle_epi8(even, 0xcccccccccccccccc, odd, first_up);
        high[i] = _mm512_mask_shuffle_epi8(odd, 0x3333333333333333, even, last_down);
        top[i] = _mm512_mask_shuffle_epi8(w[2 * i].high, 0xcccccccccccccccc, w[2 * i + 1].high, first_up);
    }
    _mm512_store_si512(planes[0][four], _mm512_mask_shuffle_epi8(low[0], 0xaaaaaaaaaaaaaaaa, low[1], left));
    _mm512_store_si512(planes[1][four], _mm512_mask_shuffle_epi8(low[1], 0x5555555555555555, low[0], right));
    _mm512_store_si512(planes[2][four], _mm512_mask_shuffle_epi8(high[0], 0xaaaaaaaaaaaaaaaa, high[1], left));
    _mm512_store_si512(planes[3][four], _mm512_mask_shuffle_epi8(high[1], 0x5555555555555555, high[0], right));
    top[0] = _mm512_mask_shuffle_epi8(top[0], 0xaaaaaaaaaaaaaaaa, top[1], left);
    _mm512_store_si512(planes[4][four], top[0]);
    return top[0];
}

/* Steps 3 and 4 for a page: write its weights, and add to the denominators. */
ALWAYS_INLINE page_groups weigh_keys_raised(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                                            const int is_whole, const power_lines *lines, weight_planes planes)
{
    page_groups groups = find_groups(tile, head, page, is_whole);
    __m512i sum = _mm512_setzero_si512(), near_sum = sum, top = sum;
    for (int32_t token = page->first / 4 * 4; token < page->last; token += 4) {
        raised_weight w[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            w[i] = weigh_token(tile, head, page, is_whole, &groups, lines, token + i, &sum, &near_sum);
        top = _mm512_or_si512(top, store_weights(w, planes, token / 4));
    }
    groups.has_top = _mm512_test_epi32_mask(top, top) != 0;
    __mmask16 lanes = (__mmask16)~groups.is_odd;
    add_denominators(_mm512_maskz_mov_epi32(lanes, near_sum), groups.near.whole, head->denominators);
    add_denominators(_mm512_maskz_sub_epi32(lanes, sum, near_sum), groups.far.whole, head->denominators);
    return groups;
}

static page_groups weigh_page_raised(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                                     const power_lines *lines, weight_planes planes)
{
    size_t skipped = (size_t)page->first / 4, used = ((size_t)page->last + 3) / 4;
    if (page->is_whole) return weigh_keys_raised(tile, head, page, 1, lines, planes);
    for (int byte = 0; byte < WEIGHT_BYTES; byte++) {
        memset(planes[byte], 0, skipped * BLOCK);
        memset(planes[byte][used], 0, (SIDE - used) * BLOCK);
    }
    return weigh_keys_raised(tile, head, page, 0, lines, planes);
}

/* Take the lowest bytes of near weights apart from those of far ones. */
static void part_lowest(const sslm_tile_head *head, const sslm_tile_page *page, const page_groups *groups,
                        weight_planes planes, int8_t near[SIDE][BLOCK], int8_t far[SIDE][BLOCK])
{
    static const int32_t places[4] = {0xff, 0xff << 16, 0xff << 8, (int32_t)0xff000000};
    for (int32_t four = 0; four < SIDE; four++) {
        __m512i is_near = _mm512_setzero_si512(), bytes = _mm512_load_si512(planes[0][four]);
        for (int32_t i = 0; i < 4; i++) {
            __m512i score = _mm512_load_si512(head->scores[page->score_start + 4 * four + i]);
            __mmask16 mask = _mm512_cmpgt_epi32_mask(score, groups->limit);
            is_near = _mm512_mask_or_epi32(is_near, mask, is_near, _mm512_set1_epi32(places[i]));
        }
        _mm512_store_si512(near[four], _mm512_and_si512(bytes, is_near));
        _mm512_store_si512(far[four], _mm512_andnot_si512(is_near, bytes));
    }
}

#endif
