/* Products with AVX-512 and its dot products of bytes, for the tiers that have them.
 *
 * vpdpbusd multiplies unsigned by signed bytes. A code is 256 · h + l, where l is its low byte without sign, and
 * h + 128 is unsigned too. So the sum of the high bytes is too large by 128 times the sum of the weights, which
 * takes one more dot product for all rows together. Sums of up to 65536 products of 255 · 127 fit 32 bits.
 */
#ifndef SSLM_PRODUCTS_512_H
#define SSLM_PRODUCTS_512_H

#include <immintrin.h>
#include <string.h>

#include "products.h"
#include "stream.h"

/* Rows of codes lie in tiles of four; the last tile of a run may have fewer. With r rows in a tile, each group of
 * four columns has its r times four high bytes, then its r times four low bytes. So one pointer walks through a
 * tile, and a single row is dense. */
#define FOUR 4

static int32_t *tile_start(const sslm_rows *rows, int32_t tile)
{
    return (int32_t *)(void *)(rows->base + (size_t)tile * FOUR * 2 * padded_width(rows->width));
}

static int32_t tile_rows(const sslm_rows *rows, int32_t tile)
{
    int32_t rest = rows->row_count - tile * FOUR;
    return rest < FOUR ? rest : FOUR;
}

/* Put 32 high and 32 low bytes where they belong, from `out` on in a tile of `in_tile` rows. */
ALWAYS_INLINE int32_t *store_bytes(__m256i high, __m256i low, int32_t in_tile, int32_t *out)
{
    int32_t fours[2][8];
    _mm256_storeu_si256((__m256i *)(void *)fours[0], high);
    _mm256_storeu_si256((__m256i *)(void *)fours[1], low);
    for (int j = 0; j < 8; j++, out += 2 * in_tile) {
        out[0] = fours[0][j];
        out[in_tile] = fours[1][j];
    }
    return out;
}

/* Add the absolute values of 32 codes. */
#define ADD_SIZES(sums, codes) sums = _mm512_dpwssd_epi32(sums, _mm512_abs_epi16(codes), _mm512_set1_epi16(1))

static void store_codes(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    int32_t in_tile = tile_rows(rows, row / FOUR);
    int32_t *out = tile_start(rows, row / FOUR) + row % FOUR;
    __m512i sizes = _mm512_setzero_si512();
    for (size_t i = 0; i < padded; i += 32) {
        __m512i code = _mm512_loadu_si512(codes + i);
        ADD_SIZES(sizes, code);
        __m512i above_zero = _mm512_xor_si512(code, _mm512_set1_epi16((short)0x8000));
        __m256i high = _mm512_cvtepi16_epi8(_mm512_srli_epi16(above_zero, 8));
        out = store_bytes(high, _mm512_cvtepi16_epi8(code), in_tile, out);
    }
    rows->code_rows[row].absolute_sum = _mm512_reduce_add_epi32(sizes);
}

/* Add the products of fours of bytes: codes, which are unsigned, and weights. As an instruction, since gcc 12
 * copies the accumulators of a loop to and fro where it is free to choose. */
#define ADD_PRODUCTS(sums, codes, weights) __asm__("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(codes), "v"(weights))

/* One or two panels, and what their sums of weights are times 128. */
typedef struct {
    const int8_t *start;
    size_t size_bytes;           /* of each */
    int32_t apart;               /* how many panels after the first the second lies */
    int32_t groups;              /* of four columns */
    __m512i excess[2];
} panel_run;

/* What the memory is asked for meanwhile: nothing, another panel, or what comes next after the panels at hand. */
enum { NOTHING, ONE_LATER, AS_STREAMS };

/* Weights that stream by drive the codes out of the nearest cache, which is told in time to get them back. */
#define CODES_AHEAD_BYTES 512

/* Sums of a strip, which is up to four rows of codes: of each panel, high and low. */
typedef int32_t strip_sums[2][2][FOUR][SSLM_PANEL_ROWS];

/* A strip at x in a tile of `in_tile` rows against a run of panels. `unroll` column groups have sums of their own,
 * which hides the latency where there are few rows; and the fewer rounds, the more loads are under way. The first strip
 * sums the weights up, too. later is the panel to ask for, or NULL. Other numbers are constants where this is inlined:
 * row_count · panel_count · unroll is at most 8, since gcc 12 spills more than 16 accumulators. */
