/* SHA-256 in portable C, with the buffering that all variants share. */
#include "sha256.h"

#include <string.h>

#include "sslm_native.h"

const uint32_t sslm_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int count)
{
    return (x >> count) | (x << (32 - count));
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void mix_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++) w[i] = big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + sslm_sha256_constants[i] + w[i];
        uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sslm_sha256_mix_portable(uint32_t state[8], const uint8_t *blocks, size_t block_count)
{
    for (size_t i = 0; i < block_count; i++) mix_block(state, blocks + 64 * i);
}

sslm_sha256_mix sslm_sha256_best_mix(uint32_t features)
{
#if defined(SSLM_X86)
    if (features & SSLM_CPU_SHA) return sslm_sha256_mix_shani;
#elif defined(SSLM_ARM64)
    if (features & SSLM_CPU_SHA) return sslm_sha256_mix_arm;
#else
    (void)features;
#endif
    return sslm_sha256_mix_portable;
}

void sslm_sha256_start(sslm_sha256 *hash, sslm_sha256_mix mix)
{
    static const uint32_t initial[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    hash->mix = mix;
    hash->size_bytes = 0;
    memcpy(hash->state, initial, sizeof initial);
}

void sslm_sha256_add(sslm_sha256 *hash, const void *data, size_t size_bytes)
{
    const uint8_t *bytes = data;
    size_t held = hash->size_bytes % 64;
    hash->size_bytes += size_bytes;
    if (held != 0) {
        size_t taken = size_bytes < 64 - held ? size_bytes : 64 - held;
        memcpy(hash->rest + held, bytes, taken);
        bytes += taken, size_bytes -= taken;
        if (held + taken < 64) return;
        hash->mix(hash->state, hash->rest, 1);
    }
    hash->mix(hash->state, bytes, size_bytes / 64);
    memcpy(hash->rest, bytes + size_bytes / 64 * 64, size_bytes % 64);
}

void sslm_sha256_finish(sslm_sha256 *hash, uint8_t digest[32])
{
    uint64_t bits = hash->size_bytes * 8;
    uint8_t tail[72] = {0x80};
    size_t held = hash->size_bytes % 64;
    size_t zeros_end = held < 56 ? 56 - held : 120 - held;
    for (int i = 0; i < 8; i++) tail[zeros_end + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sslm_sha256_add(hash, tail, zeros_end + 8);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
