/* The table of one tier's kernels, by SSLM_OP_*. */
#include "ops.h"

const sslm_kernel_table TIERED(sslm_kernels) = {
    .kernels = {
        [SSLM_OP_EMBED] = TIERED(sslm_embed),
        [SSLM_OP_RMSNORM] = TIERED(sslm_rmsnorm),
        [SSLM_OP_QUANTIZE] = TIERED(sslm_quantize),
        [SSLM_OP_LINEAR] = TIERED(sslm_linear),
        [SSLM_OP_ROPE] = TIERED(sslm_rope),
        [SSLM_OP_APPEND] = TIERED(sslm_append),
        [SSLM_OP_ATTENTION] = TIERED(sslm_attention),
        [SSLM_OP_GATED_ACTIVATION] = TIERED(sslm_gated_activation),
        [SSLM_OP_ADD] = TIERED(sslm_add),
        [SSLM_OP_LOGITS] = TIERED(sslm_logits),
        [SSLM_OP_CHOOSE] = TIERED(sslm_choose),
        [SSLM_OP_MOVING_AVERAGE] = TIERED(sslm_moving_average),
    },
    .logprobs = TIERED(sslm_tell_logprobs),
};
