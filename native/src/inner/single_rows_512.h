/* Single rows with 512-bit vectors. */
#ifndef SSLM_SINGLE_ROWS_512_H
#define SSLM_SINGLE_ROWS_512_H

#include "tiles_512.h"

/* What is still to be fetched of what is read later. Evenly spread over the work, since a burst of fetches stops it. */
typedef struct {
    const char *next;
    const char *end;
} fetch_cursor;

ALWAYS_INLINE fetch_cursor start_fetch(const sslm_row_page *page)
{
    return (fetch_cursor){.next = page->next, .end = page->next + 64 * (size_t)page->next_lines};
}

ALWAYS_INLINE void fetch_lines(fetch_cursor *cursor, int32_t count)
{
    for (int32_t i = 0; i < count && cursor->next < cursor->end; i++, cursor->next += 64)
        _mm_prefetch(cursor->next, _MM_HINT_T1);
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

/* The sums of eight tokens with the high bytes of the query, and then with the low ones. */
ALWAYS_INLINE __m512i dot_eight(const int16_t *query, const int16_t *keys, int32_t head_dim, fetch_cursor *fetch,
                                int32_t lines)
{
    __m512i v[16], half = _mm512_set1_epi16(128);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) v[i] = _mm512_setzero_si512();
    for (int32_t d = 0; d < head_dim; d += 32) {
        __mmask32 mask = head_dim - d < 32 ? (__mmask32)((UINT32_C(1) << (head_dim - d)) - 1) : UINT32_MAX;
        __m512i codes = _mm512_maskz_loadu_epi16(mask, query + d);
        __m512i high = _mm512_srai_epi16(_mm512_add_epi16(codes, half), 8);
        __m512i low = _mm512_sub_epi16(codes, _mm512_slli_epi16(high, 8));
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m512i key = _mm512_maskz_loadu_epi16(mask, keys + (size_t)i * (size_t)head_dim + d);
            ADD_PAIRS(v[i], high, key);
            ADD_PAIRS(v[8 + i], low, key);
        }
        fetch_lines(fetch, lines);
    }
    return sum_each(v);
}

/* The tokens of a page from `token` on that the row sees. */
ALWAYS_INLINE __mmask16 seen_tokens(const sslm_row_page *page, int32_t token)
{
    uint64_t below_last = page->last < SSLM_PAGE_TOKENS ? (UINT64_C(1) << page->last) - 1 : UINT64_MAX;
    return (__mmask16)((below_last & ~((UINT64_C(1) << page->first) - 1)) >> token);
}

void TIERED(sslm_score_row)(sslm_row_head *head, const sslm_row_page *page)
{
    __m512i largest = _mm512_set1_epi32(INT32_MIN), one = _mm512_set1_epi32(1);
    __m512i right = _mm512_set1_epi32(head->sum_shift), left = _mm512_set1_epi32(8 - head->sum_shift);
    fetch_cursor fetch = start_fetch(page);
    int32_t lines = page->next_lines * 4 / page->head_dim + 1;
    /* A page holds 64 tokens, so that whole groups can be read whatever they contain. */
    for (int32_t token = page->first / 16 * 16; token < page->last; token += 16) {
        const int16_t *keys = page->codes + (size_t)token * (size_t)page->head_dim;
        __m512i first = dot_eight(head->codes, keys, page->head_dim, &fetch, lines);
        __m512i second = dot_eight(head->codes, keys + 8 * (size_t)page->head_dim, page->head_dim, &fetch, lines);
        __m512i high = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
        __m512i low = _mm512_shuffle_i64x2(first, second, 0xee);
        __m512i cut = _mm512_add_epi32(_mm512_sllv_epi32(high, left), _mm512_srav_epi32(low, right));
        const void *exponent_bytes = page->exponents + token;
        __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128(exponent_bytes));
        __m512i doubled = _mm512_srav_epi32(cut, _mm512_sub_epi32(_mm512_set1_epi32(head->score_shift), exponents));
        __m512i score = _mm512_srai_epi32(_mm512_add_epi32(doubled, one), 1);
        _mm512_storeu_si512(head->scores + page->score_start + token, score);
        largest = _mm512_mask_max_epi32(largest, seen_tokens(page, token), largest, score);
    }
    int32_t highest = _mm512_reduce_max_epi32(largest);
    head->largest = highest > head->largest ? highest : head->largest;
}

