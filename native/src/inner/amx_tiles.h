/* What the tiles of AMX are for, and how codes lie in them. */
#ifndef SSLM_AMX_TILES_H
#define SSLM_AMX_TILES_H

#include "kernels.h"

/* From this many rows on, tiles are faster than vectors. */
#define TILED_ROWS_MIN 9

/* Rows of a tile, and columns of codes in it. */
#define SIDE 16
#define BLOCK 64
#define TILE_BYTES (SIDE * BLOCK)

/* Tiles by number: sums of two panels with the high and with the low bytes, these bytes, the weights. */
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

typedef int32_t tile_sums[2][2][SIDE][SSLM_PANEL_ROWS];

static inline int is_tiled(const sslm_rows *rows)
{
    return rows->row_count >= TILED_ROWS_MIN;
}

static inline int32_t side_of(const sslm_rows *rows, int32_t tile)
{
    int32_t rest = rows->row_count - tile * SIDE;
    return rest < SIDE ? rest : SIDE;
}

/* With r rows in a tile, each block of 64 columns has r times the 64 high bytes, then r times the low bytes. */
static inline int8_t *bytes_of(const sslm_rows *rows, int32_t tile)
{
    return (int8_t *)rows->base + (size_t)tile * SIDE * 2 * padded_width(rows->width);
}

#endif
