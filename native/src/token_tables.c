/* What tokens an automaton over bytes allows in each of its states, and how few of them complete a text. */
#include <string.h>

#include "byte_kinds.h"
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
        uint32_t token_size = i < tokens->count ? tokens->offsets[i + 1] - tokens->offsets[i] : 0;
        uint32_t common = common_size(last, depth, token, token_size);
        for (; depth > common; depth--) {
            uint32_t node = out->path[depth], parent = out->path[depth - 1];
            out->ends[node] = node_count;
            if (depth == 1) continue;
            uint32_t size = out->heights[node] + 1u, tail = out->bytes[node] == '"' ? size : out->tails[node];
            if (out->heights[parent] < size) out->heights[parent] = (uint16_t)size;
            uint8_t kind = byte_kind(out->bytes[node]);
            if (kind < out->kinds[node]) kind = out->kinds[node];
            if (out->kinds[parent] < kind) out->kinds[parent] = kind;
            if (out->tails[parent] < tail) out->tails[parent] = (uint16_t)tail;
        }
        while (depth < token_size) {
            out->path[++depth] = node_count;
            out->bytes[node_count] = token[depth - 1];
            out->depths[node_count] = (uint16_t)depth;
            out->heights[node_count] = 0;
            out->tails[node_count] = 0;
            out->kinds[node_count] = SSLM_PLAIN;
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

