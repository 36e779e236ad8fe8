/* What tokens an automaton over bytes allows in each of its states, and how few of them complete a text. */
#include <string.h>

#include "sslm_native.h"

static uint32_t common_size(const uint8_t *a, uint32_t a_size, const uint8_t *b, uint32_t b_size)
{
    uint32_t size = 0;
    while (size < a_size && size < b_size && a[size] == b[size]) size++;
    return size;
}

uint32_t sslm_native_token_prefixes(const sslm_token_list *tokens, const sslm_token_prefixes *out)
{
    uint32_t node_count = 0, depth = 0;
    const uint8_t *last = NULL;
    for (uint32_t i = 0; i <= tokens->count; i++) {
        const uint8_t *token = tokens->bytes + tokens->offsets[i];
        uint32_t size = i < tokens->count ? tokens->offsets[i + 1] - tokens->offsets[i] : 0;
        uint32_t common = common_size(last, depth, token, size);
        for (; depth > common; depth--) {
            uint32_t node = out->path[depth], parent = out->path[depth - 1];
            out->ends[node] = node_count;
            if (depth > 1 && out->heights[parent] <= out->heights[node])
                out->heights[parent] = (uint16_t)(out->heights[node] + 1);
        }
        while (depth < size) {
            out->path[++depth] = node_count;
            out->bytes[node_count] = token[depth - 1];
            out->depths[node_count] = (uint16_t)depth;
            out->heights[node_count] = 0;
            out->first_ids[node_count++] = i;
        }
        last = token;
    }
    out->first_ids[node_count] = tokens->count;
    return node_count;
}

uint32_t sslm_native_token_mask(const sslm_automaton *automaton, const sslm_token_trie *trie, uint32_t state,
                                const uint32_t *distances, uint32_t remaining, uint32_t *path, uint32_t *mask)
{
    uint32_t allowed_count = 0;
    path[0] = state;
    for (uint32_t node = 0; node < trie->node_count;) {
        uint32_t depth = trie->depths[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)path[depth - 1] * automaton->class_count + byte_class];
        if (target == SSLM_NO_STATE) {
            node = trie->ends[node];
            continue;
        }
        path[depth] = target;
        uint32_t first = trie->first_ids[node], last = trie->first_ids[node + 1];
        if (distances[target] > remaining) last = first;
        for (uint32_t i = first; i < last; i++) mask[trie->token_ids[i] / 32] |= 1u << trie->token_ids[i] % 32;
        allowed_count += last - first;
        node++;
    }
    return allowed_count;
}

