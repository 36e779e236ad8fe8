/* embed: docs/arithmetic.md 3.1. */
#include "arithmetic.h"
#include "ops.h"

/* Weight i of row n of a panel; with int4, times the scale of its group. */
static int32_t weight_at(const sslm_matrix *table, const uint8_t *panel, size_t n, size_t i)
{
    if (table->encoding == SSLM_PANEL_INT8) return ((const int8_t *)panel)[16 * (i / 4 * 4) + 4 * n + i % 4];
    uint8_t both = panel[int4_scales_size_bytes(table->in_features) + 8 * (i / 8 * 8) + 4 * n + i % 4];
    return ((i % 8 < 4 ? both & 15 : both >> 4) - 8) * panel[i / 32 * 16 + n];
}

/* Whole groups of four int8 columns of a row, for exponents that shift right: the products are below 2^31, and none
 * can saturate. */
static void embed_groups(const int8_t *restrict w, int32_t mantissa, int32_t exponent, int32_t groups,
                         int32_t *restrict y)
{
    int32_t shift = exponent < 32 ? exponent - 1 : 31;
    for (int32_t group = 0; group < groups; group++)
        for (int32_t i = 0; i < SSLM_PANEL_COLUMNS; i++)
            y[4 * group + i] = (((w[64 * (size_t)group + (size_t)i] * mantissa) >> shift) + 1) >> 1;
}

void TIERED(sslm_embed)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_matrix *table = &job->op->matrix;
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t row = first; row < last; row++) {
        const sslm_row *place = &job->rows[row];
        int32_t token = place->span->token_ids[place->index], mantissa = table->mantissas[token], done = 0;
        const uint8_t *panel = table->panels + (size_t)(token / 16) * panel_size_bytes(table);
        size_t n = (size_t)(token % 16);
        int32_t *y = int32_row(&job->out, row);
        if (table->encoding == SSLM_PANEL_INT8 && table->exponent > 0) {
            done = table->in_features / 4 * 4;
            embed_groups((const int8_t *)panel + 4 * n, mantissa, table->exponent, done / 4, y);
        }
        for (int32_t i = done; i < table->in_features; i++) {
            int64_t product = (int64_t)weight_at(table, panel, n, (size_t)i) * mantissa;
            int64_t value = scale_shift(product, table->exponent);
            int64_t kept = clamp32(value);
            saturated[row] += kept != value;
            y[i] = (int32_t)kept;
        }
    }
}
