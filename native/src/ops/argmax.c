/* argmax: docs/arithmetic.md 3.11. */
#include "ops.h"

void TIERED(sslm_argmax)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    size_t vocab_size = (size_t)job->program->vocab_size;
    for (int32_t i = first; i < last; i++) {
        const sslm_row *place = &job->rows[job->picked[i]];
        if (place->span->selected == NULL) continue;
        size_t logits_row = (size_t)(place->index - place->span->first_logits_row);
        const int64_t *logits = place->span->logits + logits_row * vocab_size;
        size_t best = 0;
        for (size_t id = 1; id < vocab_size; id++)
            if (logits[id] > logits[best]) best = id;
        place->span->selected[logits_row] = (int32_t)best;
    }
}
