/* Reading as fast as the memory gives, with the loads of the baseline CPU or wider ones. */
#include "read_ceiling.h"

#include <string.h>

#include "cpu.h"
#include "sslm_native.h"

/* Two words: the widest load that every CPU here has. */
typedef uint64_t pair __attribute__((vector_size(16)));

#define PAIRS (SSLM_READ_STEP / sizeof(pair))
#define SUMS 8

uint64_t sslm_read_steps(const uint8_t *data, uint64_t step_count)
{
    pair sums[SUMS] = {{0}};
    for (uint64_t step = 0; step < step_count; step++, data += SSLM_READ_STEP) {
        for (int line = 0; line < SSLM_READ_STEP; line += 64) {
            __builtin_prefetch(data + SSLM_READ_AHEAD + line, 0, 3);
            __builtin_prefetch(data + SSLM_READ_FAR_AHEAD + line, 0, 2);
        }
        for (size_t i = 0; i < PAIRS; i++) {
            pair loaded;
            memcpy(&loaded, data + i * sizeof loaded, sizeof loaded);
            sums[i % SUMS] ^= loaded;
        }
    }
    for (int i = 1; i < SUMS; i++) sums[0] ^= sums[i];
    return sums[0][0] ^ sums[0][1];
}

typedef uint64_t (*reader)(const uint8_t *data, uint64_t step_count);

static reader best_reader(uint32_t features)
{
#ifdef SSLM_X86
    if (features & SSLM_CPU_AVX512) return sslm_read_steps_avx512;
#else
    (void)features;
#endif
    return sslm_read_steps;
}

uint64_t sslm_native_read_ceiling(const uint8_t *data, uint64_t size_bytes)
{
    uint64_t step_count = size_bytes / SSLM_READ_STEP;
    uint64_t sum = best_reader(sslm_cpu_features())(data, step_count);
    for (uint64_t i = step_count * SSLM_READ_STEP; i < size_bytes; i += sizeof sum) {
        uint64_t word = 0;
        memcpy(&word, data + i, size_bytes - i < sizeof word ? size_bytes - i : sizeof word);
        sum ^= word;
    }
    return sum;
}
