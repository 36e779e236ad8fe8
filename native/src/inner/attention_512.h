/* The inner loops of attention with AVX-512 and its dot products of pairs, for the tiers that have them. */
#ifndef SSLM_ATTENTION_512_H
#define SSLM_ATTENTION_512_H

#include <immintrin.h>
#include <string.h>

#include "arithmetic.h"
#include "attention.h"
#include "vectors_512.h"

/* Add the products of pairs of 16-bit numbers. As an instruction, since gcc 12 copies the accumulators of a loop to and
 * fro where it is free to choose. */
#define ADD_PAIRS(sums, left, right) __asm__("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(left), "v"(right))

#include "single_rows_512.h"
#include "tiles_512.h"

#endif
