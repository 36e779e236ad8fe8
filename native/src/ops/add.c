/* add: docs/arithmetic.md 3.9. */
#include "arithmetic.h"
#include "ops.h"

void TIERED(sslm_add)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t row = first; row < last; row++) {
        const int32_t *source = int32_row(&job->source, row);
        int32_t *target = int32_row(&job->out, row);
        uint64_t count = 0;
        for (int32_t i = 0; i < job->out.width; i++) {
            int64_t value = (int64_t)target[i] + source[i];
            int64_t kept = clamp32(value);
            count += kept != value;
            target[i] = (int32_t)kept;
        }
        saturated[row] += count;
    }
}
