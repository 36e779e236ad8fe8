/* Logits as scores, with bias and penalties: docs/arithmetic.md 5.1 to 5.3. */
#include "choosing.h"

void TIERED(sslm_score_logits)(const int64_t *logits, uint32_t count, int32_t exponent, int32_t *scores)
{
    int32_t shift = -(exponent + SSLM_SCORE_BITS);
    if (shift >= 0) {
        if (shift > 63) shift = 63;
        int64_t half = (int64_t)((UINT64_C(1) << shift) >> 1);
        for (uint32_t id = 0; id < count; id++) {
            int64_t logit = logits[id];
            int32_t score = (int32_t)clamp32((logit + half) >> shift);
            scores[id] = logit == INT64_MIN ? SSLM_SCORE_ABSENT : score;
        }
        return;
    }
    /* What is not 0 is beyond every score if it is shifted further. */
    int64_t factor = INT64_C(1) << (shift < -31 ? 31 : -shift), end = INT64_C(1) << 31;
    for (uint32_t id = 0; id < count; id++) {
        int64_t logit = logits[id], near = logit > end ? end : logit < -end ? -end : logit;
        scores[id] = logit == INT64_MIN ? SSLM_SCORE_ABSENT : (int32_t)clamp32(near * factor);
    }
}

static void add_to_score(int32_t *score, int64_t added)
{
    if (*score != SSLM_SCORE_ABSENT) *score = (int32_t)clamp32(*score + added);
}

static int64_t divide_round(int64_t a, int64_t d)
{
    int64_t doubled = 2 * a + d, quotient = doubled / (2 * d);
    return quotient - (doubled % (2 * d) < 0);
}

static int32_t repeated(int32_t score, int64_t repetition)
{
    if (score == SSLM_SCORE_ABSENT) return score;
    int64_t changed = score > 0 ? divide_round((int64_t)score * SSLM_MICRO, repetition)
                                : divide_round((int64_t)score * repetition, SSLM_MICRO);
    return (int32_t)clamp32(changed);
}

/* Whether an id is seen for the first time. */
static int is_new(uint32_t *seen, uint32_t id)
{
    uint32_t bit = 1u << id % 32;
    int was_seen = (seen[id / 32] & bit) != 0;
    seen[id / 32] |= bit;
    return !was_seen;
}

static void forget(uint32_t *seen, const int32_t *ids, int32_t first, int32_t last)
{
    for (int32_t i = first; i < last; i++) seen[(uint32_t)ids[i] / 32] = 0;
}

void TIERED(sslm_change_scores)(const sslm_choice *choice, int32_t position)
{
    int32_t *scores = choice->scores;
    const int32_t *ids = choice->token_ids;
    int32_t end = position + 1, start = choice->answer_start;
    for (int32_t i = 0; i < choice->bias_count; i++) add_to_score(&scores[choice->bias_ids[i]], choice->biases[i]);
    if (choice->repetition != SSLM_MICRO) {
        for (int32_t i = 0; i < end; i++)
            if (is_new(choice->seen, (uint32_t)ids[i])) scores[ids[i]] = repeated(scores[ids[i]], choice->repetition);
        forget(choice->seen, ids, 0, end);
    }
    if (choice->frequency != 0)
        for (int32_t i = start; i < end; i++) add_to_score(&scores[ids[i]], -(int64_t)choice->frequency);
    if (choice->presence != 0) {
        for (int32_t i = start; i < end; i++)
            if (is_new(choice->seen, (uint32_t)ids[i])) add_to_score(&scores[ids[i]], -(int64_t)choice->presence);
        forget(choice->seen, ids, start, end);
    }
}
