/* Products with tiles of bytes (AMX), and with AVX-512 for few rows.
 *
 * A panel is [columns / 4][16][4], so 64 of its columns are a tile as the dot products of tiles take them on the
 * right: 16 rows of 64 bytes. On the left they take rows of 64 bytes: the high bytes of codes with their sign, or
 * the low bytes without. Sums of up to 65536 products of 255 · 127 fit 32 bits.
 */
#include <immintrin.h>
#include <string.h>

#include "outputs_512.h"
#include "products_512.h"
#include "amx_tiles.h"

void sslm_store_codes_amx(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    if (!is_tiled(rows)) {
        store_codes(rows, row, codes);
        return;
    }
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    size_t plane = BLOCK * (size_t)side_of(rows, row / SIDE);
    int8_t *out = bytes_of(rows, row / SIDE) + BLOCK * (size_t)(row % SIDE);
    __m512i sizes = _mm512_setzero_si512();
    for (size_t i = 0; i < padded; i += 32) {
        __m512i code = _mm512_loadu_si512(codes + i);
        ADD_SIZES(sizes, code);
        int8_t *to = out + i / BLOCK * 2 * plane + i % BLOCK;
        _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi16_epi8(_mm512_srai_epi16(code, 8)));
        _mm256_storeu_si256((__m256i *)(void *)(to + plane), _mm512_cvtepi16_epi8(code));
    }
    rows->code_rows[row].absolute_sum = _mm512_reduce_add_epi32(sizes);
}

/* Two panels as tiles: their last 64 columns are filled up with zeros. */
typedef struct {
    const int8_t *start;
    size_t size_bytes;           /* of a panel */
    int32_t blocks;
    _Alignas(64) int8_t last[2][TILE_BYTES];
} tiled_panels;

static void set_panels(tiled_panels *panels, const int8_t *start, int32_t count)
{
    size_t whole = TILE_BYTES * (size_t)(panels->blocks - 1);
    panels->start = start;
    for (int32_t p = 0; p < count; p++)
        memcpy(panels->last[p], start + (size_t)p * panels->size_bytes + whole, panels->size_bytes - whole);
    /* To compilers, loads of tiles read no memory. */
    __asm__ volatile("" : : "r"(panels) : "memory");
}

/* The two panels after these, to be in the cache by then: as four streams, since the hardware, which runs ahead in
 * each page on its own, then does most of it, and keeps the few buffers free that tiles are loaded through. */
typedef struct {
    const int8_t *next;          /* in the first quarter */
    size_t quarter_bytes;
    int32_t lines;               /* of a quarter for each block */
} lookahead;

ALWAYS_INLINE void look_ahead(lookahead *ahead)
{
    for (int32_t i = 0; i < ahead->lines; i++, ahead->next += 64)
        for (int quarter = 0; quarter < 4; quarter++)
            _mm_prefetch((const char *)ahead->next + (size_t)quarter * ahead->quarter_bytes, _MM_HINT_T1);
}

/* Sums of a tile that are left to be finished, bit by bit while the next tile is multiplied: that takes other parts
 * of the CPU. */
typedef struct {
    const sslm_products *products;
    tile_sums sums;
    int32_t panel, count;        /* of panels */
    int32_t first, end;          /* indexes of rows that are left */
} leftover;

#define ROWS_AT_ONCE 4

/* Finish the next few of those rows of a tile that are picked. */
static void finish_some(leftover *left)
{
    const sslm_products *products = left->products;
    const int32_t *picked = products->picked;
    int32_t end = left->first + 1, row = picked[left->first] % SIDE;
    while (end < left->end && end < left->first + ROWS_AT_ONCE && picked[end] == picked[end - 1] + 1) end++;
    sslm_sums sums = {
        left->panel,          left->count,          left->first, end - left->first, left->sums[0][0][row],
        left->sums[0][1][row], sizeof left->sums[0] / sizeof(int32_t),
    };
    products->finish(products, &sums);
    left->first = end;
}

