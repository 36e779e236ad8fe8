/* quantize: docs/arithmetic.md 3.3. */
#include "arithmetic.h"
#include "matrices.h"
#include "ops.h"

void TIERED(sslm_quantize)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    int32_t width = job->source.width;
    for (int32_t row = first; row < last; row++) {
        const int32_t *x = int32_row(&job->source, row);
        int32_t exponent = block_exponent_int32(x, width);
        int32_t half = (1 << exponent) >> 1;
        job->out.code_rows[row].exponent = exponent;
        for (int32_t i = 0; i < width; i++) thread->codes[i] = (int16_t)(((int64_t)x[i] + half) >> exponent);
        keep_codes(&job->out, row, thread->codes);
    }
}
