/* Products of int4 weights with the dot products of bytes on 256-bit vectors, for CPUs without AVX-512. */
#include <immintrin.h>

#define TILE_ROWS 3
#define START(sum) (-8 * (sum))
/* As an instruction, since gcc 12 copies the accumulators of a loop to and fro where it is free to choose. */
#define ADD_PRODUCTS(sums, nibbles, fours) \
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(nibbles), "x"(fours))
/* The upper half of a group's sum is only its sign: the scales there are 0. */
#define SCALES                                                                                                 \
    _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, \
                     6, -1, -1, -1, 7, -1, -1, -1)

#include "int4_256.h"
