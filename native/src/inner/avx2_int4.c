/* Products of int4 weights with AVX2, which multiplies unsigned by signed bytes and adds two neighbours to 16
 * bits, saturating: two products of nibbles stay within 2 · 15 · 128 = 3840.
 *
 * A row's four columns become two sums, of one half of the group's columns each, which start at less 4 times
 * the sum over the whole group: so each stays within 16 · 7 · 128 + 4 · 32 · 128 = 30720, and both together
 * lack 8 times that sum. Scaling multiplies both and adds them up.
 */
#include <immintrin.h>

#define TILE_ROWS 2
#define START(sum) ((int32_t)(0x10001u * (uint16_t)(-4 * (sum))))
/* As instructions, since gcc 12 multiplies all of a group before it adds, and spills. */
#define ADD_PRODUCTS(sums, nibbles, fours)                          \
    do {                                                            \
        __m256i products;                                           \
        __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"        \
                : "+x"(sums), "=&x"(products)                       \
                : "x"(nibbles), "x"(fours));                        \
    } while (0)
#define SCALES                                                                                             \
    _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, \
                     -1, 6, -1, 7, -1, 7, -1)

#include "int4_256.h"
