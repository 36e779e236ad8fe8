/* attention: docs/arithmetic.md 3.7. */
#include "arithmetic.h"
#include "attention.h"
#include "ops.h"

/* Of a row of int32 values. */
#define EXPONENT_MAX 17

/* One query head at one position, and where its keys and values lie. */
typedef struct {
    sslm_head_place keys;
    int32_t first_key;           /* visible positions */
    int32_t last_key;            /* included */
    int32_t *scores;             /* [positions from the first visible page on] */
} query_place;

typedef struct {
    int64_t numerators[SSLM_HEAD_DIM_MAX];
    int64_t denominator;
    int32_t exponent;            /* E: the largest of all visible values */
} weighted_sum;

static int32_t first_token(const query_place *at, int32_t page)
{
    return at->first_key > page * SSLM_PAGE_TOKENS ? at->first_key % SSLM_PAGE_TOKENS : 0;
}

static int32_t last_token(const query_place *at, int32_t page)
{
    int32_t rest = at->last_key + 1 - page * SSLM_PAGE_TOKENS;
    return rest < SSLM_PAGE_TOKENS ? rest : SSLM_PAGE_TOKENS;
}

/* Turn a page's sums of products into scores. A function of its own, since compilers make vectors of it
 * only where its pointers promise not to overlap. */
static __attribute__((noinline)) void shift_scores(const int64_t *restrict sums, const uint8_t *restrict exponents,
                                                   int32_t shift, int32_t *restrict scores)
{
    int32_t own[SSLM_PAGE_TOKENS];
    /* Where there is no key yet, there may be any number. */
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++)
        own[i] = shift - (exponents[i] < EXPONENT_MAX ? exponents[i] : EXPONENT_MAX);
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) scores[i] = (int32_t)clamp32(scale_shift_flat(sums[i], own[i]));
}

/* Steps 1 and 2: write the scores of all visible keys; return the largest. */
static int32_t score_keys(const query_place *at, const int16_t *query, int32_t query_exponent)
{
    int32_t keys = at->keys.job->op->state;
    int32_t shift = at->keys.job->op->heads.score_shift - query_exponent;
    int32_t first_page = at->first_key / SSLM_PAGE_TOKENS;
    int64_t sums[SSLM_PAGE_TOKENS] = {0};
    int32_t largest = -INT32_MAX;
    for (int32_t page = first_page; page <= at->last_key / SSLM_PAGE_TOKENS; page++) {
        int32_t first = first_token(at, page), last = last_token(at, page);
        int32_t *scores = at->scores + SSLM_PAGE_TOKENS * (page - first_page);
        const uint8_t *exponents = page_exponents(&at->keys, keys, page);
        TIERED(sslm_dot_keys)(query, page_codes(&at->keys, keys, page), at->keys.head_dim, first, last, sums);
        shift_scores(sums, exponents, shift, scores);
        for (int32_t token = first; token < last; token++) largest = scores[token] > largest ? scores[token] : largest;
    }
    return largest;
}

/* The distances of a page's tokens, and which of them are in a group. */
typedef struct {
    uint32_t distances[SSLM_PAGE_TOKENS];     /* t */
    uint32_t members[SSLM_PAGE_TOKENS];       /* 0, or all bits set */
} key_group;

/* Steps 3 to 5 for one group: add its part, if it has any, to the sums. Loops run over whole pages, so that
 * compilers turn them into vectors. */
static void weigh_group(const query_place *at, int32_t page, const key_group *group, weighted_sum *total)
{
    const int32_t *nodes = at->keys.job->program->pow2_nodes;
    int32_t values = at->keys.job->op->values;
    const uint8_t *exponents = page_exponents(&at->keys, values, page);
    uint32_t nearest = UINT32_MAX, exponent = 0, denominator = 0;
    int32_t first = SSLM_PAGE_TOKENS, last = 0;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t distance = group->distances[i] | ~group->members[i];
        uint32_t own = exponents[i] & group->members[i];
        int32_t before = group->members[i] != 0 ? i : SSLM_PAGE_TOKENS, after = group->members[i] != 0 ? i + 1 : 0;
        nearest = distance < nearest ? distance : nearest;
        exponent = own > exponent ? own : exponent;
        first = before < first ? before : first;
        last = after > last ? after : last;
    }
    if (nearest == UINT32_MAX) return;
    uint32_t weights[SSLM_PAGE_TOKENS], t[SSLM_PAGE_TOKENS], whole = nearest >> 16, lifts = 0;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) t[i] = group->distances[i] - (whole << 16);
    TIERED(sslm_pow2neg_page)(nodes, t, weights);
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t lift = (exponent - exponents[i]) & group->members[i];
        denominator += weights[i] & group->members[i];
        lifts |= lift;
        /* The cut keeps the sum from wrapping; it changes no power, as from there on all are 0. */
        t[i] = (t[i] < POW2_END ? t[i] : POW2_END) + (lift << 16);
    }
    if (lifts != 0) TIERED(sslm_pow2neg_page)(nodes, t, weights);
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) weights[i] &= group->members[i];
    total->denominator += rshift_round((int64_t)denominator << 7, (int32_t)whole);
    int32_t shift = (int32_t)whole + total->exponent - (int32_t)exponent;
    if (shift > 62) return;
    int64_t sums[SSLM_HEAD_DIM_MAX];
    const int16_t *codes = page_codes(&at->keys, values, page);
    TIERED(sslm_weigh_values)(weights, codes, at->keys.head_dim, first / 2, (last + 1) / 2, sums);
    int64_t half = (INT64_C(1) << shift) >> 1;
    for (int32_t d = 0; d < at->keys.head_dim; d++) total->numerators[d] += (sums[d] * 128 + half) >> shift;
}

