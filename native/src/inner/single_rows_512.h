/* Single rows with 512-bit vectors. */
#ifndef SSLM_SINGLE_ROWS_512_H
#define SSLM_SINGLE_ROWS_512_H

#include "tiles_512.h"

/* Lines of what is read later: of the next page, and by turns of some pages after it. */
typedef struct {
    const sslm_row_page *page;
    uint32_t line;
} fetch_cursor;

ALWAYS_INLINE fetch_cursor start_fetch(const sslm_row_page *page)
{
    return (fetch_cursor){.page = page};
}

/* Fetches are evenly spread over the work, since where many come together all work waits for memory. */
ALWAYS_INLINE void fetch_lines(fetch_cursor *next, int32_t count)
{
    for (int32_t i = 0; i < count; i++, next->line++) {
        size_t round = next->line / SSLM_FAR_PAGES, turn = next->line % SSLM_FAR_PAGES;
        _mm_prefetch((const char *)next->page->near + 64 * (size_t)next->line, _MM_HINT_T0);
        _mm_prefetch((const char *)next->page->far[turn] + 64 * round, _MM_HINT_T1);
    }
}

/* Fetch what is left. */
ALWAYS_INLINE void fetch_rest(fetch_cursor *next)
{
    while (next->line < 2 * (uint32_t)next->page->head_dim) fetch_lines(next, 1);
}

/* Turn 16 of a page's sums of products, cut by head->sum_shift, into scores; return the largest so far. */
ALWAYS_INLINE __m512i finish_row_scores(sslm_row_head *head, const sslm_row_page *page, int32_t token, __m512i cut,
                                        __m512i largest)
{
    const void *exponent_bytes = page->exponents + token;
    __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128(exponent_bytes));
    __m512i doubled = _mm512_srav_epi32(cut, _mm512_sub_epi32(_mm512_set1_epi32(head->score_shift), exponents));
    __m512i score = _mm512_srai_epi32(_mm512_add_epi32(doubled, _mm512_set1_epi32(1)), 1);
    _mm512_storeu_si512(head->scores + page->score_start + token, score);
    /* The tokens that the row sees. */
    uint64_t below_last = page->last < SSLM_PAGE_TOKENS ? (UINT64_C(1) << page->last) - 1 : UINT64_MAX;
    __mmask16 seen = (__mmask16)((below_last & ~((UINT64_C(1) << page->first) - 1)) >> token);
    return _mm512_mask_max_epi32(largest, seen, largest, score);
}

ALWAYS_INLINE void raise_largest(sslm_row_head *head, __m512i largest)
{
    int32_t highest = _mm512_reduce_max_epi32(largest);
    head->largest = highest > head->largest ? highest : head->largest;
}

/* The tokens of a page in four vectors: after packing two of them into one of 16-bit numbers these are in order. */
typedef struct {
    __m512i exponents[4];
    __mmask16 seen[4];
} page_tokens;

/* Tokens 0 … 31 by fours, in turns. */
ALWAYS_INLINE void take_turns(__m512i first, __m512i second, __m512i turns[2])
{
    turns[0] = _mm512_shuffle_i32x4(first, second, 0x88);
    turns[1] = _mm512_shuffle_i32x4(first, second, 0xdd);
}

