/* The kernels of one tier; docs/arithmetic.md, section 3, defines their results. */
#ifndef SSLM_OPS_H
#define SSLM_OPS_H

#include "kernels.h"
#include "tier.h"

void TIERED(sslm_embed)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_rmsnorm)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_quantize)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_linear)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_rope)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_append)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_attention)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_gated_activation)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_add)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_logits)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_choose)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);
void TIERED(sslm_moving_average)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread);

/* What sslm_native_logprobs does. */
int32_t TIERED(sslm_tell_logprobs)(sslm_logprobs *row, uint32_t vocab_size);

#endif
