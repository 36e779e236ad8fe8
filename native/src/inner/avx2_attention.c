/* The inner loops of attention with AVX2. */
#include <immintrin.h>

#define ADD_PAIRS(sums, left, right) sums = _mm256_add_epi32(sums, _mm256_madd_epi16(left, right))

#include "attention_256.h"
