/* Products of int4 weights with tiles of bytes (AMX), and with AVX-512 for few rows.
 *
 * A weight with the scale of its group, at most 448, is 16 · u + l with u in -28 … 28 and l in 0 … 15. So a panel is
 * unpacked to two panels of int8, and each tile of them is multiplied by both bytes of 16 rows of codes. Sums of up
 * to 16384 products of 255 · 28 fit 32 bits, and the sum of all of a plane does: 16384 · 255 · 448 < 2^31.
 */
#include <string.h>

#include "int4_512.h"
#include "amx_tiles.h"

/* From this many rows on, tiles are faster than vectors, although a panel has to be unpacked. */
#define UNPACKED_ROWS_MIN 12

_Static_assert(UNPACKED_ROWS_MIN >= TILED_ROWS_MIN, "the codes have to be tiled");

static int is_unpacked(const sslm_rows *rows)
{
    return rows->row_count >= UNPACKED_ROWS_MIN;
}

void sslm_store_codes_int4_amx(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    if (!is_unpacked(rows)) store_codes_int4(rows, row, codes);
}

/* Four columns of 16 rows, unpacked. */
typedef struct {
    __m512i upper, lower;
} unpacked_four;

/* Multiply nibbles less 8 by scales, which are 16 bits, and take the products apart. */
ALWAYS_INLINE unpacked_four unpack_four(__m512i nibbles, __m512i scales)
{
    const __m512i odd_bytes = _mm512_set1_epi16((short)0xff00), nibble = _mm512_set1_epi8(15);
    __m512i offset = _mm512_slli_epi16(scales, 3);
    __m512i even = _mm512_sub_epi16(_mm512_maddubs_epi16(nibbles, scales), offset);
    __m512i odd = _mm512_sub_epi16(_mm512_maddubs_epi16(nibbles, _mm512_slli_epi16(scales, 8)), offset);
    /* Bits of the odd products where the mask has them, else of the even ones. */
    __m512i upper = _mm512_ternarylogic_epi32(odd_bytes, _mm512_slli_epi16(odd, 4), _mm512_srli_epi16(even, 4), 0xca);
    __m512i lower = _mm512_ternarylogic_epi32(odd_bytes, _mm512_slli_epi16(odd, 8), even, 0xca);
    return (unpacked_four){upper, _mm512_and_si512(lower, nibble)};
}

/* Unpack a panel to [2][blocks][16][64], the upper parts of the weights, then the lower ones. */
static void unpack_panel(const uint8_t *panel, int32_t groups, int32_t blocks, int8_t *out)
{
    const uint8_t *words = panel + int4_scales_size_bytes(groups * SSLM_GROUP_COLUMNS);
    const __m512i nibble = _mm512_set1_epi8(15);
    size_t plane = TILE_BYTES * (size_t)blocks;
    for (const uint8_t *line = panel; line < words; line += 64) keep_streaming(line, 1);
    for (int32_t group = 0; group < groups; group++, panel += 16) {
        __m512i scales = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)panel));
        scales = _mm512_or_si512(scales, _mm512_slli_epi32(scales, 16));
        for (int word = 0; word < 4; word++, words += 64, out += 128) {
            __m512i both = _mm512_loadu_si512(words);
            keep_streaming(words, 1);
            unpacked_four first = unpack_four(_mm512_and_si512(both, nibble), scales);
            unpacked_four second = unpack_four(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), scales);
            _mm512_storeu_si512(out, first.upper);
            _mm512_storeu_si512(out + 64, second.upper);
            _mm512_storeu_si512(out + plane, first.lower);
            _mm512_storeu_si512(out + plane + 64, second.lower);
        }
    }
    if (groups % 2 != 0) {
        memset(out, 0, TILE_BYTES / 2);
        memset(out + plane, 0, TILE_BYTES / 2);
    }
    /* To compilers, loads of tiles read no memory. */
    __asm__ volatile("" : : "r"(out) : "memory");
}

/* An unpacked panel against the rows of a tile, whose shape is set. */
static void dot_unpacked(const int8_t *panel, int32_t blocks, const int8_t *bytes, int32_t side, tile_sums sums)
{
    size_t plane = BLOCK * (size_t)side;
    const int8_t *lower = panel + TILE_BYTES * (size_t)blocks;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int32_t block = 0; block < blocks; block++, bytes += 2 * plane) {
        _tile_loadd(6, panel + TILE_BYTES * (size_t)block, 64);
        _tile_loadd(4, bytes, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(5, bytes + plane, 64);
        _tile_dpbusd(1, 5, 6);
        _tile_loadd(7, lower + TILE_BYTES * (size_t)block, 64);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums[0][0], 64);
    _tile_stored(1, sums[0][1], 64);
    _tile_stored(2, sums[1][0], 64);
    _tile_stored(3, sums[1][1], 64);
}

/* Finish those rows of a tile that are picked, which are the next. Returns the index after them. */
static int32_t finish_unpacked(const sslm_products *products, int32_t panel, int32_t first, tile_sums sums)
{
    const int32_t *picked = products->picked;
    int32_t tile = picked[first] / SIDE, end = first;
    int32_t high[SIDE][SSLM_PANEL_ROWS], low[SIDE][SSLM_PANEL_ROWS];
    for (; end < products->picked_count && picked[end] / SIDE == tile; end++) {
        int32_t row = picked[end] % SIDE;
        for (int n = 0; n < SSLM_PANEL_ROWS; n++) {
            high[end - first][n] = 16 * sums[0][0][row][n] + sums[1][0][row][n];
            low[end - first][n] = 16 * sums[0][1][row][n] + sums[1][1][row][n];
        }
    }
    finish_one_panel(products, panel, first, end - first, high[0], low[0]);
    return end;
}

static void multiply_unpacked(const sslm_products *products, int32_t first, int32_t last)
{
    const sslm_rows *codes = &products->job->source;
    const sslm_matrix *matrix = &products->job->op->matrix;
    int8_t *unpacked = products->thread->unpacked;
    int32_t blocks = (matrix->in_features + BLOCK - 1) / BLOCK, shaped = 0;
    tile_sums sums;
    for (int32_t panel = first; panel < last; panel++) {
        const uint8_t *weights = matrix->panels + (size_t)panel * panel_size_bytes(matrix);
        unpack_panel(weights, int4_groups(matrix->in_features), blocks, unpacked);
        for (int32_t i = 0; i < products->picked_count;) {
            int32_t tile = products->picked[i] / SIDE, side = side_of(codes, tile);
            if (side != shaped) _tile_loadconfig(&shapes[side - 1]);
            shaped = side;
            dot_unpacked(unpacked, blocks, bytes_of(codes, tile), side, sums);
            i = finish_unpacked(products, panel, i, sums);
        }
    }
    _tile_release();
}

void sslm_multiply_int4_amx(const sslm_products *products, int32_t first, int32_t last)
{
    if (is_unpacked(&products->job->source)) multiply_unpacked(products, first, last);
    else multiply_with(dot_int4, INT4_ROWS, products, first, last);
}
