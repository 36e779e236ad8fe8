/* The last step of linear, for the tiers that leave it to the compiler. A tier's file includes this once. */
#ifndef SSLM_OUTPUTS_PLAIN_H
#define SSLM_OUTPUTS_PLAIN_H

#include "outputs.h"

static void finish_panel(const sslm_products *products, int32_t panel, int32_t first, int32_t row_count,
                         const int32_t *high, const int32_t *low)
{
    const sslm_job *job = products->job;
    uint64_t *saturated = site_counts(job, products->thread);
    int32_t first_row = panel * SSLM_PANEL_ROWS;
    int32_t rest = job->op->matrix.out_features - first_row;
    int32_t count = rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
    for (int32_t i = 0; i < row_count; i++, high += SSLM_PANEL_ROWS, low += SSLM_PANEL_ROWS) {
        int32_t row = products->picked[first + i];
        int32_t shift = job->op->matrix.exponent - job->source.code_rows[row].exponent;
        int32_t *y = int32_row(&job->out, row) + first_row;
        saturated[row] += finish_row(job->op, first_row, count, shift, high, low, y);
    }
}

void TIERED(sslm_finish_linear)(const sslm_products *products, const sslm_sums *sums)
{
    finish_each_panel(products, sums, finish_panel);
}

#endif
