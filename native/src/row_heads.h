/* One row that attends, a head at a time: vectors hold tokens, or dims. */
#ifndef SSLM_ROW_HEADS_H
#define SSLM_ROW_HEADS_H

#include "kernels.h"

/* Query heads of a row that share what is read of a page. */
#define SSLM_ROW_HEADS_MAX 4

/* Pages that are asked for side by side: each lies in a place of its own, and the more places memory is read in at a
 * time, the more it gives. */
#define SSLM_FAR_PAGES 4

/* One query head of a row. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) int16_t codes[SSLM_HEAD_DIM_MAX];   /* of the query */
    int64_t numerators[SSLM_HEAD_DIM_MAX];   /* N, so far; each tier has an order of dims here */
    int64_t denominator;         /* D, so far */
    int32_t sum_shift;           /* sums of products fit 32 bits when cut by this, 0 … 7 */
    int32_t score_shift;         /* what then is left of the shift of a key of exponent 0, less 1 */
    int32_t largest;             /* M, so far */
    int32_t *scores;             /* [positions from the first visible page on] */
} sslm_row_head;

/* Those that attend together. */
typedef struct {
    sslm_row_head heads[SSLM_ROW_HEADS_MAX];
    int32_t head_count;
    int8_t *packed;              /* [64][SSLM_HEAD_DIM_MAX] the codes of their queries as a tier likes them */
} sslm_row_heads;

/* A page of keys or values, as far as the row sees it. */
typedef struct {
    const int16_t *codes;
    const uint8_t *exponents;    /* any number where there is no token */
    const int16_t *near;         /* as many codes that are read next */
    const int16_t *far[SSLM_FAR_PAGES];   /* as many in all that are read after them, in as many pages */
    int32_t score_start;         /* index of the page's first score */
    int32_t first;               /* tokens */
    int32_t last;                /* one past the last */
    int32_t head_dim;
    int32_t value_exponent;      /* E: the largest of all visible values */
    const int32_t *nodes;        /* of pow2neg */
} sslm_row_page;

#endif