ALWAYS_INLINE page_tokens tokens_of(const sslm_row_page *page)
{
    page_tokens tokens;
    __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    __m512i count = _mm512_set1_epi32(page->last - page->first);
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
        const void *first = page->exponents + 16 * i, *second = page->exponents + 16 * i + 16;
        take_turns(_mm512_cvtepu8_epi32(_mm_loadu_si128(first)), _mm512_cvtepu8_epi32(_mm_loadu_si128(second)),
                   &tokens.exponents[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i token = _mm512_add_epi32(order, _mm512_set1_epi32(i / 2 * 32 + i % 2 * 4 - page->first));
        tokens.seen[i] = _mm512_cmplt_epu32_mask(token, count);
    }
    return tokens;
}

enum { NEAR, FAR, GROUPS };

/* What the groups of a page add to a head. */
typedef struct {
    _Alignas(64) int32_t high[GROUPS][SSLM_PAGE_TOKENS / 2];   /* halves of the weights of pairs of tokens */
    _Alignas(64) int32_t low[GROUPS][SSLM_PAGE_TOKENS / 2];
    uint32_t pairs[GROUPS];      /* a bit for every pair that has a weight */
    int32_t shifts[GROUPS];      /* the last cut of the sums */
} row_weights;

/* Keep the weights of a group's members of 32 tokens. */
ALWAYS_INLINE void keep_weights(const __m512i n[2], const __mmask16 members[2], int group, int half, row_weights *out)
{
    __m512i part = _mm512_set1_epi32(0x3ff);
    __m512i high = _mm512_packus_epi32(_mm512_maskz_srli_epi32(members[0], n[0], 10),
                                       _mm512_maskz_srli_epi32(members[1], n[1], 10));
    __m512i low = _mm512_packus_epi32(_mm512_maskz_and_epi32(members[0], n[0], part),
                                      _mm512_maskz_and_epi32(members[1], n[1], part));
    _mm512_store_si512(out->high[group] + 16 * half, high);
    _mm512_store_si512(out->low[group] + 16 * half, low);
    __m512i both = _mm512_or_si512(high, low);
    out->pairs[group] |= (uint32_t)_mm512_test_epi32_mask(both, both) << 16 * half;
}

/* Of two or four vectors the largest numbers, or the sums; in every four lanes. */
ALWAYS_INLINE __m512i largest_of_each(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = _mm512_max_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    __m512i cd = _mm512_max_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i all = _mm512_max_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    all = _mm512_max_epi32(all, _mm512_shuffle_i32x4(all, all, 0x4e));
    return _mm512_max_epi32(all, _mm512_shuffle_i32x4(all, all, 0xb1));
}

ALWAYS_INLINE __m512i sum_of_each(__m512i a, __m512i b)
{
    __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    ab = _mm512_add_epi32(ab, _mm512_shuffle_epi32(ab, 0x4e));
    ab = _mm512_add_epi32(ab, _mm512_shuffle_i32x4(ab, ab, 0x4e));
    return _mm512_add_epi32(ab, _mm512_shuffle_i32x4(ab, ab, 0xb1));
}

/* T and e of both groups, in all lanes; those of an empty group are arbitrary. */
typedef struct {
    __m512i wholes[GROUPS];
    __m512i exponents[GROUPS];
} group_ranges;

/* Step 3. */
ALWAYS_INLINE group_ranges measure_row(__m512i largest, const __m512i scores[4], const page_tokens *tokens,
                                       __mmask16 members[GROUPS][4])
{
    __m512i limit = _mm512_set1_epi32(SSLM_FAR), lowest = _mm512_set1_epi32(INT32_MIN);
    __m512i nearest[GROUPS] = {lowest, lowest}, highest[GROUPS] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i t = _mm512_sub_epi32(largest, scores[i]);
        members[NEAR][i] = _mm512_mask_cmplt_epu32_mask(tokens->seen[i], t, limit);
        members[FAR][i] = _mm512_mask_cmpge_epu32_mask(tokens->seen[i], t, limit);
#pragma GCC unroll 2
        for (int g = 0; g < GROUPS; g++) {
            nearest[g] = _mm512_mask_max_epi32(nearest[g], members[g][i], nearest[g], scores[i]);
            highest[g] = _mm512_mask_max_epi32(highest[g], members[g][i], highest[g], tokens->exponents[i]);
        }
    }
    __m512i all = largest_of_each(nearest[NEAR], nearest[FAR], highest[NEAR], highest[FAR]);
    __m512i wholes = _mm512_srli_epi32(_mm512_sub_epi32(largest, all), 16);
    return (group_ranges){.wholes = {_mm512_shuffle_epi32(wholes, 0x00), _mm512_shuffle_epi32(wholes, 0x55)},
                          .exponents = {_mm512_shuffle_epi32(all, 0xaa), _mm512_shuffle_epi32(all, 0xff)}};
}

