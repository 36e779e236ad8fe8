/* append: docs/arithmetic.md 3.6. */
#include "arithmetic.h"
#include "ops.h"

void TIERED(sslm_append)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    const sslm_state *state = &job->program->states[job->op->state];
    size_t head_dim = (size_t)state->head_dim, head_count = (size_t)state->head_count;
    for (int32_t row = first; row < last; row++) {
        const sslm_row *place = &job->rows[row];
        size_t token = (size_t)place->position % SSLM_PAGE_TOKENS;
        int32_t page_index = place->position / SSLM_PAGE_TOKENS;
        uint8_t *page = state_page(job, place->span, job->op->state, page_index);
        uint8_t *exponents = page + 2 * SSLM_PAGE_TOKENS * head_count * head_dim;
        for (size_t head = 0; head < head_count; head++) {
            const int32_t *x = int32_row(&job->source, row) + head * head_dim;
            int16_t *codes = (int16_t *)(void *)page + head * SSLM_PAGE_TOKENS * head_dim;
            int32_t exponent = block_exponent_int32(x, state->head_dim);
            size_t step = state->kind == SSLM_STATE_KEYS ? 1 : 2;
            codes += state->kind == SSLM_STATE_KEYS ? token * head_dim : token / 2 * 2 * head_dim + token % 2;
            for (size_t d = 0; d < head_dim; d++) codes[d * step] = (int16_t)code_of(x[d], exponent);
            exponents[head * SSLM_PAGE_TOKENS + token] = (uint8_t)exponent;
        }
    }
}
