/* Numbers that come from outside, held to the bounds that sums are proven for. */
#include <string.h>

#include "sslm_native.h"

int32_t sslm_native_codes_within(const uint8_t *codes, uint64_t count, int32_t largest)
{
    int16_t least = 0, most = 0;
    for (uint64_t i = 0; i < count; i++) {
        int16_t code;
        memcpy(&code, codes + 2 * i, sizeof code); /* At any address. */
        least = code < least ? code : least;
        most = code > most ? code : most;
    }
    return most <= largest && -largest <= least;
}

int32_t sslm_native_exponents_within(const uint8_t *exponents, uint64_t count, int32_t largest)
{
    uint8_t most = 0;
    for (uint64_t i = 0; i < count; i++) most = exponents[i] > most ? exponents[i] : most;
    return most <= largest;
}
