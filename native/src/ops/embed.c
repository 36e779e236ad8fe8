/* embed: docs/arithmetic.md 3.1. */
#include "arithmetic.h"
#include "ops.h"

void TIERED(sslm_embed)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_matrix *table = &job->op->matrix;
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t row = first; row < last; row++) {
        const sslm_row *place = &job->rows[row];
        int32_t token = place->span->token_ids[place->index];
        const int8_t *w = table->panels + (size_t)(token / 16) * panel_size_bytes(table) + 4 * (size_t)(token % 16);
        int32_t *y = int32_row(&job->out, row);
        for (int32_t i = 0; i < table->in_features; i++) {
            int64_t product = (int64_t)w[16 * (size_t)(i / 4 * 4) + (size_t)(i % 4)] * table->mantissas[token];
            int64_t value = scale_shift(product, table->exponent);
            int64_t kept = clamp32(value);
            saturated[row] += kept != value;
            y[i] = (int32_t)kept;
        }
    }
}