static uint64_t hash_of(const sslm_automaton *automaton, const uint32_t *groups, uint32_t state)
{
    const uint32_t *steps = automaton->steps + (size_t)state * automaton->class_count;
    uint64_t hash = groups[state] + 1;
    for (uint32_t i = 0; i < automaton->class_count; i++) {
        uint64_t group = steps[i] == SSLM_NO_STATE ? 0 : (uint64_t)groups[steps[i]] + 1;
        hash = (hash ^ group) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static int is_alike(const sslm_automaton *automaton, const uint32_t *groups, uint32_t a, uint32_t b)
{
    const uint32_t *steps_a = automaton->steps + (size_t)a * automaton->class_count;
    const uint32_t *steps_b = automaton->steps + (size_t)b * automaton->class_count;
    if (groups[a] != groups[b]) return 0;
    for (uint32_t i = 0; i < automaton->class_count; i++) {
        if ((steps_a[i] == SSLM_NO_STATE) != (steps_b[i] == SSLM_NO_STATE)) return 0;
        if (steps_a[i] != SSLM_NO_STATE && groups[steps_a[i]] != groups[steps_b[i]]) return 0;
    }
    return 1;
}

/* Tell apart what one byte more tells apart; groups are numbered by their first states. Returns how many there are. */
static uint32_t refine(const sslm_automaton *automaton, const uint32_t *groups, uint32_t *finer, uint32_t *table,
                       uint32_t slot_count)
{
    uint32_t group_count = 0;
    memset(table, 0xff, slot_count * sizeof *table);
    for (uint32_t state = 0; state < automaton->state_count; state++) {
        uint32_t slot = (uint32_t)hash_of(automaton, groups, state) & (slot_count - 1);
        while (table[slot] != SSLM_NO_STATE && !is_alike(automaton, groups, table[slot], state))
            slot = (slot + 1) & (slot_count - 1);
        if (table[slot] == SSLM_NO_STATE) {
            table[slot] = state;
            finer[state] = group_count++;
        } else {
            finer[state] = finer[table[slot]];
        }
    }
    return group_count;
}

uint32_t sslm_native_alike_states(const sslm_automaton *automaton, uint32_t byte_count, uint32_t *groups,
                                  uint32_t *memory, uint32_t slot_count)
{
    uint32_t *finer = memory, *table = memory + automaton->state_count;
    uint32_t group_count = 1;
    memset(groups, 0, automaton->state_count * sizeof *groups);
    for (uint32_t i = 0; i < byte_count; i++) {
        uint32_t finer_count = refine(automaton, groups, finer, table, slot_count);
        memcpy(groups, finer, automaton->state_count * sizeof *groups);
        if (finer_count == group_count) break;
        group_count = finer_count;
    }
    return group_count;
}

/* The states from which some of the last ones that were reached can be reached by few bytes: the only ones that may be
 * one token away. Breadth first, backwards; marks[state] is the round in which a state was met, needs[state]
 * by how many bytes. */
static uint32_t gather_candidates(const sslm_token_distances *job, uint32_t round, uint32_t found_count)
{
    uint32_t *queue = job->queue, count = 0, tail = found_count;
    for (uint32_t i = 0; i < found_count; i++) {
        job->marks[queue[i]] = round;
        job->needs[queue[i]] = 0;
    }
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t state = queue[head];
        if (job->needs[state] == job->trie->depth_max) break;
        for (uint32_t i = job->source_rows[state]; i < job->source_rows[state + 1]; i++) {
            uint32_t source = job->sources[i];
            if (job->marks[source] == round) continue;
            job->marks[source] = round;
            job->needs[source] = job->needs[state] + 1;
            queue[tail++] = source;
            if (job->distances[source] == SSLM_NO_STATE) job->candidates[count++] = source;
        }
    }
    return count;
}

/* Whether a token leads to one of the last states that were reached. Prefixes behind which no token is long enough to
 * get there are left, which are most of those of a long text whose end is near in tokens only. */
static int has_token_to(const sslm_token_distances *job, uint32_t state, uint32_t round, uint32_t distance)
{
    const sslm_automaton *automaton = job->automaton;
    const sslm_token_trie *trie = job->trie;
    job->path[0] = state;
    for (uint32_t node = 0; node < trie->node_count;) {
        uint32_t depth = trie->depths[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)job->path[depth - 1] * automaton->class_count + byte_class];
        if (target == SSLM_NO_STATE || job->marks[target] != round || job->needs[target] > trie->heights[node]) {
            node = trie->ends[node];
            continue;
        }
        job->path[depth] = target;
        if (job->distances[target] == distance && trie->first_ids[node + 1] > trie->first_ids[node]) return 1;
        node++;
    }
    return 0;
}

static int is_token_away(const sslm_token_distances *job, uint32_t state, uint32_t distance)
{
    uint32_t only = job->only_targets[state];
    if (only != SSLM_NO_STATE) return job->distances[only] == distance - 1;
    return has_token_to(job, state, distance, distance - 1);
}

int32_t sslm_native_token_distances(const sslm_token_distances *job)
{
    const sslm_automaton *automaton = job->automaton;
    uint32_t *queue = job->queue, found_count = 0, checked_count = 0;
    for (uint32_t state = 0; state < automaton->state_count; state++) {
        job->marks[state] = 0;
        job->distances[state] = automaton->accepting[state] ? 0 : SSLM_NO_STATE;
        if (automaton->accepting[state]) queue[found_count++] = state;
    }
    for (uint32_t distance = 1; found_count > 0; distance++) {
        uint32_t candidate_count = gather_candidates(job, distance, found_count);
        found_count = 0;
        for (uint32_t i = 0; i < candidate_count; i++) {
            if (++checked_count > job->check_count_max) return SSLM_TOO_MUCH;
            if (is_token_away(job, job->candidates[i], distance)) queue[found_count++] = job->candidates[i];
        }
        for (uint32_t i = 0; i < found_count; i++) job->distances[queue[i]] = distance;
    }
    return SSLM_OK;
}