/* One or two panels against the rows of a tile, whose shape is set. count is a constant where this is inlined. */
ALWAYS_INLINE void dot_tile(const tiled_panels *panels, const int count, const int8_t *bytes, int32_t side,
                            lookahead *ahead, leftover *left, tile_sums sums)
{
    size_t plane = BLOCK * (size_t)side;
    const int8_t *first = panels->start, *second = first + panels->size_bytes;
    _tile_zero(0);
    _tile_zero(1);
    if (count == 2) _tile_zero(2);
    if (count == 2) _tile_zero(3);
    for (int32_t block = panels->blocks; block > 0; block--, bytes += 2 * plane) {
        if (block == 1) {
            first = panels->last[0];
            second = panels->last[1];
        }
        look_ahead(ahead);
        _tile_loadd(6, first, 64);
        _tile_loadd(4, bytes, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(5, bytes + plane, 64);
        _tile_dpbusd(1, 5, 6);
        if (count == 2) {
            _tile_loadd(7, second, 64);
            _tile_dpbssd(2, 4, 7);
            _tile_dpbusd(3, 5, 7);
        }
        if (left->first < left->end) finish_some(left);
        first += TILE_BYTES;
        second += TILE_BYTES;
    }
    while (left->first < left->end) finish_some(left);
    _tile_stored(0, sums[0][0], 64);
    _tile_stored(1, sums[0][1], 64);
    if (count == 2) _tile_stored(2, sums[1][0], 64);
    if (count == 2) _tile_stored(3, sums[1][1], 64);
}

static void multiply_tiled(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_matrix *matrix = &products->job->op->matrix;
    const sslm_rows *codes = &products->job->source;
    tiled_panels panels = {
        .size_bytes = panel_size_bytes(matrix),
        .blocks = (matrix->in_features + BLOCK - 1) / BLOCK,
    };
    int32_t tile_count = (codes->row_count + SIDE - 1) / SIDE;
    lookahead ahead = {.quarter_bytes = panels.size_bytes / 2, .lines = (SIDE / 2 + tile_count - 1) / tile_count};
    int32_t shaped = 0;
    leftover left[2] = {{.products = products}, {.products = products}};
    int32_t turn = 0;
    for (int32_t panel = first; panel < last; panel += 2) {
        int32_t count = last - panel < 2 ? 1 : 2;
        set_panels(&panels, (const int8_t *)matrix->panels + (size_t)panel * panels.size_bytes, count);
        ahead.next = panels.start + 2 * panels.size_bytes;
        for (int32_t i = 0; i < products->picked_count;) {
            int32_t tile = products->picked[i] / SIDE, side = side_of(codes, tile);
            if (side != shaped) _tile_loadconfig(&shapes[side - 1]);
            shaped = side;
            leftover *now = &left[turn], *before = &left[turn ^ 1];
            if (count == 2) dot_tile(&panels, 2, bytes_of(codes, tile), side, &ahead, before, now->sums);
            else dot_tile(&panels, 1, bytes_of(codes, tile), side, &ahead, before, now->sums);
            now->panel = panel;
            now->count = count;
            now->first = i;
            while (i < products->picked_count && products->picked[i] / SIDE == tile) i++;
            now->end = i;
            turn ^= 1;
        }
    }
    for (leftover *last_one = &left[turn ^ 1]; last_one->first < last_one->end;) finish_some(last_one);
    _tile_release();
}

/* Vectors for the one row that is picked, out of a tile: the codes of a thread have room for it. */
static void multiply_lone_row(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    int32_t row = products->picked[0], tile = row / SIDE;
    size_t plane = BLOCK * (size_t)side_of(codes, tile);
    const int8_t *bytes = bytes_of(codes, tile) + BLOCK * (size_t)(row % SIDE);
    int32_t *x = (int32_t *)(void *)products->thread->codes, *out = x;
    for (size_t i = 0; i < padded_width(codes->width); i += 32) {
        const int8_t *from = bytes + i / BLOCK * 2 * plane + i % BLOCK;
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)from);
        __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(from + plane));
        out = store_bytes(_mm256_xor_si256(high, _mm256_set1_epi8((char)0x80)), low, 1, out);
    }
    panel_run run = {.size_bytes = panel_size_bytes(matrix), .groups = (matrix->in_features + 3) / 4};
    code_strip strip = {.x = x, .in_tile = 1, .row_count = 1, .is_only = 1};
    multiply_only(products, &run, &strip, first, last);
}

void sslm_multiply_amx(const sslm_products *products, int32_t first, int32_t last)
{
    if (!is_tiled(&products->job->source)) multiply(products, first, last);
    else if (products->picked_count == 1) multiply_lone_row(products, first, last);
    else multiply_tiled(products, first, last);
}
