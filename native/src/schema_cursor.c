/* Where an answer stands in a schema's automaton, and what it may go on with. */
#include <string.h>

#include "sslm_native.h"

uint32_t sslm_native_schema_step(const sslm_schema *schema, uint32_t state, int32_t token_id)
{
    const sslm_automaton *automaton = schema->automaton;
    uint32_t first = schema->token_offsets[token_id], last = schema->token_offsets[token_id + 1];
    // A token without bytes is no content, and leads nowhere.
    if (first == last) return SSLM_NO_STATE;
    for (uint32_t i = first; i < last && state != SSLM_NO_STATE; i++) {
        uint32_t byte_class = automaton->byte_classes[schema->token_bytes[i]];
        state = automaton->steps[(size_t)state * automaton->class_count + byte_class];
    }
    return state;
}

static const uint32_t *only_token(const sslm_schema *schema, int32_t token_id, uint32_t *mask)
{
    memset(mask, 0, schema->mask_words * sizeof *mask);
    mask[token_id / 32] = 1u << token_id % 32;
    return mask;
}

static void add_ends(const sslm_schema *schema, uint32_t state, uint32_t *mask)
{
    if (!schema->automaton->accepting[state]) return;
    for (uint32_t i = 0; i < schema->end_count; i++) mask[schema->end_ids[i] / 32] |= 1u << schema->end_ids[i] % 32;
}

static void clear_tokens(const sslm_token_trie *trie, uint32_t node, uint32_t *mask)
{
    uint32_t last = trie->first_ids[trie->ends[node]];
    for (uint32_t i = trie->first_ids[node]; i < last; i++)
        mask[trie->token_ids[i] / 32] &= ~(1u << trie->token_ids[i] % 32);
}

/* Take from the tokens of a state those after which more than remaining - 1 tokens would have to follow. What follows
 * a prefix is passed over where all of it fits, and not looked at one by one where nothing does; so of a long text
 * little more is gone through than what can end it. */
static void remove_unfitting(const sslm_schema *schema, uint32_t state, uint32_t remaining, uint32_t *path,
                             uint32_t *mask)
{
    const sslm_automaton *automaton = schema->automaton;
    const sslm_token_trie *trie = schema->trie;
    path[0] = state;
    for (uint32_t node = 0; node < trie->node_count;) {
        uint32_t depth = trie->depths[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)path[depth - 1] * automaton->class_count + byte_class];
        if (target == SSLM_NO_STATE || schema->farthest[trie->kinds[node]][target] < remaining) {
            node = trie->ends[node];
        } else if (trie->kinds[node] != SSLM_QUOTE && schema->nearest_in_text[target] >= remaining) {
            clear_tokens(trie, node, mask);
            node = trie->ends[node];
        } else {
            uint32_t last = schema->distances[target] < remaining ? 0 : trie->first_ids[node + 1];
            for (uint32_t i = trie->first_ids[node]; i < last; i++)
                mask[trie->token_ids[i] / 32] &= ~(1u << trie->token_ids[i] % 32);
            path[depth] = target;
            node++;
        }
    }
}

/* The same where every token must lead nearer to an end, which few do: they are gathered instead. */
static void add_fitting(const sslm_schema *schema, uint32_t state, uint32_t remaining, uint32_t *path, uint32_t *mask)
{
    const sslm_automaton *automaton = schema->automaton;
    const sslm_token_trie *trie = schema->trie;
    path[0] = state;
    for (uint32_t node = 0; node < trie->node_count;) {
        uint32_t depth = trie->depths[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)path[depth - 1] * automaton->class_count + byte_class];
        int is_in_text = trie->kinds[node] != SSLM_QUOTE;
        if (target == SSLM_NO_STATE || (is_in_text && schema->nearest_in_text[target] >= remaining)) {
            node = trie->ends[node];
            continue;
        }
        path[depth] = target;
        uint32_t last = schema->distances[target] < remaining ? trie->first_ids[node + 1] : 0;
        for (uint32_t i = trie->first_ids[node]; i < last; i++)
            mask[trie->token_ids[i] / 32] |= 1u << trie->token_ids[i] % 32;
        node++;
    }
}

static const uint32_t *fitting_tokens(const sslm_schema *schema, uint32_t state, uint32_t remaining, uint32_t *memory)
{
    uint32_t *path = memory + schema->mask_words;
    size_t size_bytes = schema->mask_words * sizeof *memory;
    if (remaining > schema->distances[state]) {
        memcpy(memory, schema->masks + (size_t)schema->mask_indices[state] * schema->mask_words, size_bytes);
        remove_unfitting(schema, state, remaining, path, memory);
        return memory;
    }
    memset(memory, 0, size_bytes);
    if (remaining > 0) add_fitting(schema, state, remaining, path, memory);
    add_ends(schema, state, memory);
    return memory;
}

const uint32_t *sslm_native_schema_mask(const sslm_schema *schema, uint32_t state, uint32_t remaining,
                                        uint32_t *memory)
{
    int32_t only = schema->only_tokens[state];
    // That of the only token is as near to an end as the state itself: it fits if anything does.
    if (only >= 0 && remaining > 0) return only_token(schema, only, memory);
    if (remaining <= schema->farthest[SSLM_QUOTE][state]) return fitting_tokens(schema, state, remaining, memory);
    return schema->masks + (size_t)schema->mask_indices[state] * schema->mask_words;
}
