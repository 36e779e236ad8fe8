/* A tile: up to 16 rows of a sequence that attend together, with query heads that share their keys and values.
 * Vectors hold one number of each of its rows, which are called lanes. */
#ifndef SSLM_TILES_H
#define SSLM_TILES_H

#include "kernels.h"

#define SSLM_LANES SSLM_TILE_ROWS

/* Query heads that may share what is done for a page once. */
#define SSLM_TILE_HEADS_MAX 4

/* Pages of values that are handed over together, as far as SSLM_PACKED_SIZE_BYTES has room for them. */
#define SSLM_TILE_PAGES_MAX 6

/* Room for packed pages of one state: for six of 64 dims beside those that are handed over together. */
#define SSLM_PACKED_PAGES_MAX 12
#define SSLM_PACKED_SIZE_BYTES (SSLM_PACKED_PAGES_MAX * 2 * SSLM_PAGE_TOKENS * 64)

/* One query head. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) int32_t sum_shifts[SSLM_LANES];   /* sums fit 32 bits when cut by this, 0 … 7 */
    int32_t score_shifts[SSLM_LANES];   /* what then is left of the shift of a key of exponent 0, less 1 */
    int32_t largest[SSLM_LANES];        /* M, so far */
    int64_t denominators[SSLM_LANES];   /* D, so far */
    int64_t numerators[SSLM_HEAD_DIM_MAX][SSLM_LANES];   /* N, so far; each tier has an order of lanes here */
    int16_t codes[SSLM_LANES][SSLM_HEAD_DIM_MAX];        /* of the queries; zeros where there is no dim or row */
    int8_t packed[2 * 2 * SSLM_LANES * SSLM_HEAD_DIM_MAX];   /* the same as a tier likes them */
    int32_t (*scores)[SSLM_LANES];      /* [positions from the first visible page on] */
} sslm_tile_head;

/* The near or the far keys of one page, for one head: docs/arithmetic.md 3.7, steps 3 and 4. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) uint32_t weights[SSLM_PAGE_TOKENS][SSLM_LANES];   /* n; 0 where a key is no member */
    uint32_t wholes[SSLM_LANES];        /* T */
    uint32_t exponents[SSLM_LANES];     /* e */
    int32_t is_empty;                   /* for every lane */
} sslm_tile_group;

/* Pages of one state as a tier likes them. The first pages of a sequence stay here for the tiles that follow. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) int8_t bytes[SSLM_PACKED_SIZE_BYTES];
    const int16_t *sources[SSLM_PACKED_PAGES_MAX];   /* whose codes these are, or NULL */
} sslm_packed_pages;

/* What a thread needs for a tile. */
struct sslm_tile {
    _Alignas(SSLM_ALIGNMENT) int32_t first_keys[SSLM_LANES];   /* visible positions */
    int32_t last_keys[SSLM_LANES];      /* included */
    int32_t value_exponents[SSLM_LANES];   /* E: the largest of all visible values */
    sslm_tile_head heads[SSLM_TILE_HEADS_MAX];
    sslm_tile_group near, far;          /* of the page at hand */
    sslm_packed_pages keys, values;
    int8_t weights[SSLM_TILE_PAGES_MAX][5 * SSLM_PAGE_TOKENS * SSLM_LANES];   /* of pages, as a tier likes them */
    const int32_t *nodes;               /* of pow2neg */
    int32_t row_count;                  /* lanes from there on repeat the last row's places, with zero queries */
    int32_t head_count;
    int32_t head_dim;
};

/* A page of keys or values, as far as some row of a tile sees it. */
typedef struct {
    const int16_t *codes;
    const int16_t *next;                /* codes that are read next */
    size_t next_step;                   /* bytes of these for each token and head, in lines of 64 */
    _Alignas(SSLM_ALIGNMENT) int32_t exponents[SSLM_PAGE_TOKENS];   /* any number where there is no token */
    int32_t first_position;
    int32_t score_start;                /* index of the page's first score */
    int32_t first;                      /* tokens */
    int32_t last;                       /* one past the last */
    int32_t is_whole;                   /* every row sees all of it */
} sslm_tile_page;

#endif
