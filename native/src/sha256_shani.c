/* SHA-256 with the SHA instructions of x86. */
#include <immintrin.h>

#include "sha256.h"

/* Four rounds with the schedule words w; the instructions keep a, b, e, f and c, d, g, h together. */
static inline void four_rounds(__m128i *abef, __m128i *cdgh, __m128i w, int index)
{
    const __m128i *constants = (const __m128i *)(const void *)(sslm_sha256_constants + 4 * index);
    __m128i sum = _mm_add_epi32(w, _mm_loadu_si128(constants));
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

/* The four schedule words that follow the sixteen in w0 … w3. */
static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(sum, w3);
}

void sslm_sha256_mix_shani(uint32_t state[8], const uint8_t *blocks, size_t block_count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (size_t i = 0; i < block_count; i++) {
        const __m128i *words = (const __m128i *)(const void *)(blocks + 64 * i);
        __m128i w[4], abef_before = abef, cdgh_before = cdgh;
        for (int j = 0; j < 4; j++) {
            w[j] = _mm_shuffle_epi8(_mm_loadu_si128(words + j), swap);
            four_rounds(&abef, &cdgh, w[j], j);
        }
        for (int j = 4; j < 16; j += 4) {
            for (int k = 0; k < 4; k++) {
                w[k] = next_words(w[k], w[(k + 1) % 4], w[(k + 2) % 4], w[(k + 3) % 4]);
                four_rounds(&abef, &cdgh, w[k], j + k);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