/* A page's keys in four vectors, and one group of them. */
typedef struct {
    __m512i distances[4];        /* t */
    __m512i exponents[4];
    __m512i powers[4];           /* 2^24 · 2^-t for the last 16 bits of t */
} page_keys;

typedef struct {
    uint32_t high[SSLM_PAGE_TOKENS];   /* halves of the weights of pairs of tokens, at even indices */
    uint32_t low[SSLM_PAGE_TOKENS];
    int32_t tokens[SSLM_PAGE_TOKENS / 2];   /* the even ones of the pairs that have a weight */
    int32_t count;
} pair_weights;

/* List the pairs of which a token has a bit. */
static void list_pairs(uint64_t tokens, pair_weights *out)
{
    tokens |= tokens >> 1;
    out->count = 0;
    for (int32_t token = 0; token < SSLM_PAGE_TOKENS; token += 2, tokens >>= 2) {
        out->tokens[out->count] = token;
        out->count += (int32_t)(tokens & 1);
    }
}

/* Steps 3 and 4 for the members of a group: write the weights, add to the denominator, return the last shift. */
ALWAYS_INLINE int32_t weigh_members(sslm_row_head *head, const sslm_row_page *page, const page_keys *keys,
                                    const __mmask16 members[4], pair_weights *out)
{
    __m512i nearest = _mm512_set1_epi32(-1), highest = _mm512_setzero_si512(), sums = highest;
    __m512i one = _mm512_set1_epi32(1), part = _mm512_set1_epi32(0x3ff);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        nearest = _mm512_mask_min_epu32(nearest, members[i], nearest, keys->distances[i]);
        highest = _mm512_mask_max_epu32(highest, members[i], highest, keys->exponents[i]);
    }
    int32_t whole = (int32_t)((uint32_t)_mm512_reduce_min_epu32(nearest) >> 16);
    int32_t exponent = (int32_t)_mm512_reduce_max_epu32(highest);
    uint64_t tokens = 0;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i down = _mm512_sub_epi32(_mm512_srli_epi32(keys->distances[i], 16), _mm512_set1_epi32(whole - 3));
        __m512i p = _mm512_srli_epi32(_mm512_add_epi32(_mm512_srlv_epi32(keys->powers[i], down), one), 1);
        sums = _mm512_mask_add_epi32(sums, members[i], sums, p);
        down = _mm512_add_epi32(down, _mm512_sub_epi32(_mm512_set1_epi32(exponent), keys->exponents[i]));
        __m512i n = _mm512_add_epi32(_mm512_srlv_epi32(keys->powers[i], down), one);
        n = _mm512_maskz_srli_epi32(members[i], n, 1);
        __m512i high = _mm512_srli_epi32(n, 10), low = _mm512_and_si512(n, part);
        _mm512_storeu_si512(out->high + 16 * i, _mm512_or_si512(high, _mm512_srli_epi64(high, 16)));
        _mm512_storeu_si512(out->low + 16 * i, _mm512_or_si512(low, _mm512_srli_epi64(low, 16)));
        tokens |= (uint64_t)_mm512_test_epi32_mask(n, n) << 16 * i;
    }
    list_pairs(tokens, out);
    head->denominator += rshift_round((int64_t)(uint32_t)_mm512_reduce_add_epi32(sums) << 7, whole);
    return whole + page->value_exponent - exponent;
}

