/* add: docs/arithmetic.md 3.9. */
#include "arithmetic.h"
#include "ops.h"

/* Add a row to another that does not overlap it, in 32 bits; return how many elements were clamped. */
static uint32_t add_row(const int32_t *restrict source, int32_t *restrict target, int32_t width)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < width; i++) {
        int32_t a = target[i], b = source[i], sum = (int32_t)((uint32_t)a + (uint32_t)b);
        /* -2^31 is out of range too. */
        int32_t is_over = (((a ^ sum) & (b ^ sum)) < 0) | (sum == INT32_MIN);
        int32_t limit = a < 0 ? -INT32_MAX : INT32_MAX;
        target[i] = is_over ? limit : sum;
        count += (uint32_t)is_over;
    }
    return count;
}

void TIERED(sslm_add)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t row = first; row < last; row++)
        saturated[row] += add_row(int32_row(&job->source, row), int32_row(&job->out, row), job->out.width);
}
