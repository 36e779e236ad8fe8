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

/* The tokens after which few enough complete the text: another mask than the schema's own one. */
static const uint32_t *fitting_tokens(const sslm_schema *schema, uint32_t state, uint32_t remaining, uint32_t *memory)
{
    uint32_t *mask = memory, *path = memory + schema->mask_words;
    memset(mask, 0, schema->mask_words * sizeof *mask);
    if (remaining > 0)
        sslm_native_token_mask(schema->automaton, schema->trie, state, schema->distances, remaining - 1, path, mask);
    if (!schema->automaton->accepting[state]) return mask;
    for (uint32_t i = 0; i < schema->end_count; i++) mask[schema->end_ids[i] / 32] |= 1u << schema->end_ids[i] % 32;
    return mask;
}

const uint32_t *sslm_native_schema_mask(const sslm_schema *schema, uint32_t state, uint32_t remaining,
                                        uint32_t *memory)
{
    int32_t only = schema->only_tokens[state];
    // That of the only token is as near to an end as the state itself: it fits if anything does.
    if (only >= 0 && remaining > 0) return only_token(schema, only, memory);
    if (remaining <= schema->farthest[state]) return fitting_tokens(schema, state, remaining, memory);
    return schema->masks + (size_t)schema->mask_indices[state] * schema->mask_words;
}

void sslm_native_farthest(const sslm_automaton *automaton, const uint32_t *distances, uint32_t byte_count,
                          uint32_t *farthest, uint32_t *memory)
{
    size_t size_bytes = automaton->state_count * sizeof *farthest;
    for (uint32_t state = 0; state < automaton->state_count; state++)
        farthest[state] = distances[state] == SSLM_NO_STATE ? 0 : distances[state];
    for (uint32_t i = 0, is_changed = 1; i < byte_count && is_changed; i++) {
        is_changed = 0;
        memcpy(memory, farthest, size_bytes);
        for (uint32_t state = 0; state < automaton->state_count; state++) {
            const uint32_t *steps = automaton->steps + (size_t)state * automaton->class_count;
            for (uint32_t j = 0; j < automaton->class_count; j++) {
                if (steps[j] == SSLM_NO_STATE || memory[steps[j]] <= farthest[state]) continue;
                farthest[state] = memory[steps[j]];
                is_changed = 1;
            }
        }
    }
}