/* Steps 3 and 4: the weights, and the denominator. */
ALWAYS_INLINE void weigh_row(sslm_row_head *head, const sslm_row_page *page, const page_tokens *tokens,
                             fetch_cursor *next, row_weights *out)
{
    __m512i starts[4], steps[4], scores[4], sums[GROUPS] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    __mmask16 members[GROUPS][4];
    __m512i largest = _mm512_set1_epi32(head->largest), one = _mm512_set1_epi32(1), three = _mm512_set1_epi32(3);
    const int32_t *from = head->scores + page->score_start;
    load_nodes(page->nodes, starts, steps);
    take_turns(_mm512_loadu_si512(from), _mm512_loadu_si512(from + 16), scores);
    take_turns(_mm512_loadu_si512(from + 32), _mm512_loadu_si512(from + 48), scores + 2);
    group_ranges ranges = measure_row(largest, scores, tokens, members);
    out->pairs[NEAR] = out->pairs[FAR] = 0;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m512i n[2];
#pragma GCC unroll 2
        for (int turn = 0; turn < 2; turn++) {
            int i = 2 * half + turn;
            __m512i t = _mm512_sub_epi32(largest, scores[i]), power = fraction_power(starts, steps, t);
            __m512i whole = _mm512_mask_mov_epi32(ranges.wholes[FAR], members[NEAR][i], ranges.wholes[NEAR]);
            __m512i exponent = _mm512_mask_mov_epi32(ranges.exponents[FAR], members[NEAR][i], ranges.exponents[NEAR]);
            /* A power is cut by four bits and its whole powers of two; the last bit goes after rounding. */
            __m512i down = _mm512_add_epi32(_mm512_sub_epi32(_mm512_srli_epi32(t, 16), whole), three);
            __m512i p = _mm512_srli_epi32(_mm512_add_epi32(_mm512_srlv_epi32(power, down), one), 1);
            sums[NEAR] = _mm512_mask_add_epi32(sums[NEAR], members[NEAR][i], sums[NEAR], p);
            sums[FAR] = _mm512_mask_add_epi32(sums[FAR], members[FAR][i], sums[FAR], p);
            down = _mm512_add_epi32(down, _mm512_sub_epi32(exponent, tokens->exponents[i]));
            fetch_lines(next, 2);
            n[turn] = _mm512_srli_epi32(_mm512_add_epi32(_mm512_srlv_epi32(power, down), one), 1);
        }
        keep_weights(n, members[NEAR] + 2 * half, NEAR, half, out);
        keep_weights(n, members[FAR] + 2 * half, FAR, half, out);
    }
    uint64_t both = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(sum_of_each(sums[NEAR], sums[FAR])));
    for (int g = 0; g < GROUPS; g++, both >>= 32) {
        int32_t whole = _mm_cvtsi128_si32(_mm512_castsi512_si128(ranges.wholes[g]));
        int32_t exponent = _mm_cvtsi128_si32(_mm512_castsi512_si128(ranges.exponents[g]));
        head->denominator += rshift_round((int64_t)(uint32_t)both << 7, whole);
        out->shifts[g] = whole + page->value_exponent - exponent;
    }
}

/* Step 5 for 64 dims: the sums of a group's weighed values, in halves. */
typedef struct {
    __m512i high[4];
    __m512i low[4];
} value_sums;

ALWAYS_INLINE void sum_values(const row_weights *weights, int group, const int16_t *values, int32_t head_dim,
                              int32_t first_dim, fetch_cursor *next, value_sums *sums)
{
    const int32_t *high_weights = weights->high[group], *low_weights = weights->low[group];
    /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
    __m512i high[4], low[4];
    __mmask16 masks[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int32_t rest = head_dim - first_dim - 16 * i;
        masks[i] = rest >= 16 ? 0xffff : rest <= 0 ? 0 : (__mmask16)((1u << rest) - 1);
        high[i] = low[i] = _mm512_setzero_si512();
    }
    /* From the last pair on: the first bit that is set takes an instruction that not every CPU has. */
    for (uint32_t left = weights->pairs[group], pair; left != 0; left ^= UINT32_C(1) << pair) {
        pair = 31 - (uint32_t)__builtin_clz(left);
        const int16_t *v = values + 2 * ((size_t)pair * (size_t)head_dim + (size_t)first_dim);
        __m512i h = _mm512_set1_epi32(high_weights[pair]), l = _mm512_set1_epi32(low_weights[pair]);
        fetch_lines(next, 1);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m512i codes = _mm512_maskz_loadu_epi32(masks[i], v + 32 * i);
            ADD_PAIRS(high[i], h, codes);
            ADD_PAIRS(low[i], l, codes);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums->high[i] = high[i];
        sums->low[i] = low[i];
    }
}

