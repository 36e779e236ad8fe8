/* Which states of an automaton allow the same tokens. */
#include <string.h>

#include "sslm_native.h"

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

/* The states that are looked at in a round, and the arrays they are sorted with. */
typedef struct {
    uint32_t *states;               /* [state_count]: looked at; afterwards those that changed */
    uint32_t *kinds;                /* [state_count]: which kind the i-th of them is */
    uint32_t *numbers;              /* [state_count]: of each kind, its new group */
    uint32_t *sizes;                /* [state_count]: of each group, its states, */
    uint32_t *seen_sizes;           /* [state_count]: and how many of them are looked at */
    uint32_t *seen_in;              /* [state_count]: of each state, the last round that gathered it */
    uint32_t *table;                /* [slot_count]: the first state of each kind, */
    uint32_t *slot_kinds;           /* [slot_count]: and the kind */
    uint32_t slot_count;
    uint32_t count;                 /* of states */
    uint32_t group_count;
} refining;

/* Sort what is looked at: of one kind is what was in one group, and whose bytes lead to the same groups. */
static uint32_t sort_states(const sslm_automaton *automaton, const uint32_t *groups, refining *at)
{
    uint32_t kind_count = 0;
    memset(at->table, 0xff, at->slot_count * sizeof *at->table);
    memset(at->seen_sizes, 0, at->group_count * sizeof *at->seen_sizes);
    for (uint32_t i = 0; i < at->count; i++) {
        uint32_t state = at->states[i], slot = (uint32_t)hash_of(automaton, groups, state) & (at->slot_count - 1);
        while (at->table[slot] != SSLM_NO_STATE && !is_alike(automaton, groups, at->table[slot], state))
            slot = (slot + 1) & (at->slot_count - 1);
        if (at->table[slot] == SSLM_NO_STATE) {
            at->table[slot] = state;
            at->numbers[kind_count] = groups[state];
            at->slot_kinds[slot] = kind_count++;
        }
        at->kinds[i] = at->slot_kinds[slot];
        at->seen_sizes[groups[state]]++;
    }
    return kind_count;
}

/* Tell apart what one byte more tells apart. Looked at are only states that lead to some whose group has changed: the
 * others of a group still lead to the same ones, and not to where those do. */
static void refine(const sslm_automaton *automaton, uint32_t *groups, refining *at)
{
    uint32_t kind_count = sort_states(automaton, groups, at), changed_count = 0;
    for (uint32_t kind = 0; kind < kind_count; kind++) {
        uint32_t group = at->numbers[kind];
        if (at->seen_sizes[group] == at->sizes[group]) {
            // Nobody else is in the group: the first kind keeps it.
            at->seen_sizes[group] = 0;
            continue;
        }
        at->sizes[at->group_count] = 0;
        at->numbers[kind] = at->group_count++;
    }
    for (uint32_t i = 0; i < at->count; i++) {
        uint32_t state = at->states[i], number = at->numbers[at->kinds[i]];
        if (groups[state] == number) continue;
        at->sizes[groups[state]]--;
        at->sizes[number]++;
        groups[state] = number;
        at->states[changed_count++] = state;
    }
    at->count = changed_count;
}

/* Put in place of the states that changed those that lead there. */
static void gather_sources(const sslm_links *links, uint32_t round, refining *at)
{
    uint32_t *changed = at->kinds, changed_count = at->count;
    memcpy(changed, at->states, changed_count * sizeof *changed);
    at->count = 0;
    for (uint32_t i = 0; i < changed_count; i++) {
        uint32_t last = links->source_rows[SSLM_BYTE_KINDS * (changed[i] + 1)];
        for (uint32_t j = links->source_rows[SSLM_BYTE_KINDS * changed[i]]; j < last; j++) {
            uint32_t source = links->sources[j];
            if (at->seen_in[source] == round) continue;
            at->seen_in[source] = round;
            at->states[at->count++] = source;
        }
    }
}

void sslm_native_alike_states(const sslm_automaton *automaton, const sslm_links *links, uint32_t byte_count,
                              uint32_t *groups, uint32_t *memory, uint32_t slot_count)
{
    size_t count = automaton->state_count;
    refining at = {
        .states = memory, .kinds = memory + count, .numbers = memory + 2 * count, .sizes = memory + 3 * count,
        .seen_sizes = memory + 4 * count, .seen_in = memory + 5 * count, .table = memory + 6 * count,
        .slot_kinds = memory + 6 * count + slot_count, .slot_count = slot_count, .count = automaton->state_count,
        .group_count = 1,
    };
    memset(groups, 0, count * sizeof *groups);
    memset(at.seen_in, 0xff, count * sizeof *at.seen_in);
    at.sizes[0] = automaton->state_count;
    for (uint32_t state = 0; state < automaton->state_count; state++) at.states[state] = state;
    for (uint32_t round = 0; round < byte_count && at.count > 0; round++) {
        refine(automaton, groups, &at);
        gather_sources(links, round, &at);
    }
}