/* Step 5: add the weighed values, cut by a shift. */
static void add_values(sslm_row_head *head, const sslm_row_page *page, const pair_weights *weights, int32_t shift,
                       fetch_cursor *fetch)
{
    /* A cut by 54 leaves nothing, as longer ones. */
    shift = shift < 54 ? shift : 54;
    __m512i cut = _mm512_set1_epi64(shift), middle = _mm512_set1_epi64((INT64_C(1) << shift) >> 1);
    for (int32_t d = 0; d < page->head_dim; d += 64) {
        /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
        __m512i high[4], low[4];
        __mmask16 masks[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int32_t rest = page->head_dim - d - 16 * i;
            masks[i] = rest >= 16 ? 0xffff : rest <= 0 ? 0 : (__mmask16)((1u << rest) - 1);
            high[i] = low[i] = _mm512_setzero_si512();
        }
        for (int32_t index = 0; index < weights->count; index++) {
            size_t token = (size_t)weights->tokens[index];
            fetch_lines(fetch, 1);
            const int16_t *v = page->codes + token * (size_t)page->head_dim + 2 * (size_t)d;
            __m512i h = _mm512_set1_epi32((int32_t)weights->high[token]);
            __m512i l = _mm512_set1_epi32((int32_t)weights->low[token]);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                __m512i codes = _mm512_maskz_loadu_epi32(masks[i], v + 32 * i);
                ADD_PAIRS(high[i], h, codes);
                ADD_PAIRS(low[i], l, codes);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            _Alignas(64) int64_t sums[16];
            store_planes(high[i], low[i], 10, 0xffff, sums);
            for (int half = 0; half < 2; half++) {
                __mmask8 mask = (__mmask8)(masks[i] >> 8 * half);
                int64_t *to = head->numerators + d + 16 * i + 8 * half;
                __m512i sum = _mm512_slli_epi64(_mm512_load_si512(sums + 8 * half), 7);
                sum = _mm512_srav_epi64(_mm512_add_epi64(sum, middle), cut);
                _mm512_mask_storeu_epi64(to, mask, _mm512_add_epi64(_mm512_maskz_loadu_epi64(mask, to), sum));
            }
        }
    }
}

void TIERED(sslm_attend_row)(sslm_row_head *head, const sslm_row_page *page)
{
    page_keys keys;
    __mmask16 near[4], far[4];
    __m512i starts[4], steps[4], largest = _mm512_set1_epi32(head->largest), limit = _mm512_set1_epi32(SSLM_FAR);
    uint32_t any_near = 0, any_far = 0;
    load_nodes(page->nodes, starts, steps);
    fetch_cursor fetch = start_fetch(page);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const int32_t *scores = head->scores + page->score_start + 16 * i;
        const void *exponents = page->exponents + 16 * i;
        __mmask16 seen = seen_tokens(page, 16 * i);
        fetch_lines(&fetch, 3);
        keys.distances[i] = _mm512_sub_epi32(largest, _mm512_loadu_si512(scores));
        keys.exponents[i] = _mm512_cvtepu8_epi32(_mm_loadu_si128(exponents));
        keys.powers[i] = fraction_power(starts, steps, keys.distances[i]);
        near[i] = _mm512_mask_cmplt_epu32_mask(seen, keys.distances[i], limit);
        far[i] = (__mmask16)(seen & ~near[i]);
        any_near |= near[i];
        any_far |= far[i];
    }
    pair_weights near_weights, far_weights;
    int32_t near_shift = 0, far_shift = 0;
    if (any_near != 0) near_shift = weigh_members(head, page, &keys, near, &near_weights);
    if (any_far != 0) far_shift = weigh_members(head, page, &keys, far, &far_weights);
    if (any_near != 0) add_values(head, page, &near_weights, near_shift, &fetch);
    if (any_far != 0) add_values(head, page, &far_weights, far_shift, &fetch);
    fetch_lines(&fetch, page->next_lines);
}

#endif
