/* How few tokens complete a text, from each state of an automaton. */
#include <string.h>

#include "byte_kinds.h"
#include "sslm_native.h"

/* By how few bytes each state leads to one of the last states that were reached, those at the front of the queue.
 * Breadth first, backwards, up to the bytes of a token; returns how many were met. */
static uint32_t reach_backwards(const sslm_token_distances *job, int kind, uint32_t *needs, uint32_t found_count)
{
    const sslm_links *links = job->links;
    uint32_t *queue = job->queue, tail = found_count;
    memset(needs, 0xff, job->automaton->state_count * sizeof *needs);
    for (uint32_t i = 0; i < found_count; i++) needs[queue[i]] = 0;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t state = queue[head];
        if (needs[state] == job->trie->depth_max) break;
        uint32_t last = links->source_rows[SSLM_BYTE_KINDS * state + kind + 1];
        for (uint32_t i = links->source_rows[SSLM_BYTE_KINDS * state]; i < last; i++) {
            uint32_t source = links->sources[i];
            if (needs[source] != SSLM_NO_STATE) continue;
            needs[source] = needs[state] + 1;
            queue[tail++] = source;
        }
    }
    return tail;
}

/* By how few bytes each state does so from the next mark on, with it: behind as long a text as may be.
 * The queue holds the states that were met, the nearest first; stack is used on the way. */
static void reach_behind_texts(const sslm_token_distances *job, uint32_t met_count, uint32_t *stack)
{
    const sslm_links *links = job->links;
    uint32_t *needs = job->needs_behind;
    memset(needs, 0xff, job->automaton->state_count * sizeof *needs);
    for (uint32_t head = 0; head < met_count; head++) {
        uint32_t state = job->queue[head], need = job->needs[state] + 1, depth = 0;
        const uint32_t *ends = links->source_rows + (size_t)SSLM_BYTE_KINDS * state + SSLM_MARK;
        for (uint32_t i = ends[0]; i < ends[1]; i++) {
            if (needs[links->sources[i]] != SSLM_NO_STATE) continue;
            needs[links->sources[i]] = need;
            stack[depth++] = links->sources[i];
        }
        while (depth > 0) {
            uint32_t inner = stack[--depth];
            const uint32_t *texts = links->source_rows + (size_t)SSLM_BYTE_KINDS * inner;
            for (uint32_t i = texts[0]; i < texts[SSLM_MARK]; i++) {
                if (needs[links->sources[i]] != SSLM_NO_STATE) continue;
                needs[links->sources[i]] = need;
                stack[depth++] = links->sources[i];
            }
        }
    }
}

/* The states without a distance that may be one token away from the last ones that were reached. */
static uint32_t gather_candidates(const sslm_token_distances *job, uint32_t found_count, uint32_t tail_max)
{
    uint32_t count = 0;
    reach_backwards(job, SSLM_IN_TEXT, job->needs_in_text, found_count);
    uint32_t met_count = reach_backwards(job, SSLM_MARK, job->needs, found_count);
    reach_behind_texts(job, met_count, job->candidates);
    for (uint32_t i = found_count; i < met_count; i++) {
        uint32_t state = job->queue[i];
        if (job->distances[state] != SSLM_NO_STATE) continue;
        if (job->needs_in_text[state] == SSLM_NO_STATE && job->needs_behind[state] > tail_max) continue;
        job->candidates[count++] = state;
    }
    return count;
}

/* Whether some of the tokens that a prefix begins may get from a state to one of the last that were reached: one that
 * is long enough without a mark, or from one on. */
static int may_lead_on(const sslm_token_distances *job, uint32_t node, uint32_t state)
{
    return job->needs_in_text[state] <= job->trie->heights[node] || job->needs_behind[state] <= job->trie->tails[node];
}

/* Whether a token of a section leads to one of the last states that were reached. */
static int has_token_in(const sslm_token_distances *job, uint32_t section, uint32_t distance, uint64_t *checked_count)
{
    const sslm_automaton *automaton = job->automaton;
    const sslm_token_trie *trie = job->trie;
    for (uint32_t node = trie->section_nodes[section]; node < trie->section_nodes[section + 1];) {
        uint32_t depth = trie->depths[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)job->path[depth - 1] * automaton->class_count + byte_class];
        ++*checked_count;
        if (target == SSLM_NO_STATE || !may_lead_on(job, node, target)) {
            node = trie->ends[node];
            continue;
        }
        job->path[depth] = target;
        if (job->distances[target] == distance && trie->first_ids[node + 1] > trie->first_ids[node]) return 1;
        node++;
    }
    return 0;
}

static int has_token_to(const sslm_token_distances *job, uint32_t state, uint32_t distance, uint64_t *checked_count)
{
    job->path[0] = state;
    if (has_token_in(job, SSLM_SECTION_OTHER, distance, checked_count)) return 1;
    // Only the last section has marks.
    if (job->needs_in_text[state] == SSLM_NO_STATE) return 0;
    for (uint32_t section = 0; section < SSLM_SECTION_OTHER; section++)
        if (has_token_in(job, section, distance, checked_count)) return 1;
    return 0;
}

static int is_token_away(const sslm_token_distances *job, uint32_t state, uint32_t distance, uint64_t *checked_count)
{
    uint32_t only = job->only_targets[state];
    if (only != SSLM_NO_STATE) return job->distances[only] == distance - 1;
    return has_token_to(job, state, distance - 1, checked_count);
}

/* The most bytes that a token has from its first mark on. */
static uint32_t longest_tail(const sslm_token_trie *trie)
{
    uint32_t longest = 0;
    for (uint32_t node = 0; node < trie->node_count; node = trie->ends[node]) {
        uint32_t tail = byte_kind(trie->bytes[node]) == SSLM_MARK ? trie->heights[node] + 1u : trie->tails[node];
        if (tail > longest) longest = tail;
    }
    return longest;
}

int32_t sslm_native_token_distances(sslm_token_distances *job)
{
    const sslm_automaton *automaton = job->automaton;
    uint32_t *queue = job->queue, found_count = 0, tail_max = longest_tail(job->trie);
    uint64_t checked_count = 0;
    for (uint32_t state = 0; state < automaton->state_count; state++) {
        job->distances[state] = automaton->accepting[state] ? 0 : SSLM_NO_STATE;
        if (automaton->accepting[state]) queue[found_count++] = state;
    }
    for (uint32_t distance = 1; found_count > 0; distance++) {
        uint32_t candidate_count = gather_candidates(job, found_count, tail_max);
        // Each round looks at all states, also if it checks none.
        checked_count += automaton->state_count / 8;
        found_count = 0;
        for (uint32_t i = 0; i < candidate_count; i++) {
            job->last_state = job->candidates[i];
            if (checked_count > job->check_count_max) return SSLM_TOO_MUCH;
            if (is_token_away(job, job->candidates[i], distance, &checked_count))
                queue[found_count++] = job->candidates[i];
        }
        for (uint32_t i = 0; i < found_count; i++) job->distances[queue[i]] = distance;
    }
    return SSLM_OK;
}
