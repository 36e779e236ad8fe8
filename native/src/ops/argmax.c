/* argmax: docs/arithmetic.md 3.11. */
#include "arithmetic.h"
#include "ops.h"

/* The largest logit is found block by block, and its id in the first block that has it. */
#define BLOCK_IDS 512

/* Eight maxima at a time, since each waits for its last comparison. */
static int64_t largest_logit(const int64_t *logits, size_t count)
{
    int64_t largest[8];
    for (size_t j = 0; j < 8; j++) largest[j] = logits[0];
    size_t whole = count / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j++) largest[j] = logits[i + j] > largest[j] ? logits[i + j] : largest[j];
    for (size_t i = whole; i < count; i++) largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
    for (size_t j = 1; j < 8; j++) largest[0] = largest[j] > largest[0] ? largest[j] : largest[0];
    return largest[0];
}

/* -1 if there is none. */
static int32_t largest_id(const int64_t *logits, size_t count)
{
    size_t start_of_best = 0;
    int64_t best = INT64_MIN;
    for (size_t start = 0; start < count; start += BLOCK_IDS) {
        size_t rest = count - start;
        int64_t largest = largest_logit(logits + start, rest < BLOCK_IDS ? rest : BLOCK_IDS);
        if (largest > best) best = largest, start_of_best = start;
    }
    if (best == INT64_MIN) return -1;
    size_t id = start_of_best;
    while (logits[id] != best) id++;
    return (int32_t)id;
}

void TIERED(sslm_argmax)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    size_t vocab_size = (size_t)job->program->vocab_size;
    for (int32_t i = first; i < last; i++) {
        const sslm_row *place = &job->rows[job->picked[i]];
        if (place->span->selected == NULL) continue;
        size_t logits_row = (size_t)(place->index - place->span->first_logits_row);
        const int64_t *logits = place->span->logits + logits_row * vocab_size;
        place->span->selected[logits_row] = largest_id(logits, vocab_size);
    }
}
