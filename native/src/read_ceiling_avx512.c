/* Reading with loads of a whole cache line. */
#include <immintrin.h>

#include "read_ceiling.h"

uint64_t sslm_read_steps_avx512(const uint8_t *data, uint64_t step_count)
{
    __m512i sums[4];
    for (int line = 0; line < 4; line++) sums[line] = _mm512_setzero_si512();
    for (uint64_t step = 0; step < step_count; step++, data += SSLM_READ_STEP) {
        for (int line = 0; line < 4; line++) {
            __builtin_prefetch(data + SSLM_READ_AHEAD + 64 * line, 0, 3);
            __builtin_prefetch(data + SSLM_READ_FAR_AHEAD + 64 * line, 0, 2);
            sums[line] = _mm512_xor_si512(sums[line], _mm512_loadu_si512(data + 64 * line));
        }
    }
    uint64_t words[32], sum = 0;
    for (int line = 0; line < 4; line++) _mm512_storeu_si512(words + 8 * line, sums[line]);
    for (int i = 0; i < 32; i++) sum ^= words[i];
    return sum;
}
