/* Keeping the first candidates of all: docs/arithmetic.md 5.5 to 5.7.
 *
 * Nothing is sorted. Gaps below the largest score are cut into ranges whose values are added up, then the range in
 * which a sum is reached, until a range is one score. */
#include "choosing.h"
#include "rows.h"

#include <string.h>

#define RANGE_BITS 11
#define RANGES (1 << RANGE_BITS)

static int32_t largest_score(const int32_t *scores, uint32_t count)
{
    int32_t largest = INT32_MIN;
    for (uint32_t i = 0; i < count; i++) largest = scores[i] > largest ? scores[i] : largest;
    return largest;
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

void TIERED(sslm_take_all)(sslm_candidates *candidates, const int32_t *scores, uint32_t count)
{
    uint32_t blocks = (count + SSLM_BLOCK_IDS - 1) / SSLM_BLOCK_IDS;
    uint32_t chunk_ids = (blocks + SSLM_CHUNKS_MAX - 1) / SSLM_CHUNKS_MAX * SSLM_BLOCK_IDS;
    candidates->scores = scores;
    candidates->count = count;
    candidates->chunk_ids = chunk_ids;
    candidates->chunk_count = (count + chunk_ids - 1) / chunk_ids;
    for (uint32_t chunk = 0; chunk < candidates->chunk_count; chunk++) {
        uint32_t first = chunk * chunk_ids;
        candidates->maxima[chunk] = largest_score(scores + first, least(chunk_ids, count - first));
    }
    candidates->largest = largest_score(candidates->maxima, candidates->chunk_count);
    candidates->floor = SSLM_SCORE_ABSENT + 1;
    candidates->last = count;
}

/* The largest gap of at least a weight, which is not above that of no gap. */
static uint32_t reach_of(const sslm_weighing *weighing, uint64_t weight)
{
    uint32_t low = 0, high = UINT32_MAX;
    while (low < high) {
        uint32_t middle = high - (high - low) / 2;
        if (weight_of_gap(weighing, middle) >= weight) low = middle;
        else high = middle - 1;
    }
    return low;
}

void TIERED(sslm_set_weighing)(sslm_candidates *candidates, int64_t mantissa, int32_t shift)
{
    sslm_weighing *weighing = &candidates->weighing;
    weighing->mantissa = (uint64_t)mantissa;
    weighing->half = (UINT64_C(1) << shift) >> 1;
    weighing->shift = shift;
    weighing->reach = reach_of(weighing, 1);
}

void TIERED(sslm_weigh)(const sslm_candidates *candidates, uint32_t first, uint32_t count, uint64_t *weights)
{
    uint32_t exponents[SSLM_BLOCK_IDS] = {0};
    const int32_t *scores = candidates->scores + first;
    sslm_weighing weighing = candidates->weighing;
    int32_t floor = candidates->floor;
    uint32_t largest = (uint32_t)candidates->largest, last = candidates->last;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t gap = largest - (uint32_t)scores[n];
        uint32_t exponent = (uint32_t)((gap * weighing.mantissa + weighing.half) >> weighing.shift);
        int is_in = (scores[n] > floor) | ((scores[n] == floor) & (first + n <= last));
        exponents[n] = (is_in & (gap <= weighing.reach)) ? exponent : SSLM_WEIGHTLESS;
    }
    uint32_t done = (uint32_t)TIERED(sslm_weigh_lanes)(exponents, (int32_t)count, weights);
    for (uint32_t n = done; n < count; n++) weights[n] = weight_of_exponent(exponents[n]);
}

/* What is added up: weights, or how many ids there are. */
static void value_block(const sslm_candidates *candidates, int is_weighted, uint32_t first, uint32_t count,
                        uint64_t *values)
{
    if (is_weighted) TIERED(sslm_weigh)(candidates, first, count, values);
    else
        for (uint32_t n = 0; n < count; n++) values[n] = (uint64_t)is_kept(candidates, first + n);
}

/* Of each id of a block, which range of 2^shift gaps between low and high it lies in, or RANGES; whether any does. */
static int find_ranges(const sslm_candidates *candidates, uint32_t first, uint32_t count, uint32_t low, uint32_t high,
                       int32_t shift, uint32_t *ranges)
{
    const int32_t *scores = candidates->scores + first;
    uint32_t largest = (uint32_t)candidates->largest, found = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t behind = largest - (uint32_t)scores[n] - low, is_in = behind <= high - low;
        ranges[n] = is_in ? behind >> shift : RANGES;
        found |= is_in;
    }
    return found != 0;
}

