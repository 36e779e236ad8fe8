/* Which states of an automaton lead to which, and what is the most or the least that can be met on the way. */
#include <string.h>

#include "byte_kinds.h"
#include "sslm_native.h"

static void link_targets(const sslm_automaton *automaton, const sslm_links *links)
{
    uint32_t *seen_from = links->memory, count = 0;
    uint8_t kinds[256];
    memset(kinds, SSLM_QUOTE, sizeof kinds);
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t kind = byte_kind((uint8_t)byte);
        if (kind < kinds[automaton->byte_classes[byte]]) kinds[automaton->byte_classes[byte]] = kind;
    }
    memset(seen_from, 0xff, automaton->state_count * sizeof *seen_from);
    for (uint32_t state = 0; state < automaton->state_count; state++) {
        const uint32_t *steps = automaton->steps + (size_t)state * automaton->class_count;
        for (uint32_t kind = 0; kind < 3; kind++) {
            links->rows[3 * state + kind] = count;
            for (uint32_t i = 0; i < automaton->class_count; i++) {
                if (kinds[i] != kind || steps[i] == SSLM_NO_STATE || seen_from[steps[i]] == state) continue;
                seen_from[steps[i]] = state;
                links->targets[count++] = steps[i];
            }
        }
    }
    links->rows[3 * automaton->state_count] = count;
}

static void link_sources(const sslm_automaton *automaton, const sslm_links *links)
{
    uint32_t part_count = 3 * automaton->state_count, total = 0;
    uint32_t *places = links->memory;
    memset(places, 0, part_count * sizeof *places);
    for (uint32_t part = 0; part < part_count; part++)
        for (uint32_t i = links->rows[part]; i < links->rows[part + 1]; i++)
            places[3 * links->targets[i] + part % 3]++;
    for (uint32_t part = 0; part < part_count; part++) {
        links->source_rows[part] = total;
        total += places[part];
        places[part] = links->source_rows[part];
    }
    links->source_rows[part_count] = total;
    for (uint32_t part = 0; part < part_count; part++)
        for (uint32_t i = links->rows[part]; i < links->rows[part + 1]; i++)
            links->sources[places[3 * links->targets[i] + part % 3]++] = part / 3;
}

void sslm_native_link_states(const sslm_automaton *automaton, const sslm_links *links)
{
    link_targets(automaton, links);
    link_sources(automaton, links);
}

void sslm_native_reach(const sslm_links *links, uint32_t state_count, uint32_t byte_count, int32_t kind,
                       int32_t is_least, uint32_t *numbers, uint32_t *memory)
{
    for (uint32_t i = 0, is_changed = 1; i < byte_count && is_changed; i++) {
        is_changed = 0;
        memcpy(memory, numbers, state_count * sizeof *memory);
        for (uint32_t state = 0; state < state_count; state++) {
            uint32_t found = numbers[state], last = links->rows[3 * state + kind + 1];
            for (uint32_t j = links->rows[3 * state]; j < last; j++) {
                uint32_t other = memory[links->targets[j]];
                found = is_least ? (other < found ? other : found) : (other > found ? other : found);
            }
            is_changed |= found != numbers[state];
            numbers[state] = found;
        }
    }
}
