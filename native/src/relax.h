/* What a loop does that waits for another thread and does not sleep. */
#ifndef SSLM_RELAX_H
#define SSLM_RELAX_H

#ifdef SSLM_X86
#include <immintrin.h>
#define relax() _mm_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void)0)
#endif

#endif
