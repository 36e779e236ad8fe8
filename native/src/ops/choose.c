/* choose: docs/arithmetic.md 3.11 and section 5. */
#include "choosing.h"
#include "ops.h"

/* The largest logit is found block by block, and its id in the first block that has it. */
#define BLOCK_IDS 512

/* Eight maxima at a time, since each waits for its last comparison. */
static int64_t largest_logit(const int64_t *logits, size_t count)
{
    int64_t largest[8];
    for (size_t j = 0; j < 8; j++) largest[j] = logits[0];
    size_t whole = count / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j++) largest[j] = logits[i + j] > largest[j] ? logits[i + j] : largest[j];
    for (size_t i = whole; i < count; i++) largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
    for (size_t j = 1; j < 8; j++) largest[0] = largest[j] > largest[0] ? largest[j] : largest[0];
    return largest[0];
}

/* -1 if there is none. */
static int32_t largest_id(const int64_t *logits, size_t count)
{
    size_t start_of_best = 0;
    int64_t best = INT64_MIN;
    for (size_t start = 0; start < count; start += BLOCK_IDS) {
        size_t rest = count - start;
        int64_t largest = largest_logit(logits + start, rest < BLOCK_IDS ? rest : BLOCK_IDS);
        if (largest > best) best = largest, start_of_best = start;
    }
    if (best == INT64_MIN) return -1;
    size_t id = start_of_best;
    while (logits[id] != best) id++;
    return (int32_t)id;
}

static int is_plain(const sslm_choice *choice)
{
    return choice == NULL
           || (choice->decoder == SSLM_DECODER_GREEDY && choice->bias_count == 0 && choice->repetition == SSLM_MICRO
               && choice->presence == 0 && choice->frequency == 0);
}

static int has_changes(const sslm_choice *choice)
{
    return choice->bias_count > 0 || choice->repetition != SSLM_MICRO || choice->presence != 0
           || choice->frequency != 0;
}

static int32_t choose_by_scores(const sslm_choice *choice, const int64_t *logits, int32_t exponent, uint32_t count,
                                int32_t position)
{
    sslm_candidates candidates;
    TIERED(sslm_score_logits)(logits, count, exponent, choice->scores);
    TIERED(sslm_take_all)(&candidates, choice->scores, count);
    if (candidates.largest == SSLM_SCORE_ABSENT) return SSLM_NONE_ALLOWED;
    if (is_refused(candidates.largest)) return SSLM_SCORE_REFUSED;
    if (has_changes(choice)) {
        TIERED(sslm_change_scores)(choice, position);
        TIERED(sslm_take_all)(&candidates, choice->scores, count);
    }
    if (choice->decoder == SSLM_DECODER_GREEDY) {
        candidates.floor = candidates.largest;
        return (int32_t)TIERED(sslm_next_kept)(&candidates, 0);
    }
    TIERED(sslm_set_weighing)(&candidates, choice->exponent_mantissa, choice->exponent_shift);
    return choice->decoder == SSLM_DECODER_SAMPLING ? TIERED(sslm_draw)(&candidates, choice, position)
                                                    : TIERED(sslm_damped)(&candidates, choice, position);
}

static void choose_row(const sslm_span *span, const sslm_row *place, size_t vocab_size)
{
    size_t row = (size_t)(place->index - span->first_logits_row);
    const int64_t *logits = span->logits + row * vocab_size;
    span->selected[row] = is_plain(span->choice) ? largest_id(logits, vocab_size)
                                                 : choose_by_scores(span->choice, logits, span->logit_exponents[row],
                                                                    (uint32_t)vocab_size, place->position);
}

void TIERED(sslm_choose)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    (void)thread;
    for (int32_t i = first; i < last; i++) {
        const sslm_row *place = &job->rows[job->picked[i]];
        const sslm_span *span = place->span;
        if (span->selected == NULL) continue;
        int32_t count = 1;
        if (!is_plain(span->choice)) {
            /* Rows that share the memory of a choice follow one another: the first one takes them all. */
            if (place->index != span->first_logits_row) continue;
            count = span->row_count - span->first_logits_row;
        }
        for (int32_t n = 0; n < count; n++) choose_row(span, place + n, (size_t)job->program->vocab_size);
    }
}
