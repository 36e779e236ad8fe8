/* Products of codes and weights: the inner loops of linear and logits. */
#ifndef SSLM_PRODUCTS_H
#define SSLM_PRODUCTS_H

#include "inner.h"

/* Rows whose sums are finished together, at most. */
#define SSLM_SUM_ROWS 16

typedef struct sslm_products sslm_products;

/* The sums of one or two panels' 16 rows each with some rows of codes: 256 · high + low. Sums of panel rows that the
 * matrix lacks are zero. */
typedef struct {
    int32_t panel, panel_count;
    int32_t first, row_count;    /* rows of codes: those that picked has from index first on */
    const int32_t *high, *low;   /* [row_count][16] */
    size_t next_panel;           /* how much further those of the second panel lie */
} sslm_sums;

typedef void (*sslm_finish)(const sslm_products *products, const sslm_sums *sums);

/* Some rows of codes times some panels of weights. */
struct sslm_products {
    const sslm_job *job;         /* its source are the codes */
    const int32_t *picked;       /* rows, ascending */
    int32_t picked_count;
    sslm_finish finish;
    sslm_thread *thread;         /* whose codes may be overwritten */
};

static inline void finish_one_panel(const sslm_products *products, int32_t panel, int32_t first, int32_t row_count,
                                    const int32_t *high, const int32_t *low)
{
    sslm_sums sums = {panel, 1, first, row_count, high, low, 0};
    products->finish(products, &sums);
}

/* Finish the panels of sums one by one. */
ALWAYS_INLINE void finish_each_panel(const sslm_products *products, const sslm_sums *sums,
                                     void (*finish)(const sslm_products *products, int32_t panel, int32_t first,
                                                    int32_t row_count, const int32_t *high, const int32_t *low))
{
    for (int32_t p = 0; p < sums->panel_count; p++) {
        size_t further = (size_t)p * sums->next_panel;
        finish(products, sums->panel + p, sums->first, sums->row_count, sums->high + further, sums->low + further);
    }
}

/* Write sums in the form that sslm_finish takes. */
static inline void split_sums(const int64_t *sums, int32_t count, int32_t *high, int32_t *low)
{
    for (int32_t i = 0; i < count; i++) {
        high[i] = (int32_t)(sums[i] >> 8);
        low[i] = (int32_t)(sums[i] & 255);
    }
}

/* Store the codes of a row where sslm_multiply of the same tier finds them. codes is int16
 * [padded_width(rows->width)], of which this zeroes what lies beyond the width. */
void TIERED(sslm_store_codes)(const sslm_rows *rows, int32_t row, int16_t *codes);

/* Finish the exact sums of all picked rows with panels first … last - 1 of the job's matrix. A panel is int8
 * [width / 4][16][4]. */
void TIERED(sslm_multiply)(const sslm_products *products, int32_t first, int32_t last);

/* Finish a linear op. */
void TIERED(sslm_finish_linear)(const sslm_products *products, const sslm_sums *sums);

#endif
