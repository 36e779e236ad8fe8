/* Products of codes and weights: the inner loops of linear and logits. */
#ifndef SSLM_PRODUCTS_H
#define SSLM_PRODUCTS_H

#include "inner.h"

/* Rows whose sums are finished together, at most. */
#define SSLM_TILE_ROWS 16

typedef struct sslm_products sslm_products;

/* Finish the sums of a panel's 16 rows with count rows of codes, those that picked has from index first on:
 * 256 · high + low, both [count][16]. Sums of panel rows that the matrix lacks are zero. */
typedef void (*sslm_finish)(const sslm_products *products, int32_t panel, int32_t first, int32_t count,
                            const int32_t *high, const int32_t *low);

/* Some rows of codes times some panels of weights. */
struct sslm_products {
    const sslm_job *job;         /* its source are the codes */
    const int32_t *picked;       /* rows, ascending */
    int32_t picked_count;
    sslm_finish finish;
    sslm_thread *thread;         /* whose codes may be overwritten */
};

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
void TIERED(sslm_finish_linear)(const sslm_products *products, int32_t panel, int32_t first, int32_t count,
                                const int32_t *high, const int32_t *low);

#endif
