/* Drawing one of the candidates: docs/arithmetic.md 5.8. */
#include "choosing.h"

#define PHILOX_ROUNDS 10

/* Random bits of a position: Philox4x32-10. */
static uint64_t random_bits(uint64_t seed, uint32_t position)
{
    uint32_t counter[4] = {position, 0, 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int32_t i = 0; i < PHILOX_ROUNDS; i++) {
        uint64_t first = UINT64_C(0xd2511f53) * counter[0], second = UINT64_C(0xcd9e8d57) * counter[2];
        counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key[0];
        counter[1] = (uint32_t)second;
        counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key[1];
        counter[3] = (uint32_t)first;
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    return counter[0] | (uint64_t)counter[1] << 32;
}

/* floor(x · y / 2^64) */
static uint64_t scaled(uint64_t x, uint64_t y)
{
    uint64_t x_low = (uint32_t)x, x_high = x >> 32, y_low = (uint32_t)y, y_high = y >> 32;
    uint64_t middle = x_high * y_low + (x_low * y_low >> 32);
    uint64_t other = x_low * y_high + (uint32_t)middle;
    return x_high * y_high + (middle >> 32) + (other >> 32);
}

uint32_t TIERED(sslm_next_kept)(const sslm_candidates *candidates, uint32_t id)
{
    while (id < candidates->count) {
        if (candidates->maxima[id / candidates->chunk_ids] < candidates->floor) {
            id = (id / candidates->chunk_ids + 1) * candidates->chunk_ids;
            continue;
        }
        if (is_kept(candidates, id)) return id;
        id++;
    }
    return candidates->count;
}

static int is_any_kept(const sslm_candidates *candidates, uint32_t first, uint32_t count)
{
    int32_t largest = INT32_MIN;
    for (uint32_t n = 0; n < count; n++)
        largest = candidates->scores[first + n] > largest ? candidates->scores[first + n] : largest;
    return largest >= candidates->floor;
}

/* Walk the blocks with candidates until their weights come to more than a part; it is reduced by what was passed.
 * count if they do not. */
static uint32_t pass_blocks(const sslm_candidates *candidates, uint64_t *part, uint64_t *weights)
{
    for (uint32_t first = 0; first < candidates->count; first += SSLM_BLOCK_IDS) {
        uint32_t chunk = first / candidates->chunk_ids, rest = candidates->count - first;
        if (candidates->maxima[chunk] < candidates->floor) {
            first = (chunk + 1) * candidates->chunk_ids - SSLM_BLOCK_IDS;
            continue;
        }
        uint32_t count = rest < SSLM_BLOCK_IDS ? rest : SSLM_BLOCK_IDS;
        if (!is_any_kept(candidates, first, count)) continue;
        TIERED(sslm_weigh)(candidates, first, count, weights);
        uint64_t sum = 0;
        for (uint32_t n = 0; n < count; n++) sum += weights[n];
        if (sum > *part) return first;
        *part -= sum;
    }
    return candidates->count;
}

uint64_t TIERED(sslm_total_weight)(const sslm_candidates *candidates)
{
    uint64_t weights[SSLM_BLOCK_IDS], part = UINT64_MAX;
    pass_blocks(candidates, &part, weights);
    return UINT64_MAX - part;
}

uint32_t TIERED(sslm_id_at_weight)(const sslm_candidates *candidates, uint64_t part)
{
    uint64_t weights[SSLM_BLOCK_IDS];
    uint32_t first = pass_blocks(candidates, &part, weights), n = 0;
    while (weights[n] <= part) part -= weights[n++];
    return first + n;
}

int32_t TIERED(sslm_draw)(sslm_candidates *candidates, const sslm_choice *choice, int32_t position)
{
    TIERED(sslm_keep_top_k)(candidates, (uint32_t)choice->top_k);
    TIERED(sslm_keep_top_p)(candidates, choice->top_p);
    TIERED(sslm_keep_min_p)(candidates, choice->min_p);
    uint64_t bits = random_bits(choice->seed, (uint32_t)position + 1);
    return (int32_t)TIERED(sslm_id_at_weight)(candidates, scaled(bits, TIERED(sslm_total_weight)(candidates)));
}