ALWAYS_INLINE void dot_strip(panel_run *run, const int32_t *x, const int32_t in_tile, const int row_count,
                             const int panel_count, const int unroll, const int is_first, const int ahead,
                             const int8_t *later, strip_sums sums)
{
    __m512i high[8], low[8], weight_sums[2], ones = _mm512_set1_epi8(1);
#pragma GCC unroll 8
    for (int i = 0; i < row_count * panel_count * unroll; i++) high[i] = low[i] = _mm512_setzero_si512();
    weight_sums[0] = weight_sums[1] = _mm512_setzero_si512();
    const int8_t *panel = run->start;
    size_t apart_bytes = (size_t)run->apart * run->size_bytes;
    int32_t groups = run->groups, group = 0;
    for (; group + unroll <= groups; group += unroll, panel += 64 * unroll, x += 2 * in_tile * unroll) {
        if (ahead == AS_STREAMS) _mm_prefetch((const char *)x + CODES_AHEAD_BYTES, _MM_HINT_T0);
#pragma GCC unroll 8
        for (int u = 0; u < unroll; u++) {
            __m512i w[2];
            if (ahead == ONE_LATER) _mm_prefetch((const char *)later + 64 * (size_t)(group + u), _MM_HINT_T1);
#pragma GCC unroll 2
            for (int p = 0; p < panel_count; p++) {
                const int8_t *line = panel + (size_t)p * apart_bytes + 64 * u;
                if (ahead == AS_STREAMS) keep_streaming(line, panel_count);
                w[p] = _mm512_loadu_si512(line);
                if (is_first) ADD_PRODUCTS(weight_sums[panel_count == 1 ? u % 2 : p], ones, w[p]);
            }
#pragma GCC unroll 4
            for (int i = 0; i < row_count; i++) {
                __m512i h = _mm512_set1_epi32(x[2 * in_tile * u + i]);
                __m512i l = _mm512_set1_epi32(x[2 * in_tile * u + in_tile + i]);
#pragma GCC unroll 2
                for (int p = 0; p < panel_count; p++) {
                    ADD_PRODUCTS(high[(u * row_count + i) * panel_count + p], h, w[p]);
                    ADD_PRODUCTS(low[(u * row_count + i) * panel_count + p], l, w[p]);
                }
            }
        }
    }
    for (; unroll > 1 && group < groups; group++, panel += 64, x += 2 * in_tile) {
#pragma GCC unroll 2
        for (int p = 0; p < panel_count; p++) {
            __m512i w = _mm512_loadu_si512(panel + (size_t)p * apart_bytes);
            if (is_first) ADD_PRODUCTS(weight_sums[p], ones, w);
#pragma GCC unroll 4
            for (int i = 0; i < row_count; i++) {
                ADD_PRODUCTS(high[i * panel_count + p], _mm512_set1_epi32(x[i]), w);
                ADD_PRODUCTS(low[i * panel_count + p], _mm512_set1_epi32(x[in_tile + i]), w);
            }
        }
    }
    if (panel_count == 1) weight_sums[0] = _mm512_add_epi32(weight_sums[0], weight_sums[1]);
#pragma GCC unroll 2
    for (int p = 0; p < panel_count; p++) {
        if (is_first) run->excess[p] = _mm512_slli_epi32(weight_sums[p], 7);
#pragma GCC unroll 4
        for (int i = 0; i < row_count; i++) {
            __m512i h = high[i * panel_count + p], l = low[i * panel_count + p];
#pragma GCC unroll 8
            for (int u = 1; u < unroll; u++) {
                h = _mm512_add_epi32(h, high[(u * row_count + i) * panel_count + p]);
                l = _mm512_add_epi32(l, low[(u * row_count + i) * panel_count + p]);
            }
            _mm512_storeu_si512(sums[p][0][i], _mm512_sub_epi32(h, run->excess[p]));
            _mm512_storeu_si512(sums[p][1][i], l);
        }
    }
}

/* One panel, of which a first strip has to come from memory: alone it is a stream. */
ALWAYS_INLINE void dot_one(panel_run *run, const int32_t *x, int32_t in_tile, int32_t row_count, const int is_first,
                           strip_sums sums)
{
    switch (row_count) {
    case 4: dot_strip(run, x, 4, 4, 1, 2, is_first, AS_STREAMS, NULL, sums); break;
    case 3: dot_strip(run, x, 3, 3, 1, 2, is_first, AS_STREAMS, NULL, sums); break;
    case 2: dot_strip(run, x, 2, 2, 1, 4, is_first, AS_STREAMS, NULL, sums); break;
    default: dot_strip(run, x, in_tile, 1, 1, 4, is_first, AS_STREAMS, NULL, sums); break;
    }
}

/* Two panels at a time. */
ALWAYS_INLINE void dot_two(panel_run *run, const int32_t *x, int32_t in_tile, int32_t row_count, const int is_first,
                           const int ahead, const int8_t *later, strip_sums sums)
{
    switch (row_count) {
    case 4: dot_strip(run, x, 4, 4, 2, 1, is_first, ahead, later, sums); break;
    case 3: dot_strip(run, x, 3, 3, 2, 1, is_first, ahead, later, sums); break;
    case 2: dot_strip(run, x, 2, 2, 2, 1, is_first, ahead, later, sums); break;
    default: dot_strip(run, x, in_tile, 1, 2, 4, is_first, ahead, later, sums); break;
    }
}

