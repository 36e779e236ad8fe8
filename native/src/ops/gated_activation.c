/* gated_activation: docs/arithmetic.md 3.8. */
#include "arithmetic.h"
#include "ops.h"

static int64_t activate(const int32_t *nodes, int32_t gate, int32_t gate_bits)
{
    int64_t size = scale_shift(abs32(gate), gate_bits - 16);
    uint32_t a = size < (1 << 20) ? (uint32_t)size : 1u << 20;
    int64_t z = sigmoid_neg(nodes, a);
    int64_t sigmoid = gate >= 0 ? (INT64_C(1) << 28) - z : z;
    return rshift_round(gate * sigmoid, 28);
}

void TIERED(sslm_gated_activation)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const int32_t *nodes = job->program->sigmoid_nodes;
    int32_t width = job->source.width, gate_bits = job->op->gate_bits;
    int32_t *activated = thread->values;
    for (int32_t row = first; row < last; row++) {
        const int32_t *gate = int32_row(&job->source, row);
        const int32_t *up = int32_row(&job->other, row);
        uint64_t largest = 0;
        for (int32_t i = 0; i < width; i++) {
            activated[i] = (int32_t)activate(nodes, gate[i], gate_bits);
            int64_t product = (int64_t)activated[i] * up[i];
            uint64_t size = (uint64_t)(product < 0 ? -product : product);
            largest = size > largest ? size : largest;
        }
        int32_t exponent = block_exponent(largest);
        job->out.code_rows[row].exponent = exponent;
        for (int32_t i = 0; i < width; i++)
            thread->codes[i] = (int16_t)rshift_round((int64_t)activated[i] * up[i], exponent);
        TIERED(sslm_store_codes)(&job->out, row, thread->codes);
    }
}