/* Add up the values of gaps low … high by ranges of 2^shift of them, and those of others behind. */
static void add_up(const sslm_candidates *candidates, int is_weighted, uint32_t low, uint32_t high, int32_t shift,
                   uint64_t *sums)
{
    uint64_t values[SSLM_BLOCK_IDS];
    uint32_t ranges[SSLM_BLOCK_IDS];
    memset(sums, 0, (RANGES + 1) * sizeof *sums);
    for (uint32_t first = 0; first < candidates->count; first += SSLM_BLOCK_IDS) {
        if (gap_of(candidates, candidates->maxima[first / candidates->chunk_ids]) > high) {
            first = (first / candidates->chunk_ids + 1) * candidates->chunk_ids - SSLM_BLOCK_IDS;
            continue;
        }
        uint32_t count = least(SSLM_BLOCK_IDS, candidates->count - first);
        if (!find_ranges(candidates, first, count, low, high, shift, ranges)) continue;
        value_block(candidates, is_weighted, first, count, values);
        for (uint32_t n = 0; n < count; n++) sums[ranges[n]] += values[n];
    }
}

/* The id of the n-th of the ids with a score, from the first on. */
static uint32_t find_tie(const sslm_candidates *candidates, int32_t score, uint64_t n)
{
    for (uint32_t chunk = 0; chunk < candidates->chunk_count; chunk++) {
        if (candidates->maxima[chunk] < score) continue;
        uint32_t first = chunk * candidates->chunk_ids;
        uint32_t end = least(first + candidates->chunk_ids, candidates->count);
        for (uint32_t id = first; id < end; id++)
            if (candidates->scores[id] == score && --n == 0) return id;
    }
    return candidates->count;
}

/* A part of what is added up, rounded up. */
static uint64_t part_of(const uint64_t *sums, uint64_t micro)
{
    uint64_t total = 0;
    for (uint32_t range = 0; range < RANGES; range++) total += sums[range];
    return total / SSLM_MICRO * micro + (total % SSLM_MICRO * micro + SSLM_MICRO - 1) / SSLM_MICRO;
}

/* Keep the shortest beginning of so many ids, which there are; or, where top_p is not 0, of that part of the weight. */
static void keep_beginning(sslm_candidates *candidates, uint64_t sum, uint32_t top_p)
{
    uint64_t sums[RANGES + 1];
    int is_weighted = top_p != 0;
    uint32_t low = 0, high = gap_of(candidates, candidates->floor);
    if (is_weighted) high = least(high, candidates->weighing.reach);
    for (int32_t shift = 32; shift > 0;) {
        int is_first = shift == 32;
        shift = bit_length(high - low) - RANGE_BITS;
        if (shift < 0) shift = 0;
        add_up(candidates, is_weighted, low, high, shift, sums);
        if (is_weighted && is_first) sum = part_of(sums, top_p);
        uint32_t range = 0;
        while (sums[range] < sum) sum -= sums[range++];
        low += range << shift;
        high = least(high, low + ((1u << shift) - 1));
    }
    uint64_t value = is_weighted ? weight_of_gap(&candidates->weighing, low) : 1;
    candidates->floor = (int32_t)(candidates->largest - (int64_t)low);
    candidates->last = find_tie(candidates, candidates->floor, (sum + value - 1) / value);
}

static uint32_t count_chunks(const sslm_candidates *candidates, int32_t score)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < candidates->chunk_count; i++) count += candidates->maxima[i] >= score;
    return count;
}

static uint64_t count_kept(const sslm_candidates *candidates)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < candidates->count; id++) count += (uint64_t)is_kept(candidates, id);
    return count;
}

void TIERED(sslm_keep_top_k)(sslm_candidates *candidates, uint32_t top_k)
{
    if (top_k == 0 || top_k >= candidates->count) return;
    int64_t low = candidates->floor, high = candidates->largest;
    /* So many chunks have a score as large as one of these, so that the last id to keep has, too. */
    while (low < high) {
        int64_t middle = high - (high - low) / 2;
        if (count_chunks(candidates, (int32_t)middle) >= top_k) low = middle;
        else high = middle - 1;
    }
    candidates->floor = (int32_t)low;
    if (low == SSLM_SCORE_ABSENT + 1 && count_kept(candidates) <= top_k) return;
    keep_beginning(candidates, top_k, 0);
}

void TIERED(sslm_keep_top_p)(sslm_candidates *candidates, int32_t top_p)
{
    if (top_p < SSLM_MICRO) keep_beginning(candidates, 0, (uint32_t)top_p);
}

void TIERED(sslm_keep_min_p)(sslm_candidates *candidates, int32_t min_p)
{
    if (min_p <= 0) return;
    uint64_t weight = (((uint64_t)min_p << SSLM_WEIGHT_BITS) + SSLM_MICRO - 1) / SSLM_MICRO;
    int64_t floor = (int64_t)candidates->largest - reach_of(&candidates->weighing, weight);
    if (floor <= candidates->floor) return;
    candidates->floor = (int32_t)floor;
    candidates->last = candidates->count;
}
