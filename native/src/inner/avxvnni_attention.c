/* The inner loops of attention with dot products of pairs on 256-bit vectors, for CPUs without AVX-512. */
#include <immintrin.h>

/* As an instruction, since gcc 12 copies the accumulators of a loop to and fro where it is free to choose. */
#define ADD_PAIRS(sums, left, right) __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sums) : "x"(left), "x"(right))

#include "attention_256.h"
