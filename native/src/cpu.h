/* What the CPU and the operating system offer. */
#ifndef SSLM_CPU_H
#define SSLM_CPU_H

#include <stdint.h>

/* SSLM_CPU_* bits. */
uint32_t sslm_cpu_features(void);

/* Whether a CPU with these features runs the code of an SSLM_TIER_*; for SSLM_TIER_AMX the system is asked too. */
int32_t sslm_tier_runs(int32_t tier, uint32_t features);

#endif
