/* What tokens an automaton over bytes allows in each of its states. */
#include "sslm_native.h"
#include "text_tokens.h"

static void set_tokens(const sslm_token_trie *trie, uint32_t first_node, uint32_t last_node, uint32_t *mask)
{
    uint32_t last = trie->first_ids[last_node];
    for (uint32_t i = trie->first_ids[first_node]; i < last; i++)
        mask[trie->token_ids[i] / 32] |= 1u << trie->token_ids[i] % 32;
}

/* Go through a section. What follows a prefix of texts is not looked at one by one where all of it is allowed. */
static void go_through(const sslm_automaton *automaton, const sslm_token_trie *trie, uint32_t section,
                       const uint32_t *distances, const uint8_t *rooms, uint32_t *path, uint32_t *mask)
{
    uint32_t end = trie->section_nodes[section + 1];
    for (uint32_t node = trie->section_nodes[section]; node < end;) {
        uint32_t depth = trie->depths[node], next = node + 1;
        uint32_t byte_class = automaton->byte_classes[trie->bytes[node]];
        uint32_t target = automaton->steps[(size_t)path[depth - 1] * automaton->class_count + byte_class];
        if (target == SSLM_NO_STATE) {
            node = trie->ends[node];
            continue;
        }
        path[depth] = target;
        if (rooms && section != SSLM_SECTION_OTHER && rooms[target] >= trie->heights[node]) next = trie->ends[node];
        if (distances[target] != SSLM_NO_STATE) set_tokens(trie, node, next, mask);
        node = next;
    }
}

/* Set the tokens of texts where every character leads to one state, and return 1; or return 0. */
static int set_texts(const sslm_token_trie *trie, const uint32_t *text_steps, uint32_t state, uint32_t *mask)
{
    uint32_t length = 0, length_max = trie->depth_max;
    for (; length < length_max && state != SSLM_NO_STATE; length++) {
        uint32_t target = text_steps[state];
        if (target == SSLM_MANY_STATES) return 0;
        if (target == state) length = length_max - 1;
        if (target == SSLM_NO_STATE) break;
        state = target;
    }
    add_up_to(trie, length, mask);
    return 1;
}

void sslm_native_token_mask(const sslm_automaton *automaton, const sslm_token_trie *trie, uint32_t state,
                            const uint32_t *distances, const uint32_t *text_steps, const uint8_t *rooms,
                            uint32_t *path, uint32_t *mask)
{
    uint32_t first = text_steps && set_texts(trie, text_steps, state, mask) ? SSLM_SECTION_OTHER : 0;
    path[0] = state;
    for (uint32_t section = first; section < SSLM_SECTION_COUNT; section++)
        go_through(automaton, trie, section, distances, rooms, path, mask);
}
