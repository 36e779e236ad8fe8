/* rmsnorm: docs/arithmetic.md 3.2. */
#include "arithmetic.h"
#include "ops.h"
#include "rows.h"

/* The sum of squares at the group's exponent, with epsilon; 0 for a group of zeros. Below 2^47. */
static uint64_t mean_square(const sslm_norm *norm, const int32_t *x, int32_t exponent)
{
    int64_t sum = 0;
    int32_t count = norm->group_size;
    for (int32_t i = 0; i < count; i++) {
        int32_t code = code_of(x[i], exponent);
        sum += (uint32_t)(code * code);
    }
    if (sum == 0) return 0;
    int64_t scaled = (int64_t)norm->group_size * norm->epsilon_mantissa;
    return (uint64_t)(sum + scale_shift(scaled, norm->epsilon_shift - 2 * norm->source_bits + 2 * exponent));
}

/* x may be y. */
static uint64_t normalize_group(const sslm_norm *norm, const int32_t *x, int32_t *y)
{
    const int32_t *gain = norm->gain;
    int32_t count = norm->group_size;
    int32_t exponent = block_exponent_int32(x, count);
    uint64_t total = mean_square(norm, x, exponent);
    if (total == 0) {
        for (int32_t i = 0; i < count; i++) y[i] = 0;
        return 0;
    }
    int32_t k = (64 - bit_length(total)) / 2;
    int32_t reciprocal = (int32_t)div_round(UINT64_C(1) << 55, isqrt(total << (2 * k)));
    int32_t shift = 55 - k + norm->gain_exponent - norm->out_bits;
    if (shift > 62) {
        for (int32_t i = 0; i < count; i++) y[i] = 0;
        return 0;
    }
    /* The products are below 2^62. */
    int32_t done = shift < 32 ? 0 : TIERED(sslm_normalize_lanes)(x, gain, count, exponent, reciprocal, shift, y);
    int64_t half = (INT64_C(1) << shift) >> 1;
    uint64_t saturated = 0;
    for (int32_t i = done; i < count; i++) {
        int64_t product = code_of(x[i], exponent) * ((int64_t)reciprocal * gain[i]);
        int64_t value = (product + half) >> shift;
        int64_t kept = clamp32(value);
        saturated += kept != value;
        y[i] = (int32_t)kept;
    }
    return saturated;
}

void TIERED(sslm_rmsnorm)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_norm *norm = &job->op->norm;
    uint64_t *saturated = site_counts(job, thread);
    for (int32_t row = first; row < last; row++) {
        const int32_t *x = int32_row(&job->source, row);
        int32_t *y = int32_row(&job->out, row);
        for (int32_t start = 0; start < job->source.width; start += norm->group_size)
            saturated[row] += normalize_group(norm, x + start, y + start);
    }
}
