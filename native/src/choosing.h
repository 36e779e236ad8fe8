/* What choosing a token has in common: docs/arithmetic.md, section 5. */
#ifndef SSLM_CHOOSING_H
#define SSLM_CHOOSING_H

#include "arithmetic.h"
#include "kernels.h"
#include "tier.h"
#include "weights.h"

#define SSLM_SCORE_BITS 20
#define SSLM_SCORE_ABSENT INT32_MIN

#define SSLM_MICRO 1000000

/* Largest scores are kept of so many parts of the vocabulary at most, which are made of blocks. */
#define SSLM_CHUNKS_MAX 512
#define SSLM_BLOCK_IDS 64

/* An exponent of two whose weight is nothing. */
#define SSLM_WEIGHTLESS (48u << SSLM_EXPONENT_BITS)

/* From how far a score lies below the largest one to its weight. */
typedef struct {
    uint64_t mantissa, half;
    int32_t shift;
    uint32_t reach;              /* the largest gap with a weight */
} sslm_weighing;

/* The ids that may be chosen: a beginning of all, ordered by score, the largest first, equal ones by id. */
typedef struct {
    const int32_t *scores;       /* [count] */
    uint32_t count;
    uint32_t chunk_ids, chunk_count;
    int32_t largest;
    int32_t floor;               /* Kept are larger scores, and equal ones up to the id last. */
    uint32_t last;
    sslm_weighing weighing;
    int32_t maxima[SSLM_CHUNKS_MAX];
} sslm_candidates;

/* Whether a largest score is where logits are cut off, so that others may have been larger. */
static inline int is_refused(int32_t largest)
{
    return largest == SSLM_INT32_MAX || largest == -SSLM_INT32_MAX;
}

static inline int is_kept(const sslm_candidates *candidates, uint32_t id)
{
    int32_t score = candidates->scores[id];
    return score > candidates->floor || (score == candidates->floor && id <= candidates->last);
}

static inline uint32_t high_product(uint32_t left, uint32_t right)
{
    return (uint32_t)((uint64_t)left * right >> 32);
}

/* 2^40 · 2^-t, for t below 42 and SSLM_WEIGHTLESS. */
static inline uint64_t weight_of_exponent(uint32_t t)
{
    uint32_t fraction = t << (32 - SSLM_EXPONENT_BITS), whole = t >> SSLM_EXPONENT_BITS;
    uint32_t h = SSLM_WEIGHT_7;
    h = SSLM_WEIGHT_6 - high_product(fraction, h);
    h = SSLM_WEIGHT_5 - high_product(fraction, h);
    h = SSLM_WEIGHT_4 - high_product(fraction, h);
    h = SSLM_WEIGHT_3 - high_product(fraction, h);
    h = SSLM_WEIGHT_2 - high_product(fraction, h);
    h = SSLM_WEIGHT_1 - high_product(fraction, h);
    uint64_t y = (UINT64_C(1) << SSLM_WEIGHT_BITS) - ((uint64_t)fraction * h >> (64 - SSLM_WEIGHT_BITS));
    return (y + ((UINT64_C(1) << whole) >> 1)) >> whole;
}

static inline uint64_t exponent_of_gap(const sslm_weighing *weighing, uint32_t gap)
{
    return (gap * weighing->mantissa + weighing->half) >> weighing->shift;
}

/* It never grows with the gap. */
static inline uint64_t weight_of_gap(const sslm_weighing *weighing, uint32_t gap)
{
    uint64_t exponent = exponent_of_gap(weighing, gap);
    uint32_t end = (SSLM_WEIGHT_BITS + 1) << SSLM_EXPONENT_BITS;
    return exponent < end ? weight_of_exponent((uint32_t)exponent) : 0;
}

static inline uint32_t gap_of(const sslm_candidates *candidates, int32_t score)
{
    return (uint32_t)candidates->largest - (uint32_t)score;
}

/* Round logits of an exponent to scores. */
void TIERED(sslm_score_logits)(const int64_t *logits, uint32_t count, int32_t exponent, int32_t *scores);

/* Change the scores of a row at a position as its choice says. */
void TIERED(sslm_change_scores)(const sslm_choice *choice, int32_t position);

/* All ids that are not absent, with the largest score. */
void TIERED(sslm_take_all)(sslm_candidates *candidates, const int32_t *scores, uint32_t count);

void TIERED(sslm_set_weighing)(sslm_candidates *candidates, int64_t mantissa, int32_t shift);

/* Keep fewer ids: the first ones, the first ones that have a part of the weight, those of a weight. */
void TIERED(sslm_keep_top_k)(sslm_candidates *candidates, uint32_t top_k);
void TIERED(sslm_keep_top_p)(sslm_candidates *candidates, int32_t top_p);
void TIERED(sslm_keep_min_p)(sslm_candidates *candidates, int32_t min_p);

/* The next id that is kept, from one on; count if there is none. */
uint32_t TIERED(sslm_next_kept)(const sslm_candidates *candidates, uint32_t id);

uint64_t TIERED(sslm_total_weight)(const sslm_candidates *candidates);

/* The first id, ascending, up to which the weights come to more than a part of their sum. */
uint32_t TIERED(sslm_id_at_weight)(const sslm_candidates *candidates, uint64_t part);

/* Weights of ids from first on, at most a block; of those that are not kept it is 0. */
void TIERED(sslm_weigh)(const sslm_candidates *candidates, uint32_t first, uint32_t count, uint64_t *weights);

/* What sampling chooses. */
int32_t TIERED(sslm_draw)(sslm_candidates *candidates, const sslm_choice *choice, int32_t position);

/* What damped greedy chooses. */
int32_t TIERED(sslm_damped)(sslm_candidates *candidates, const sslm_choice *choice, int32_t position);

#endif
