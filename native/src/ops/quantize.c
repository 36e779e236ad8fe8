/* quantize: docs/arithmetic.md 3.3. */
#include "arithmetic.h"
#include "ops.h"

void TIERED(sslm_quantize)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    int32_t width = job->source.width;
    for (int32_t row = first; row < last; row++) {
        const int32_t *x = int32_row(&job->source, row);
        sslm_code_row *out = code_row(&job->out, row);
        int16_t *codes = row_codes(out, width);
        int32_t exponent = block_exponent_int32(x, width);
        int32_t half = (1 << exponent) >> 1;
        out->exponent = exponent;
        /* 64 bits are not needed: with an exponent above 0 half the shift fits below the sign. */
        for (int32_t i = 0; i < width; i++) codes[i] = (int16_t)(((int64_t)x[i] + half) >> exponent);
        TIERED(sslm_split_codes)(out, width);
    }
}
