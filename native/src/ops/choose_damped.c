/* Damped greedy: docs/arithmetic.md 5.9. */
#include "choosing.h"

#define DAMPING_BITS 15
#define SHARE_ONE (1 << DAMPING_BITS)
#define SHARE_DECAY 29491

/* An answer, and how often its last tokens were followed by something before. */
typedef struct {
    const int32_t *ids;          /* [count] */
    int32_t count;
    int32_t order_max;
    int32_t order_count;         /* orders that count: 1 … order_count */
    int32_t totals[SSLM_DAMPING_ORDER_MAX + 1];
    int32_t shares[SSLM_DAMPING_ORDER_MAX + 1];
} history;

/* The highest order whose context, the last tokens, lies before the token of an index, too. */
static int32_t order_before(const history *answer, int32_t index)
{
    const int32_t *ids = answer->ids, *end = ids + answer->count;
    int32_t order = 1;
    while (order < answer->order_max && order <= index && ids[index - order] == end[-order]) order++;
    return order;
}

static void count_contexts(history *answer)
{
    for (int32_t order = 0; order <= answer->order_max; order++) answer->totals[order] = 0;
    for (int32_t i = 0; i < answer->count; i++) answer->totals[order_before(answer, i)]++;
    for (int32_t order = answer->order_max; order > 1; order--) answer->totals[order - 1] += answer->totals[order];
    answer->order_count = 0;
    while (answer->order_count < answer->order_max && answer->totals[answer->order_count + 1] > 0)
        answer->order_count++;
}

/* Share SHARE_ONE among the orders; what the divisions lose goes to the highest. */
static void share_out(history *answer)
{
    int64_t sum = 0, power = SHARE_ONE, shared = 0;
    for (int32_t order = answer->order_max; order >= 1; order--) {
        answer->shares[order] = (int32_t)power;
        if (order <= answer->order_count) sum += power;
        power = power * SHARE_DECAY >> DAMPING_BITS;
    }
    for (int32_t order = 1; order < answer->order_count; order++) {
        answer->shares[order] = (int32_t)(((int64_t)answer->shares[order] << DAMPING_BITS) / sum);
        shared += answer->shares[order];
    }
    answer->shares[answer->order_count] = (int32_t)(SHARE_ONE - shared);
}

/* How likely the answer so far makes a token, of SHARE_ONE. */
static int64_t likelihood(const history *answer, int32_t token_id)
{
    int32_t counts[SSLM_DAMPING_ORDER_MAX + 1] = {0};
    for (int32_t i = 0; i < answer->count; i++)
        if (answer->ids[i] == token_id) counts[order_before(answer, i)]++;
    for (int32_t order = answer->order_count; order > 1; order--) counts[order - 1] += counts[order];
    int64_t sum = 0;
    for (int32_t order = 1; order <= answer->order_count; order++) {
        int64_t part = ((int64_t)counts[order] << DAMPING_BITS) / answer->totals[order];
        sum += answer->shares[order] * part >> DAMPING_BITS;
    }
    return sum;
}

static void read_history(history *answer, const sslm_choice *choice, int32_t position)
{
    int32_t count = position + 1 - choice->answer_start;
    answer->ids = choice->token_ids + choice->answer_start;
    answer->count = count > 0 ? count : 0;
    answer->order_max = choice->damping_order;
    count_contexts(answer);
    share_out(answer);
}

static int is_seen(const uint32_t *seen, uint32_t id)
{
    return seen[id / 32] >> id % 32 & 1;
}

int32_t TIERED(sslm_damped)(sslm_candidates *candidates, const sslm_choice *choice, int32_t position)
{
    history answer;
    read_history(&answer, choice, position);
    for (int32_t i = 0; i < answer.count; i++) {
        uint32_t id = (uint32_t)answer.ids[i];
        choice->seen[id / 32] |= 1u << id % 32;
    }
    TIERED(sslm_keep_top_k)(candidates, (uint32_t)choice->top_k);
    int64_t total = (int64_t)TIERED(sslm_total_weight)(candidates), best = INT64_MIN;
    uint32_t best_id = 0;
    for (uint32_t id = 0; (id = TIERED(sslm_next_kept)(candidates, id)) < candidates->count; id++) {
        uint64_t weight = weight_of_gap(&candidates->weighing, gap_of(candidates, candidates->scores[id]));
        int64_t score = (int64_t)(weight << DAMPING_BITS) / total;
        /* No penalty makes it larger. */
        if (score <= best) continue;
        if (is_seen(choice->seen, id)) score -= choice->damping * likelihood(&answer, (int32_t)id) >> DAMPING_BITS;
        if (score > best) best = score, best_id = id;
    }
    for (int32_t i = 0; i < answer.count; i++) choice->seen[(uint32_t)answer.ids[i] / 32] = 0;
    return (int32_t)best_id;
}
