/* Scores of single rows with tiles.
 *
 * A tile of keys has 16 tokens as they lie in a page, with both bytes of the codes of 32 dims. Read as signed bytes it
 * gives the sums of high bytes, read as unsigned ones those of low bytes; the other operand, the queries, has zeros
 * where the other bytes are. A row of sums is a token's, with four heads for each power of 256.
 */
#ifndef SSLM_ROW_SCORES_AMX_H
#define SSLM_ROW_SCORES_AMX_H

#include "amx_tiles.h"
#include "single_rows_512.h"

/* Dims of a tile of keys. */
#define TILE_DIMS (BLOCK / 2)

/* Two tiles for every 32 dims, against the high and against the low bytes of keys. A row of them has two dims. */
void TIERED(sslm_start_scores)(sslm_row_heads *row, int32_t head_dim)
{
    int32_t width = (head_dim + TILE_DIMS - 1) / TILE_DIMS * TILE_DIMS;
    memset(row->packed, 0, BLOCK * (size_t)width);
    for (int32_t head = 0; head < row->head_count; head++) {
        const int16_t *codes = row->heads[head].codes;
        for (int32_t d = 0; d < head_dim; d++) {
            int8_t high = (int8_t)((codes[d] + 128) >> 8), low = (int8_t)(codes[d] - 256 * high);
            int8_t *to = row->packed + 2 * TILE_BYTES * (size_t)(d / TILE_DIMS) + BLOCK * (size_t)(d % TILE_DIMS / 2);
            int8_t *to_high = to + 4 * head + 2 * (d % 2) + 1, *to_low = to + TILE_BYTES + 4 * head + 2 * (d % 2);
            to_high[0] = high;
            to_high[16] = low;
            to_low[16] = high;
            to_low[32] = low;
        }
    }
    TILES_READ_MEMORY();
    _tile_loadconfig(&shapes[SIDE - 1]);
}

void TIERED(sslm_end_scores)(void)
{
    _tile_release();
}

typedef int32_t row_sums[SIDE][SIDE];

/* The sums of 16 tokens from `token` on. */
ALWAYS_INLINE void dot_row(const sslm_row_heads *row, const sslm_row_page *page, int32_t token, fetch_cursor *next,
                           row_sums sums)
{
    size_t stride = 2 * (size_t)page->head_dim;
    const char *keys = (const char *)page->codes + stride * (size_t)token;
    _tile_zero(0);
    /* What a tile has beyond the dims meets zeros; after a page's last codes there are exponents. */
    for (int32_t d = 0; d < page->head_dim; d += TILE_DIMS) {
        const int8_t *queries = row->packed + BLOCK * (size_t)d;
        _tile_loadd(1, keys + 2 * d, stride);
        _tile_loadd(2, queries, BLOCK);
        _tile_dpbssd(0, 1, 2);
        _tile_loadd(3, queries + TILE_BYTES, BLOCK);
        _tile_dpbusd(0, 1, 3);
        fetch_lines(next, 4);
    }
    _tile_stored(0, sums, BLOCK);
}

/* The shifts of the sums of four heads, four times. */
typedef struct {
    __m512i right;
    __m512i left;
    __m512i far_left;
} sum_shifts;

ALWAYS_INLINE sum_shifts shifts_of(const sslm_row_heads *row)
{
    int32_t shifts[SSLM_ROW_HEADS_MAX] = {0};
    for (int32_t i = 0; i < row->head_count; i++) shifts[i] = row->heads[i].sum_shift;
    __m512i right = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)shifts));
    return (sum_shifts){.right = right,
                        .left = _mm512_sub_epi32(_mm512_set1_epi32(8), right),
                        .far_left = _mm512_sub_epi32(_mm512_set1_epi32(16), right)};
}

/* Put four numbers into some lanes. As an instruction, since gcc makes a load and a shuffle of it. */
ALWAYS_INLINE __m512i spread_four(__m512i v, __mmask16 lanes, const int32_t *four)
{
    __asm__("vbroadcasti32x4 %1, %0%{%2%}" : "+v"(v) : "m"(*(const __m128i *)(const void *)four), "Yk"(lanes));
    return v;
}

/* Four heads' sums with one power of 256, of tokens 0, 4, 8 and 12. */
ALWAYS_INLINE __m512i every_fourth(const int32_t (*sums)[SIDE], int power)
{
    __m512i v = _mm512_broadcast_i32x4(_mm_load_si128((const void *)&sums[0][4 * power]));
    v = spread_four(v, 0x00f0, &sums[4][4 * power]);
    v = spread_four(v, 0x0f00, &sums[8][4 * power]);
    return spread_four(v, 0xf000, &sums[12][4 * power]);
}

/* The sums of 16 tokens for four heads, cut by their shifts. */
ALWAYS_INLINE void cut_sums(const int32_t (*sums)[SIDE], const sum_shifts *shifts, fetch_cursor *next, __m512i cut[4])
{
    __m512i v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i part = _mm512_sllv_epi32(every_fourth(sums + i, 0), shifts->far_left);
        part = _mm512_add_epi32(part, _mm512_sllv_epi32(every_fourth(sums + i, 1), shifts->left));
        fetch_lines(next, 3);
        v[i] = _mm512_add_epi32(part, _mm512_srav_epi32(every_fourth(sums + i, 2), shifts->right));
    }
    __m512i low[2] = {_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpacklo_epi32(v[2], v[3])};
    __m512i high[2] = {_mm512_unpackhi_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[2], v[3])};
    cut[0] = _mm512_unpacklo_epi64(low[0], low[1]);
    cut[1] = _mm512_unpackhi_epi64(low[0], low[1]);
    cut[2] = _mm512_unpacklo_epi64(high[0], high[1]);
    cut[3] = _mm512_unpackhi_epi64(high[0], high[1]);
}

void TIERED(sslm_score_row)(sslm_row_heads *row, const sslm_row_page *page)
{
    _Alignas(64) row_sums sums[2];
    __m512i largest[SSLM_ROW_HEADS_MAX], cut[SSLM_ROW_HEADS_MAX];
    sum_shifts shifts = shifts_of(row);
    fetch_cursor next = start_fetch(page);
    for (int i = 0; i < SSLM_ROW_HEADS_MAX; i++) largest[i] = _mm512_set1_epi32(INT32_MIN);
    /* A page holds 64 tokens, so that whole groups can be read whatever they contain. */
    int32_t token = page->first / SIDE * SIDE;
    dot_row(row, page, token, &next, sums[0]);
    for (int32_t turn = 0; token < page->last; token += SIDE, turn ^= 1) {
        /* The next sums are on their way while these are read. */
        if (token + SIDE < page->last) dot_row(row, page, token + SIDE, &next, sums[turn ^ 1]);
        cut_sums(sums[turn], &shifts, &next, cut);
#pragma GCC unroll 4
        for (int i = 0; i < SSLM_ROW_HEADS_MAX; i++)
            if (i < row->head_count) {
                largest[i] = finish_row_scores(&row->heads[i], page, token, cut[i], largest[i]);
                fetch_lines(&next, 4);
            }
    }
    fetch_rest(&next);
    for (int i = 0; i < row->head_count; i++) raise_largest(&row->heads[i], largest[i]);
}

#endif
