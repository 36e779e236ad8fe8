/* Products with tiles of bytes (AMX), and with AVX-512 for few rows.
 *
 * A panel is [columns / 4][16][4], so 64 of its columns are a tile as the dot products of tiles take them on the
 * right: 16 rows of 64 bytes. On the left they take rows of 64 bytes, and both are signed, as the high and low
 * bytes of codes are. Sums of up to 65536 products of 128 · 127 fit 32 bits.
 */
#include <immintrin.h>
#include <string.h>

#include "products_512.h"

/* From this many rows on, tiles are faster than vectors. */
#define TILED_ROWS_MIN 4

/* Rows of a tile, and columns of codes in it. */
#define SIDE 16
#define BLOCK 64

/* Tiles by number: sums of two panels with the high and the low bytes, then the bytes, then the weights. */
#define SHAPE(r)                                                                                                    \
    {                                                                                                               \
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = { r, r, r, r, r, r, 16, 16 }           \
    }

typedef struct {
    uint8_t palette, first_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

static const tile_shapes shapes[SIDE] = {SHAPE(1),  SHAPE(2),  SHAPE(3),  SHAPE(4),  SHAPE(5),  SHAPE(6),
                                         SHAPE(7),  SHAPE(8),  SHAPE(9),  SHAPE(10), SHAPE(11), SHAPE(12),
                                         SHAPE(13), SHAPE(14), SHAPE(15), SHAPE(16)};

static int is_tiled(const sslm_rows *rows)
{
    return rows->row_count >= TILED_ROWS_MIN;
}

static int32_t side_of(const sslm_rows *rows, int32_t tile)
{
    int32_t rest = rows->row_count - tile * SIDE;
    return rest < SIDE ? rest : SIDE;
}

/* With r rows in a tile, each block of 64 columns has r times the 64 high bytes, then r times the low bytes. */
static int8_t *bytes_of(const sslm_rows *rows, int32_t tile)
{
    return (int8_t *)rows->base + (size_t)tile * SIDE * 2 * padded_width(rows->width);
}

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
    __m512i half = _mm512_set1_epi16(128);
    for (size_t i = 0; i < padded; i += 32) {
        __m512i code = _mm512_loadu_si512(codes + i);
        __m256i high = _mm512_cvtepi16_epi8(_mm512_srai_epi16(_mm512_add_epi16(code, half), 8));
        int8_t *to = out + i / BLOCK * 2 * plane + i % BLOCK;
        _mm256_storeu_si256((__m256i *)(void *)to, high);
        _mm256_storeu_si256((__m256i *)(void *)(to + plane), _mm512_cvtepi16_epi8(code));
    }
}

/* A panel against all rows of a tile, whose shape is set. last is where its last 64 columns are, filled up. */
static void dot_tile(const int8_t *panel, const int8_t *last, int32_t blocks, const int8_t *bytes, int32_t side,
                     int32_t planes[2][SIDE][SIDE])
{
    size_t plane = BLOCK * (size_t)side;
    _tile_zero(0);
    _tile_zero(1);
    for (int32_t block = 0; block < blocks; block++, panel += SIDE * BLOCK, bytes += 2 * plane) {
        _tile_loadd(6, block + 1 < blocks ? panel : last, 64);
        _tile_loadd(4, bytes, 64);
        _tile_loadd(5, bytes + plane, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbssd(1, 5, 6);
    }
    _tile_stored(0, planes[0], 64);
    _tile_stored(1, planes[1], 64);
}

static void dot_panel_tiled(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                            int64_t *sums)
{
    int32_t groups = (codes->width + 3) / 4, blocks = (codes->width + BLOCK - 1) / BLOCK;
    size_t whole = SIDE * BLOCK * (size_t)(blocks - 1);
    _Alignas(64) int8_t last[SIDE * BLOCK] = {0};
    _Alignas(64) int32_t planes[2][SIDE][SIDE];
    memcpy(last, panel + whole, BLOCK * (size_t)groups - whole);
    __asm__ volatile("" : : "r"(last) : "memory");
    int32_t shaped = -1;
    for (int32_t i = 0; i < count;) {
        int32_t tile = picked[i] / SIDE, side = side_of(codes, tile);
        if (side != shaped) _tile_loadconfig(&shapes[side - 1]);
        shaped = side;
        dot_tile(panel, last, blocks, bytes_of(codes, tile), side, planes);
        for (; i < count && picked[i] / SIDE == tile; i++) {
            int32_t row = picked[i] % SIDE;
            store_planes(_mm512_loadu_si512(planes[0][row]), _mm512_loadu_si512(planes[1][row]), 8, 0xffff,
                         sums + 16 * (size_t)i);
        }
    }
    _tile_release();
}

void sslm_dot_panel_amx(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                        int64_t *sums)
{
    if (is_tiled(codes)) dot_panel_tiled(panel, codes, picked, count, sums);
    else dot_panel(panel, codes, picked, count, sums);
}
