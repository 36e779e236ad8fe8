/* Segment digests: docs/arithmetic.md, section 4. */
#include <string.h>

#include "plan.h"

static void add_u32(sslm_sha256 *hash, uint32_t value)
{
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    sslm_sha256_add(hash, bytes, sizeof bytes);
}

static void add_u64(sslm_sha256 *hash, uint64_t value)
{
    add_u32(hash, (uint32_t)value);
    add_u32(hash, (uint32_t)(value >> 32));
}

/* One position of a paged state, in logical order: codes [head][dim], then exponents [head]. */
static void add_paged(sslm_sha256 *hash, const sslm_state *state, const uint8_t *page, size_t token)
{
    size_t head_dim = (size_t)state->head_dim, head_count = (size_t)state->head_count;
    const uint8_t *exponents = page + 2 * SSLM_PAGE_TOKENS * head_count * head_dim;
    for (size_t head = 0; head < head_count; head++) {
        const int16_t *codes = (const int16_t *)(const void *)page + head * SSLM_PAGE_TOKENS * head_dim;
        if (state->kind == SSLM_STATE_KEYS) {
            sslm_sha256_add(hash, codes + token * head_dim, 2 * head_dim);
            continue;
        }
        int16_t ordered[SSLM_HEAD_DIM_MAX];
        for (size_t d = 0; d < head_dim; d++) ordered[d] = codes[(token / 2 * head_dim + d) * 2 + token % 2];
        sslm_sha256_add(hash, ordered, 2 * head_dim);
    }
    for (size_t head = 0; head < head_count; head++)
        sslm_sha256_add(hash, exponents + head * SSLM_PAGE_TOKENS + token, 1);
}

static void digest_row(const sslm_plan *plan, int32_t segment, int32_t row, uint8_t digest[32])
{
    const sslm_program *program = plan->program;
    const sslm_row *place = &plan->rows[row];
    const sslm_rows *residual = &plan->buffers[program->residual];
    sslm_sha256 hash;
    sslm_sha256_start(&hash, plan->mix);
    add_u32(&hash, program->arithmetic_version);
    add_u32(&hash, (uint32_t)segment);
    add_u64(&hash, (uint64_t)place->position);
    sslm_sha256_add(&hash, int32_row(residual, row), 4 * (size_t)residual->width);
    for (int32_t i = 0; i < program->state_count; i++) {
        const sslm_state *state = &program->states[i];
        if (state->segment != segment) continue;
        if (state->kind == SSLM_STATE_FIXED) {
            const uint8_t *after = (const uint8_t *)int32_row(&plan->history, row) + state->offset_bytes;
            sslm_sha256_add(&hash, after, 4 * (size_t)state->head_dim);
            continue;
        }
        int32_t page = place->span->pages[place->position / SSLM_PAGE_TOKENS];
        const uint8_t *start = place->span->pool + (size_t)page * program->page_size_bytes + state->offset_bytes;
        add_paged(&hash, state, start, (size_t)place->position % SSLM_PAGE_TOKENS);
    }
    sslm_sha256_finish(&hash, digest);
}

void sslm_digest_rows(const void *digest_job, int32_t first, int32_t last, sslm_thread *scratch)
{
    (void)scratch;
    const sslm_digest_job *job = digest_job;
    for (int32_t row = first; row < last; row++) {
        const sslm_row *place = &job->plan->rows[row];
        const sslm_span *span = place->span;
        int is_last_layer = job->segment == job->plan->program->last_layer;
        if (!is_last_layer && span->trace == NULL) continue;
        uint8_t digest[32];
        digest_row(job->plan, job->segment, row, digest);
        if (is_last_layer) memcpy(span->digests + 32 * (size_t)place->index, digest, sizeof digest);
        size_t traced = (size_t)job->segment * (size_t)span->row_count + (size_t)place->index;
        if (span->trace != NULL) memcpy(span->trace + 32 * traced, digest, sizeof digest);
    }
}
