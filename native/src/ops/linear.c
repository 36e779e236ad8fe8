/* linear: docs/arithmetic.md 3.4. */
#include "arithmetic.h"
#include "matrices.h"
#include "ops.h"

/* Beyond this a value saturates whatever its left shift, bias and previous value are, and up to it a left
 * shift of 24 stays within 64 bits. */
#define LEFT_SHIFT_MAX (INT64_C(1) << 36)

static int64_t shift_sum(int64_t product, int32_t shift)
{
    if (shift >= 0) return rshift_round(product, shift);
    if (product > LEFT_SHIFT_MAX) product = LEFT_SHIFT_MAX;
    if (product < -LEFT_SHIFT_MAX) product = -LEFT_SHIFT_MAX;
    return scale_shift(product, shift);
}

/* The outputs of one panel for one row. Not inlined: for a count that they know to be 16, compilers unroll
 * these loops instead of turning them into vectors. */
static __attribute__((noinline)) uint64_t finish_row(const sslm_op *op, const int64_t *sums, int32_t first_row,
                                                     int32_t count, int32_t shift, int32_t *y)
{
    const int32_t *mantissas = op->matrix.mantissas + first_row;
    int64_t values[SSLM_PANEL_ROWS];
    if (shift >= 0 && shift <= 62) {
        int64_t half = (INT64_C(1) << shift) >> 1;
        for (int32_t n = 0; n < count; n++) values[n] = (sums[n] * mantissas[n] + half) >> shift;
    } else {
        for (int32_t n = 0; n < count; n++) values[n] = shift_sum(sums[n] * mantissas[n], shift);
    }
    if (op->matrix.bias != NULL)
        for (int32_t n = 0; n < count; n++) values[n] += op->matrix.bias[first_row + n];
    if (op->accumulates)
        for (int32_t n = 0; n < count; n++) values[n] += y[n];
    uint64_t saturated = 0;
    for (int32_t n = 0; n < count; n++) {
        int64_t kept = clamp32(values[n]);
        saturated += kept != values[n];
        y[n] = (int32_t)kept;
    }
    return saturated;
}

void TIERED(sslm_linear)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_matrix *matrix = &job->op->matrix;
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t panel = first; panel < last; panel++) {
        dot_panel_of(matrix, panel, &job->source, job->every, job->row_count, thread->tile_sums);
        int32_t first_row = panel * SSLM_PANEL_ROWS;
        int32_t rest = matrix->out_features - first_row;
        int32_t count = rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
        for (int32_t row = 0; row < job->row_count; row++) {
            const int64_t *sums = thread->tile_sums + SSLM_PANEL_ROWS * (size_t)row;
            int32_t *y = int32_row(&job->out, row) + first_row;
            int32_t shift = matrix->exponent - job->source.code_rows[row].exponent;
            saturated[row] += finish_row(job->op, sums, first_row, count, shift, y);
        }
    }
}