/* 2^17 · high + 2^7 · low of the even lanes. */
ALWAYS_INLINE __m512i join_halves(__m512i high, __m512i low)
{
    return _mm512_add_epi64(_mm512_mul_epi32(high, _mm512_set1_epi64(1 << 17)),
                            _mm512_mul_epi32(low, _mm512_set1_epi64(1 << 7)));
}

/* Cut the sums of 64 dims and add them. Of every 16 numerators the even ones come first. */
ALWAYS_INLINE void add_numerators_row(const value_sums *sums, int32_t shift, int64_t *numerators)
{
    /* A cut by 54 leaves nothing, as longer ones. */
    shift = shift < 54 ? shift : 54;
    __m512i cut = _mm512_set1_epi64(shift), middle = _mm512_set1_epi64((INT64_C(1) << shift) >> 1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i parts[2] = {join_halves(sums->high[i], sums->low[i]),
                            join_halves(_mm512_srli_epi64(sums->high[i], 32), _mm512_srli_epi64(sums->low[i], 32))};
#pragma GCC unroll 2
        for (int odd = 0; odd < 2; odd++) {
            int64_t *to = numerators + 16 * i + 8 * odd;
            __m512i part = _mm512_srav_epi64(_mm512_add_epi64(parts[odd], middle), cut);
            _mm512_store_si512(to, _mm512_add_epi64(_mm512_load_si512(to), part));
        }
    }
}

/* Where the numerator of a dim lies: of 16 dims, the even ones come first. */
ALWAYS_INLINE int32_t row_place(int32_t dim)
{
    return dim / 16 * 16 + dim % 2 * 8 + dim % 16 / 2;
}

void TIERED(sslm_attend_row)(sslm_row_heads *row, const sslm_row_page *page)
{
    page_tokens tokens = tokens_of(page);
    row_weights weights[SSLM_ROW_HEADS_MAX];
    fetch_cursor next = start_fetch(page);
    for (int32_t i = 0; i < row->head_count; i++) weigh_row(&row->heads[i], page, &tokens, &next, &weights[i]);
    for (int32_t i = 0; i < row->head_count; i++) {
        for (int32_t d = 0; d < page->head_dim; d += 64) {
            for (int group = 0; group < GROUPS; group++) {
                if (weights[i].pairs[group] == 0) continue;
                value_sums sums;
                sum_values(&weights[i], group, page->codes, page->head_dim, d, &next, &sums);
                add_numerators_row(&sums, weights[i].shifts[group], row->heads[i].numerators + d);
            }
        }
    }
    fetch_rest(&next);
}

uint64_t TIERED(sslm_divide_row)(const sslm_row_head *head, int32_t head_dim, int32_t value_exponent, int32_t *out)
{
    divisor by = divisor_of(head->denominator);
    __m512i down = _mm512_set1_epi64(by.down), middle = _mm512_set1_epi64((INT64_C(1) << by.down) >> 1);
    __m512i reciprocal = _mm512_set1_epi64(by.reciprocal), right = _mm512_set1_epi64(17 - value_exponent);
    lane_divisors same = {{down, down}, {middle, middle}, {reciprocal, reciprocal}, {right, right}};
    __m512i clamped = _mm512_setzero_si512();
    for (int32_t d = 0; d < head_dim; d += 16) {
        int32_t rest = head_dim - d;
        __m512i even = divide_half(&same, 0, head->numerators + d, &clamped);
        __m512i odd = divide_half(&same, 1, head->numerators + d, &clamped);
        __mmask16 mask = rest < 16 ? (__mmask16)((1u << rest) - 1) : 0xffff;
        _mm512_mask_storeu_epi32(out + d, mask, _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32)));
    }
    return (uint64_t)_mm512_reduce_add_epi64(clamped);
}

#endif
