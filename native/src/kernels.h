/* What the kernels of all tiers have in common: their arguments, and the table that names them. */
#ifndef SSLM_KERNELS_H
#define SSLM_KERNELS_H

#include "sslm_native.h"

#define SSLM_PANEL_ROWS 16
#define SSLM_PANEL_COLUMNS 4
#define SSLM_GROUP_COLUMNS 32    /* of int4 codes, which share a scale */
#define SSLM_HEAD_DIM_MAX 256
#define SSLM_ALIGNMENT 64

/* Rows of a span that attend together. */
#define SSLM_TILE_ROWS 16

/* What a row of codes has besides its codes. */
typedef struct {
    int32_t exponent;
    int32_t absolute_sum;        /* Σ |code|: written by the tiers that read it */
} sslm_code_row;

static inline size_t padded_width(int32_t width)
{
    return ((size_t)width + 63) / 64 * 64;
}

static inline int32_t int4_groups(int32_t width)
{
    return (width + SSLM_GROUP_COLUMNS - 1) / SSLM_GROUP_COLUMNS;
}

/* Bytes of the scales that begin a panel of int4 codes. */
static inline size_t int4_scales_size_bytes(int32_t width)
{
    return ((size_t)int4_groups(width) * SSLM_PANEL_ROWS + 63) / 64 * 64;
}

/* Bytes that a row of codes takes as int4 products read it: 32 codes of two bytes, and the sums of both. */
static inline size_t int4_row_size_bytes(int32_t width)
{
    return ((size_t)int4_groups(width) * (2 * SSLM_GROUP_COLUMNS + 8) + 63) / 64 * 64;
}

/* Bytes of the 16 rows of one panel. */
static inline size_t panel_size_bytes(const sslm_matrix *matrix)
{
    if (matrix->encoding == SSLM_PANEL_INT4)
        return int4_scales_size_bytes(matrix->in_features)
               + (size_t)int4_groups(matrix->in_features) * (SSLM_GROUP_COLUMNS * SSLM_PANEL_ROWS / 2);
    return SSLM_PANEL_ROWS * (((size_t)matrix->in_features + 3) / 4 * 4);
}

/* One row of a run. */
typedef struct {
    const sslm_span *span;
    int32_t span_index;
    int32_t index;               /* in its span */
    int32_t position;
} sslm_row;

/* The rows of a buffer: of int32, at base + row · stride_bytes; or of codes, two bytes each, which a tier
 * lays out from base on as it likes, with padded_width(width) · 2 bytes for each row. */
typedef struct {
    uint8_t *base;
    uint8_t *int4_base;          /* of codes that matrices of int4 read, int4_row_size_bytes(width) each; or NULL */
    sslm_code_row *code_rows;    /* [row_count_max], of a buffer of codes */
    size_t stride_bytes;
    int32_t width;
    int32_t row_count;           /* of the run that is going on */
} sslm_rows;

static inline int32_t *int32_row(const sslm_rows *rows, int32_t row)
{
    return (int32_t *)(void *)(rows->base + (size_t)row * rows->stride_bytes);
}

typedef struct sslm_tile sslm_tile;

/* What a thread has to itself. */
typedef struct {
    int32_t *values;             /* [padded_width of the widest buffer] */
    int16_t *codes;              /* the same */
    int8_t *unpacked;            /* [2][16][padded_width of the widest codes of int4 matrices], where tiles are used */
    int32_t *scores;             /* [score_count] */
    sslm_tile *tile;
    uint64_t *saturated;         /* [SSLM_SITE_COUNT][row_count_max] */
} sslm_thread;

/* One op over the rows of one run. */
typedef struct {
    const sslm_program *program;
    const sslm_op *op;
    const sslm_row *rows;
    const int32_t *picked;       /* the rows that logits are due for, in order */
    const int32_t *every;        /* 0, 1, 2, … */
    sslm_rows source, other, out;
    sslm_rows history;           /* the fixed states after every row */
    int32_t row_count;
    int32_t picked_count;
} sslm_job;

static inline uint64_t *site_counts(const sslm_job *job, const sslm_thread *thread)
{
    return thread->saturated + (size_t)job->op->site * (size_t)job->program->row_count_max;
}

/* Rows from first on that attend together: of one span, and all that belong to one of its tiles. */
static inline int32_t tile_row_count(const sslm_job *job, int32_t first)
{
    int32_t last = first + 1;
    while (last < job->row_count && job->rows[last].index % SSLM_TILE_ROWS != 0) last++;
    return last - first;
}

/* Scores that a thread keeps: of a whole tile, and of more of its heads where they are few. */
static inline size_t score_count(const sslm_program *program)
{
    size_t pages = ((size_t)program->context_tokens + SSLM_PAGE_TOKENS - 1) / SSLM_PAGE_TOKENS;
    size_t one = pages * SSLM_PAGE_TOKENS * SSLM_TILE_ROWS, four = 4 * one, enough = 8192 * SSLM_TILE_ROWS;
    return one > enough ? one : four < enough ? four : enough;
}

static inline uint8_t *state_page(const sslm_job *job, const sslm_span *span, int32_t state, int32_t page)
{
    return span->pool + (size_t)span->pages[page] * job->program->page_size_bytes
           + job->program->states[state].offset_bytes;
}

/* Do items first … last - 1 of a job. What an item is depends on the op: a panel of linear and logits, a
 * key/value head of a tile of attention, a span of moving_average, a row with logits of choose, else a row.
 * Contracts: the op records of sslm.program.ops, checked by the caller. */
typedef void (*sslm_kernel)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);

typedef struct {
    sslm_kernel kernels[SSLM_OP_COUNT];
    int32_t (*logprobs)(sslm_logprobs *row, uint32_t vocab_size);
} sslm_kernel_table;

/* Those of the tiers that were built: SSLM_HAS_AVX2 and the like say which. */
extern const sslm_kernel_table sslm_kernels_scalar;
extern const sslm_kernel_table sslm_kernels_avx2;
extern const sslm_kernel_table sslm_kernels_avxvnni;
extern const sslm_kernel_table sslm_kernels_avx512vnni;
extern const sslm_kernel_table sslm_kernels_neon;
extern const sslm_kernel_table sslm_kernels_amx;

#endif
