/* moving_average: docs/arithmetic.md 3.12. */
#include <string.h>

#include "arithmetic.h"
#include "ops.h"

/* Items are spans. The states after every row go to the history, from where the run commits the last. */
void TIERED(sslm_moving_average)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    const sslm_state *state = &job->program->states[job->op->state];
    size_t offset = state->offset_bytes, size_bytes = 4 * (size_t)state->head_dim;
    for (int32_t row = 0; row < job->row_count; row++) {
        const sslm_row *place = &job->rows[row];
        if (place->span_index < first || place->span_index >= last) continue;
        const void *before = place->index == 0 ? place->span->fixed + offset
                                               : (uint8_t *)int32_row(&job->history, row - 1) + offset;
        uint8_t *after = (uint8_t *)int32_row(&job->history, row) + offset;
        const int32_t *old = before, *x = int32_row(&job->source, row);
        int32_t *out = int32_row(&job->out, row);
        for (int32_t i = 0; i < state->head_dim; i++)
            out[i] = (int32_t)rshift_round(3 * (int64_t)old[i] + x[i], 2);
        memcpy(after, out, size_bytes);
    }
}
