/* gated_activation: docs/arithmetic.md 3.8. */
#include "arithmetic.h"
#include "matrices.h"
#include "ops.h"
#include "rows.h"

/* SiLU of a gate whose a has shift fewer fraction bits; shift is -16 … 24. */
static int32_t activate(const int32_t *nodes, int32_t gate, int32_t shift)
{
    int64_t size = scale_shift_flat(abs32(gate), shift);
    uint32_t a = size < (1 << 20) ? (uint32_t)size : 1u << 20;
    int64_t z = sigmoid_neg(nodes, a);
    int64_t sigmoid = gate >= 0 ? (INT64_C(1) << 28) - z : z;
    return (int32_t)rshift_round(gate * sigmoid, 28);
}

/* Activate a row of gates; return the largest absolute product with up. A function of its own, since its
 * pointers keep their promise of not overlapping only at a call. */
static __attribute__((noinline)) uint64_t activate_row(const int32_t *restrict nodes, const int32_t *restrict gate,
                                                       const int32_t *restrict up, int32_t *restrict activated,
                                                       int32_t width, int32_t shift)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < width; i++) {
        activated[i] = activate(nodes, gate[i], shift);
        int64_t product = (int64_t)activated[i] * up[i];
        product = product < 0 ? -product : product;
        largest = product > largest ? product : largest;
    }
    return (uint64_t)largest;
}

void TIERED(sslm_gated_activation)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const int32_t *nodes = job->program->sigmoid_nodes;
    int32_t width = job->source.width, shift = job->op->gate_bits - 16;
    int32_t *activated = thread->values;
    int16_t *codes = thread->codes;
    for (int32_t row = first; row < last; row++) {
        const int32_t *gate = int32_row(&job->source, row), *up = int32_row(&job->other, row);
        uint64_t largest = 0;
        int32_t done = 0;
        if (shift >= 0) done = TIERED(sslm_activate_lanes)(nodes, gate, up, width, shift, activated, &largest);
        uint64_t rest = activate_row(nodes, gate + done, up + done, activated + done, width - done, shift);
        int32_t exponent = block_exponent(rest > largest ? rest : largest);
        int64_t half = (INT64_C(1) << exponent) >> 1;
        job->out.code_rows[row].exponent = exponent;
        for (int32_t i = TIERED(sslm_multiply_lanes)(activated, up, width, exponent, codes); i < width; i++)
            codes[i] = (int16_t)(((int64_t)activated[i] * up[i] + half) >> exponent);
        keep_codes(&job->out, row, codes);
    }
}
