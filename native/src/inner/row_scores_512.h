/* Scores of single rows with 512-bit vectors. */
#ifndef SSLM_ROW_SCORES_512_H
#define SSLM_ROW_SCORES_512_H

#include "single_rows_512.h"

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
ALWAYS_INLINE __m512i dot_eight(const int16_t *query, const int16_t *keys, int32_t head_dim, fetch_cursor *next,
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
        fetch_lines(next, lines);
    }
    return sum_each(v);
}

static void score_row_head(sslm_row_head *head, const sslm_row_page *page, fetch_cursor *next, int32_t lines)
{
    __m512i largest = _mm512_set1_epi32(INT32_MIN);
    __m512i right = _mm512_set1_epi32(head->sum_shift), left = _mm512_set1_epi32(8 - head->sum_shift);
    /* A page holds 64 tokens, so that whole groups can be read whatever they contain. */
    for (int32_t token = page->first / 16 * 16; token < page->last; token += 16) {
        const int16_t *keys = page->codes + (size_t)token * (size_t)page->head_dim;
        __m512i first = dot_eight(head->codes, keys, page->head_dim, next, lines);
        __m512i second = dot_eight(head->codes, keys + 8 * (size_t)page->head_dim, page->head_dim, next, lines);
        __m512i high = _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1);
        __m512i low = _mm512_shuffle_i64x2(first, second, 0xee);
        __m512i cut = _mm512_add_epi32(_mm512_sllv_epi32(high, left), _mm512_srav_epi32(low, right));
        largest = finish_row_scores(head, page, token, cut, largest);
    }
    raise_largest(head, largest);
}

void TIERED(sslm_score_row)(sslm_row_heads *row, const sslm_row_page *page)
{
    fetch_cursor next = start_fetch(page);
    int32_t lines = 8 / row->head_count;
    for (int32_t i = 0; i < row->head_count; i++) score_row_head(&row->heads[i], page, &next, lines);
    fetch_rest(&next);
}

#endif
