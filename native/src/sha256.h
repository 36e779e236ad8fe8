/* SHA-256 (FIPS 180-4). */
#ifndef SSLM_SHA256_H
#define SSLM_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Mix whole blocks of 64 bytes into a state. */
typedef void (*sslm_sha256_mix)(uint32_t state[8], const uint8_t *blocks, size_t block_count);

typedef struct {
    sslm_sha256_mix mix;
    uint64_t size_bytes;
    uint32_t state[8];
    uint8_t rest[64];
} sslm_sha256;

extern const uint32_t sslm_sha256_constants[64];

void sslm_sha256_mix_portable(uint32_t state[8], const uint8_t *blocks, size_t block_count);
#ifdef SSLM_X86
void sslm_sha256_mix_shani(uint32_t state[8], const uint8_t *blocks, size_t block_count);
#endif
#ifdef SSLM_ARM64
/* Hidden here too, or its address is among those of what the library offers. */
__attribute__((visibility("hidden")))
void sslm_sha256_mix_arm(uint32_t state[8], const uint8_t *blocks, size_t block_count);
#endif

/* The fastest variant that CPU features (SSLM_CPU_*) allow. */
sslm_sha256_mix sslm_sha256_best_mix(uint32_t features);

void sslm_sha256_start(sslm_sha256 *hash, sslm_sha256_mix mix);
void sslm_sha256_add(sslm_sha256 *hash, const void *data, size_t size_bytes);
void sslm_sha256_finish(sslm_sha256 *hash, uint8_t digest[32]);

#endif
