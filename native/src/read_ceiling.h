/* Loops that do nothing but read. */
#ifndef SSLM_READ_CEILING_H
#define SSLM_READ_CEILING_H

#include <stdint.h>

/* Bytes of one round of the loops: four cache lines, each asked for twice ahead of its turn, to be near and to be
 * nearer. Some CPUs read a quarter faster so than when their own prefetchers are left alone. */
#define SSLM_READ_STEP 256
#define SSLM_READ_AHEAD 3072
#define SSLM_READ_FAR_AHEAD 6144

/* The exclusive or of the 64-bit words of step_count steps. Asking for bytes behind the end does no harm. */
uint64_t sslm_read_steps(const uint8_t *data, uint64_t step_count);

#ifdef SSLM_X86
/* The same with 64 bytes a load, for CPUs that have SSLM_CPU_AVX512. */
uint64_t sslm_read_steps_avx512(const uint8_t *data, uint64_t step_count);
#endif

#endif
