/* logits: docs/arithmetic.md 3.10. */
#include "matrices.h"
#include "ops.h"

void TIERED(sslm_logits)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_op *op = job->op;
    const sslm_matrix *matrix = &op->matrix;
    int32_t first_panel = op->first_row / SSLM_PANEL_ROWS;
    for (int32_t panel = first_panel + first; panel < first_panel + last; panel++) {
        dot_panel_of(matrix, panel, &job->source, job->picked, job->picked_count, thread->tile_sums);
        int32_t first_row = panel * SSLM_PANEL_ROWS;
        int32_t rest = op->last_row - first_row;
        int32_t count = rest < SSLM_PANEL_ROWS ? rest : SSLM_PANEL_ROWS;
        for (int32_t i = 0; i < job->picked_count; i++) {
            const sslm_row *place = &job->rows[job->picked[i]];
            size_t logits_row = (size_t)(place->index - place->span->first_logits_row);
            int64_t *out = place->span->logits + logits_row * (size_t)job->program->vocab_size + first_row;
            const int64_t *sums = thread->tile_sums + SSLM_PANEL_ROWS * (size_t)i;
            for (int32_t n = 0; n < count; n++) out[n] = sums[n] * matrix->mantissas[first_row + n];
        }
    }
}