static void weigh_page(const query_place *at, int32_t page, int32_t largest, weighted_sum *total)
{
    const int32_t *scores = at->scores + SSLM_PAGE_TOKENS * (page - at->first_key / SSLM_PAGE_TOKENS);
    int32_t first = first_token(at, page), last = last_token(at, page);
    key_group near, far;
    for (int32_t i = 0; i < SSLM_PAGE_TOKENS; i++) {
        uint32_t distance = (uint32_t)largest - (uint32_t)scores[i];
        uint32_t is_visible = i >= first && i < last ? UINT32_MAX : 0;
        near.distances[i] = far.distances[i] = distance;
        near.members[i] = distance < SSLM_FAR ? is_visible : 0;
        far.members[i] = distance < SSLM_FAR ? 0 : is_visible;
    }
    weigh_group(at, page, &near, total);
    weigh_group(at, page, &far, total);
}

/* Steps 6 and 7. Returns how many outputs had to be clamped. */
static uint64_t divide(const weighted_sum *total, int32_t head_dim, int32_t *out)
{
    int32_t bits = bit_length((uint64_t)total->denominator);
    uint64_t divisor = (uint64_t)scale_shift(total->denominator, bits - 31);
    int64_t reciprocal = (int64_t)div_round(UINT64_C(1) << 60, divisor);
    uint64_t saturated = 0;
    for (int32_t d = 0; d < head_dim; d++) {
        int64_t numerator = rshift_round(total->numerators[d], bits - 16);
        int64_t value = scale_shift(rshift_round(numerator * reciprocal, 31), 14 - total->exponent);
        int64_t kept = clamp32(value);
        saturated += kept != value;
        out[d] = (int32_t)kept;
    }
    return saturated;
}

static uint64_t attend(const query_place *at, const int32_t *x, int32_t *out)
{
    int16_t query[SSLM_HEAD_DIM_MAX];
    int32_t query_exponent = block_exponent_int32(x, at->keys.head_dim);
    for (int32_t d = 0; d < at->keys.head_dim; d++) query[d] = (int16_t)rshift_round(x[d], query_exponent);
    int32_t largest = score_keys(at, query, query_exponent);
    int32_t first_page = at->first_key / SSLM_PAGE_TOKENS, last_page = at->last_key / SSLM_PAGE_TOKENS;
    weighted_sum total = {.denominator = 0, .exponent = 0};
    for (int32_t page = first_page; page <= last_page; page++) {
        const uint8_t *exponents = page_exponents(&at->keys, at->keys.job->op->values, page);
        int32_t exponent = largest_exponent(exponents, first_token(at, page), last_token(at, page));
        total.exponent = exponent > total.exponent ? exponent : total.exponent;
    }
    for (int32_t page = first_page; page <= last_page; page++) weigh_page(at, page, largest, &total);
    return divide(&total, at->keys.head_dim, out);
}

static void attend_row(const sslm_job *job, size_t kv_head, int32_t row, sslm_thread *thread)
{
    const sslm_state *keys = &job->program->states[job->op->state];
    int32_t group = job->op->heads.head_count / keys->head_count;
    query_place at = {
        .keys = {.job = job, .span = job->rows[row].span, .kv_head = kv_head, .head_dim = keys->head_dim},
        .first_key = first_key(job, row),
        .last_key = job->rows[row].position,
        .scores = thread->scores,
    };
    for (int32_t head = (int32_t)kv_head * group; head < ((int32_t)kv_head + 1) * group; head++) {
        int32_t start = head * keys->head_dim;
        site_counts(job, thread)[row] +=
            attend(&at, int32_row(&job->source, row) + start, int32_row(&job->out, row) + start);
    }
}

void TIERED(sslm_attention)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    int32_t heads = job->program->states[job->op->state].head_count, item = 0;
    for (int32_t row = 0, count; row < job->row_count; row += count) {
        count = tile_row_count(job, row);
        for (int32_t head = 0; head < heads; head++, item++) {
            if (item < first || item >= last) continue;
            if (count >= SSLM_TILED_ROWS_MIN) {
                TIERED(sslm_attend_tile)(job, (size_t)head, row, count, thread);
            } else {
                for (int32_t i = row; i < row + count; i++) attend_row(job, (size_t)head, i, thread);
            }
        }
    }
}