/* A strip of codes: where, and which of how many. */
typedef struct {
    const int32_t *x;
    int32_t in_tile, row_count;
    int32_t index, is_only;
} code_strip;

static void dot_any(panel_run *run, int32_t panel_count, const code_strip *strip, strip_sums sums)
{
    const int32_t *x = strip->x, in_tile = strip->in_tile, row_count = strip->row_count;
    const int8_t *later = run->start + 2 * run->size_bytes;
    if (panel_count == 1 && strip->index == 0) dot_one(run, x, in_tile, row_count, 1, sums);
    else if (panel_count == 1) dot_one(run, x, in_tile, row_count, 0, sums);
    else if (strip->is_only) dot_two(run, x, in_tile, row_count, 1, AS_STREAMS, NULL, sums);
    else if (strip->index == 0) dot_two(run, x, in_tile, row_count, 1, ONE_LATER, later, sums);
    else if (strip->index == 1) dot_two(run, x, in_tile, row_count, 0, ONE_LATER, later + run->size_bytes, sums);
    else dot_two(run, x, in_tile, row_count, 0, NOTHING, NULL, sums);
}

/* Ask for what the sums of panels are scaled by: of each panel a line that nobody foresees. */
ALWAYS_INLINE void fetch_scales(const sslm_matrix *matrix, int32_t panel, int32_t panel_count, int32_t apart)
{
    for (int32_t p = 0; p < panel_count; p++)
        __builtin_prefetch(matrix->mantissas + (size_t)(panel + p * apart) * SSLM_PANEL_ROWS);
}

/* Multiply a strip, which begins with the row picked[first], by one or two panels, and finish. */
static void multiply_strip(const sslm_products *products, panel_run *run, int32_t panel, int32_t panel_count,
                           const code_strip *strip, int32_t first)
{
    strip_sums sums;
    run->start = (const int8_t *)products->job->op->matrix.panels + (size_t)panel * run->size_bytes;
    fetch_scales(&products->job->op->matrix, panel, panel_count, run->apart);
    dot_any(run, panel_count, strip, sums);
    if (run->apart == 1) {
        sslm_sums found = {
            panel, panel_count, first, strip->row_count, sums[0][0][0], sums[0][1][0], sizeof sums[0] / sizeof(int32_t),
        };
        products->finish(products, &found);
        return;
    }
    for (int32_t p = 0; p < panel_count; p++)
        finish_one_panel(products, panel + p * run->apart, first, strip->row_count, sums[p][0][0], sums[p][1][0]);
}

/* Multiply the only strip, which waits for memory. That gives more when it is read in two places at a time. */
static void multiply_only(const sslm_products *products, panel_run *run, const code_strip *strip, int32_t first,
                          int32_t last)
{
    run->apart = (last - first) / 2;
    for (int32_t panel = first; panel < first + run->apart; panel++)
        multiply_strip(products, run, panel, 2, strip, 0);
    if ((last - first) % 2 != 0) multiply_strip(products, run, last - 1, 1, strip, 0);
}

/* The strip from picked[i] on: a whole tile, or a row. */
static code_strip strip_at(const sslm_products *products, int32_t i)
{
    const sslm_rows *codes = &products->job->source;
    const int32_t *picked = products->picked, row = picked[i], in_tile = tile_rows(codes, row / FOUR);
    /* Rows are picked in ascending order: a tile is whole if its ends are there. */
    int is_whole = row % FOUR == 0 && i + in_tile <= products->picked_count
                   && picked[i + in_tile - 1] == row + in_tile - 1;
    int32_t row_count = is_whole ? in_tile : 1;
    return (code_strip){
        .x = tile_start(codes, row / FOUR) + row % FOUR,
        .in_tile = in_tile,
        .row_count = row_count,
        .is_only = row_count == products->picked_count,
    };
}

/* Two panels at a time share the loads of the codes. */
static void multiply(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_matrix *matrix = &products->job->op->matrix;
    panel_run run = {.size_bytes = panel_size_bytes(matrix), .apart = 1, .groups = (matrix->in_features + 3) / 4};
    code_strip only = strip_at(products, 0);
    if (only.is_only) {
        multiply_only(products, &run, &only, first, last);
        return;
    }
    for (int32_t panel = first; panel < last; panel += 2) {
        int32_t panel_count = last - panel < 2 ? 1 : 2;
        for (int32_t i = 0, index = 0; i < products->picked_count; index++) {
            code_strip strip = strip_at(products, i);
            strip.index = index;
            multiply_strip(products, &run, panel, panel_count, &strip, i);
            i += strip.row_count;
        }
    }
}

#endif
