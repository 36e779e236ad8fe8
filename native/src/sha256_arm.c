/* SHA-256 with the SHA-2 instructions of AArch64. */
#include <arm_neon.h>

#include "sha256.h"

/* Four rounds with the schedule words w. */
static inline void four_rounds(uint32x4_t *abcd, uint32x4_t *efgh, uint32x4_t w, int index)
{
    uint32x4_t sum = vaddq_u32(w, vld1q_u32(sslm_sha256_constants + 4 * index)), before = *abcd;
    *abcd = vsha256hq_u32(before, *efgh, sum);
    *efgh = vsha256h2q_u32(*efgh, before, sum);
}

/* The four schedule words that follow the sixteen in w0 … w3. */
static inline uint32x4_t next_words(uint32x4_t w0, uint32x4_t w1, uint32x4_t w2, uint32x4_t w3)
{
    return vsha256su1q_u32(vsha256su0q_u32(w0, w1), w2, w3);
}

void sslm_sha256_mix_arm(uint32_t state[8], const uint8_t *blocks, size_t block_count)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (size_t i = 0; i < block_count; i++) {
        uint32x4_t w[4], abcd_before = abcd, efgh_before = efgh;
        for (int j = 0; j < 4; j++) {
            w[j] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 64 * i + 16 * (size_t)j)));
            four_rounds(&abcd, &efgh, w[j], j);
        }
        for (int j = 4; j < 16; j += 4) {
            for (int k = 0; k < 4; k++) {
                w[k] = next_words(w[k], w[(k + 1) % 4], w[(k + 2) % 4], w[(k + 3) % 4]);
                four_rounds(&abcd, &efgh, w[k], j + k);
            }
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}
