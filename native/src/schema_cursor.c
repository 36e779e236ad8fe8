/* Where an answer stands in a schema's automaton, and what it may go on with. */
#include <string.h>

#include "sslm_native.h"
#include "text_tokens.h"

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

/* What is gone through for one mask. */
typedef struct {
    const sslm_schema *schema;
    const uint32_t *base;           /* of all that the state allows */
    uint32_t *mask;
    uint32_t *path;
    uint32_t state;
    uint32_t remaining;
} fit;

/* Add what the base has of the tokens from first to last, or take it away. */
static void change(const fit *fit, uint32_t first, uint32_t last, int is_adding)
{
    const int32_t *ids = fit->schema->trie->token_ids;
    for (uint32_t i = first; i < last; i++) {
        uint32_t word = (uint32_t)ids[i] / 32, bit = 1u << ids[i] % 32;
        if (is_adding)
            fit->mask[word] |= fit->base[word] & bit;
        else
            fit->mask[word] &= ~bit;
    }
}

/* Go through a section and change what fits, or what does not: as many tokens as change_max, then give up. What
 * follows a prefix is not looked at one by one where all of it fits, or nothing. Returns whether it went through. */
static int go_through(const fit *fit, uint32_t section, int is_adding, uint32_t change_max)
{
    const sslm_schema *schema = fit->schema;
    const sslm_automaton *automaton = schema->automaton;
    const sslm_token_trie *trie = schema->trie;
    uint32_t end = trie->section_nodes[section + 1], changed_count = 0;
    fit->path[0] = fit->state;
    for (uint32_t node = trie->section_nodes[section]; node < end;) {
        uint32_t depth = trie->depths[node], next = trie->ends[node], kind = trie->kinds[node];
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)fit->path[depth - 1] * automaton->class_count + byte_class];
        if (target == SSLM_NO_STATE) {
            node = next;
            continue;
        }
        int is_fitting = schema->farthest[kind][target] < fit->remaining;
        if (!is_fitting && schema->nearest[kind][target] < fit->remaining) {
            next = node + 1;
            is_fitting = schema->distances[target] < fit->remaining;
            fit->path[depth] = target;
        }
        if (is_fitting == is_adding) {
            changed_count += trie->first_ids[next] - trie->first_ids[node];
            if (changed_count > change_max) return 0;
            change(fit, trie->first_ids[node], trie->first_ids[next], is_adding);
        }
        node = next;
    }
    return 1;
}

static const uint32_t *section_mask(const fit *fit, uint32_t section)
{
    return fit->schema->trie->section_masks + (size_t)section * fit->schema->mask_words;
}

/* Leave of a section what fits. A few tokens are added to none, or few are taken from all. */
static void fit_section(const fit *fit, uint32_t section)
{
    const sslm_schema *schema = fit->schema;
    uint32_t kind = section == SSLM_SECTION_OTHER ? SSLM_MARK : SSLM_DIGIT, words = schema->mask_words;
    const uint32_t *members = section_mask(fit, section);
    if (schema->farthest[kind][fit->state] < fit->remaining) return;
    for (uint32_t i = 0; i < words; i++) fit->mask[i] &= ~members[i];
    if (schema->nearest[kind][fit->state] >= fit->remaining) return;
    if (go_through(fit, section, 1, words)) return;
    for (uint32_t i = 0; i < words; i++) fit->mask[i] |= fit->base[i] & members[i];
    go_through(fit, section, 0, SSLM_NO_STATE);
}

/* Leave of the tokens of texts what fits, and return 1; or return 0 where that does not depend on their lengths alone,
 * from some length on. */
static int fit_texts(const fit *fit)
{
    const sslm_schema *schema = fit->schema;
    uint32_t state = fit->state, least = 0;
    for (uint32_t length = 1; length <= schema->trie->depth_max; length++) {
        uint32_t target = schema->text_steps[state];
        if (target == SSLM_MANY_STATES) return 0;
        if (target == SSLM_NO_STATE) break;
        int is_fitting = schema->distances[target] < fit->remaining;
        if (is_fitting && least == 0) least = length;
        if (!is_fitting && least > 0) return 0;
        if (target == state) break;
        state = target;
    }
    if (least != 1) keep_from(schema->trie, least > 0 ? least : SSLM_NO_STATE, fit->base, fit->mask);
    return 1;
}

static const uint32_t *fitting_tokens(const sslm_schema *schema, uint32_t state, uint32_t remaining, uint32_t *memory)
{
    fit fit = {.schema = schema, .mask = memory, .state = state, .remaining = remaining};
    fit.base = schema->masks + (size_t)schema->mask_indices[state] * schema->mask_words;
    fit.path = memory + schema->mask_words;
    memcpy(memory, fit.base, schema->mask_words * sizeof *memory);
    for (uint32_t section = fit_texts(&fit) ? SSLM_SECTION_OTHER : 0; section < SSLM_SECTION_COUNT; section++)
        fit_section(&fit, section);
    return memory;
}

const uint32_t *sslm_native_schema_mask(const sslm_schema *schema, uint32_t state, uint32_t remaining,
                                        uint32_t *memory)
{
    int32_t only = schema->only_tokens[state];
    // That of the only token is as near to an end as the state itself: it fits if anything does.
    if (only >= 0 && remaining > 0) return only_token(schema, only, memory);
    if (schema->mask_indices[state] == SSLM_NO_STATE) {
        memset(memory, 0, schema->mask_words * sizeof *memory);
        return memory;
    }
    if (remaining <= schema->farthest[SSLM_MARK][state]) return fitting_tokens(schema, state, remaining, memory);
    return schema->masks + (size_t)schema->mask_indices[state] * schema->mask_words;
}
