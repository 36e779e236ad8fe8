/* Log-probabilities: docs/arithmetic.md 5.10. */
#include "choosing.h"
#include "ops.h"

/* log2(e) times 2^4: from the 20 fraction bits of a score to the 24 of an exponent of two. */
#define LOG2_E 1549082005
#define LOG2_E_SHIFT 26

#define LN_2 INT64_C(744261118)     /* with 30 fraction bits */
#define LOG2_BITS 28

/* ln(weight / 2^40) with the fraction bits of a score, for weights from 2^40 to 2^60. */
static int64_t log_weight(uint64_t weight)
{
    int32_t bits = bit_length(weight) - 1;
    uint64_t x = weight >> (bits - 31);
    int64_t log2 = bits - SSLM_WEIGHT_BITS;
    for (int32_t i = 0; i < LOG2_BITS; i++) {
        x = x * x >> 31;
        uint64_t is_two = x >> 32;
        x >>= is_two;
        log2 = 2 * log2 + (int64_t)is_two;
    }
    return rshift_round(log2 * LN_2, 30 + LOG2_BITS - SSLM_SCORE_BITS);
}

static int is_before(const int32_t *scores, int32_t one, int32_t other)
{
    return scores[one] > scores[other] || (scores[one] == scores[other] && one < other);
}

/* The first ids in order, sorted as they are found; return how many. */
static int32_t find_top(sslm_candidates *candidates, int32_t count, int32_t *ids)
{
    int32_t found = 0;
    if (count == 0) return 0;
    TIERED(sslm_keep_top_k)(candidates, (uint32_t)count);
    for (uint32_t id = 0; (id = TIERED(sslm_next_kept)(candidates, id)) < candidates->count; id++) {
        int32_t place = found++;
        for (; place > 0 && is_before(candidates->scores, (int32_t)id, ids[place - 1]); place--)
            ids[place] = ids[place - 1];
        ids[place] = (int32_t)id;
    }
    return found;
}

static int64_t logprob_of(const sslm_candidates *candidates, int32_t id, int64_t log_total)
{
    int32_t score = candidates->scores[id];
    return score == SSLM_SCORE_ABSENT ? INT64_MIN : (int64_t)score - candidates->largest - log_total;
}

int32_t TIERED(sslm_tell_logprobs)(sslm_logprobs *row, uint32_t vocab_size)
{
    sslm_candidates candidates;
    for (int32_t i = 0; i < row->id_count; i++)
        if (row->token_ids[i] < 0 || (uint32_t)row->token_ids[i] >= vocab_size) return SSLM_BAD_TOKEN;
    TIERED(sslm_score_logits)(row->logits, vocab_size, row->exponent, row->scores);
    TIERED(sslm_take_all)(&candidates, row->scores, vocab_size);
    int64_t log_total = 0;
    if (candidates.largest != SSLM_SCORE_ABSENT) {
        if (is_refused(candidates.largest)) return SSLM_BAD_LOGITS;
        TIERED(sslm_set_weighing)(&candidates, LOG2_E, LOG2_E_SHIFT);
        log_total = log_weight(TIERED(sslm_total_weight)(&candidates));
    }
    for (int32_t i = 0; i < row->id_count; i++)
        row->values[i] = logprob_of(&candidates, row->token_ids[i], log_total);
    row->top_count = find_top(&candidates, row->top_count, row->top_ids);
    for (int32_t i = 0; i < row->top_count; i++)
        row->top_values[i] = logprob_of(&candidates, row->top_ids[i], log_total);
    return SSLM_OK;
}
