/* quantize: docs/arithmetic.md 3.3. */
#include "arithmetic.h"
#include "matrices.h"
#include "ops.h"

void TIERED(sslm_quantize)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    int32_t width = job->source.width;
    int16_t *restrict codes = thread->codes;
    for (int32_t row = first; row < last; row++) {
        const int32_t *x = int32_row(&job->source, row);
        int32_t exponent = block_exponent_int32(x, width);
        job->out.code_rows[row].exponent = exponent;
        for (int32_t i = 0; i < width; i++) codes[i] = (int16_t)code_of(x[i], exponent);
        keep_codes(&job->out, row, codes);
    }
}
