/* Which states of an automaton lead to which, and what is the most or the least that can be met on the way. */
#include <string.h>

#include "byte_kinds.h"
#include "sslm_native.h"

static void link_targets(const sslm_automaton *automaton, const sslm_links *links)
{
    uint32_t *seen_from = links->memory, count = 0;
    uint8_t kinds[256];
    memset(kinds, SSLM_MARK, sizeof kinds);
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint8_t kind = byte_kind((uint8_t)byte);
        if (kind < kinds[automaton->byte_classes[byte]]) kinds[automaton->byte_classes[byte]] = kind;
    }
    memset(seen_from, 0xff, automaton->state_count * sizeof *seen_from);
    for (uint32_t state = 0; state < automaton->state_count; state++) {
        const uint32_t *steps = automaton->steps + (size_t)state * automaton->class_count;
        for (uint32_t kind = 0; kind < SSLM_BYTE_KINDS; kind++) {
            links->rows[SSLM_BYTE_KINDS * state + kind] = count;
            for (uint32_t i = 0; i < automaton->class_count; i++) {
                if (kinds[i] != kind || steps[i] == SSLM_NO_STATE || seen_from[steps[i]] == state) continue;
                seen_from[steps[i]] = state;
                links->targets[count++] = steps[i];
            }
        }
    }
    links->rows[SSLM_BYTE_KINDS * automaton->state_count] = count;
}

static void link_sources(const sslm_automaton *automaton, const sslm_links *links)
{
    uint32_t part_count = SSLM_BYTE_KINDS * automaton->state_count, total = 0;
    uint32_t *places = links->memory;
    memset(places, 0, part_count * sizeof *places);
    for (uint32_t part = 0; part < part_count; part++)
        for (uint32_t i = links->rows[part]; i < links->rows[part + 1]; i++)
            places[SSLM_BYTE_KINDS * links->targets[i] + part % SSLM_BYTE_KINDS]++;
    for (uint32_t part = 0; part < part_count; part++) {
        links->source_rows[part] = total;
        total += places[part];
        places[part] = links->source_rows[part];
    }
    links->source_rows[part_count] = total;
    for (uint32_t part = 0; part < part_count; part++)
        for (uint32_t i = links->rows[part]; i < links->rows[part + 1]; i++) {
            uint32_t place = SSLM_BYTE_KINDS * links->targets[i] + part % SSLM_BYTE_KINDS;
            links->sources[places[place]++] = part / SSLM_BYTE_KINDS;
        }
}

void sslm_native_link_states(const sslm_automaton *automaton, const sslm_links *links)
{
    link_targets(automaton, links);
    link_sources(automaton, links);
}

/* The best number one byte further, from the numbers before the round. */
static uint32_t best_behind(const sslm_links *links, uint32_t state, int32_t kind, int32_t is_least,
                            const uint32_t *numbers, uint32_t best)
{
    uint32_t last = links->rows[SSLM_BYTE_KINDS * state + kind + 1];
    for (uint32_t i = links->rows[SSLM_BYTE_KINDS * state]; i < last; i++) {
        uint32_t other = numbers[links->targets[i]];
        if (is_least ? other < best : other > best) best = other;
    }
    return best;
}

void sslm_native_reach(const sslm_links *links, uint32_t state_count, uint32_t byte_count, int32_t kind,
                       int32_t is_least, uint32_t *numbers, uint32_t *memory)
{
    // Looked at are only the states before those that changed in the round before: at first all, then few.
    uint32_t *looked_at = memory, *found = memory + state_count, *changed = memory + 2 * (size_t)state_count;
    uint32_t *seen_in = memory + 3 * (size_t)state_count, look_count = state_count;
    for (uint32_t state = 0; state < state_count; state++) looked_at[state] = state;
    memset(seen_in, 0xff, state_count * sizeof *seen_in);
    for (uint32_t round = 0; round < byte_count && look_count > 0; round++) {
        uint32_t changed_count = 0;
        for (uint32_t i = 0; i < look_count; i++) {
            uint32_t state = looked_at[i], best = best_behind(links, state, kind, is_least, numbers, numbers[state]);
            if (best == numbers[state]) continue;
            found[changed_count] = best;
            changed[changed_count++] = state;
        }
        look_count = 0;
        for (uint32_t i = 0; i < changed_count; i++) numbers[changed[i]] = found[i];
        for (uint32_t i = 0; i < changed_count; i++) {
            uint32_t last = links->source_rows[SSLM_BYTE_KINDS * changed[i] + kind + 1];
            for (uint32_t j = links->source_rows[SSLM_BYTE_KINDS * changed[i]]; j < last; j++) {
                uint32_t source = links->sources[j];
                if (seen_in[source] == round) continue;
                seen_in[source] = round;
                looked_at[look_count++] = source;
            }
        }
    }
}

/* How many bytes are to follow one that begins a character: 0 of ASCII, up to 3; 4 of one that begins none. */
static uint32_t bytes_to_follow(uint32_t byte)
{
    if (byte < 0x80) return 0;
    if (byte < 0xc0 || byte >= 0xf8) return 4;
    return byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
}

void sslm_native_whole_states(const sslm_automaton *automaton, uint8_t *is_whole, uint8_t *memory)
{
    uint8_t starts[256] = {0}, goes_on[256] = {0}, *awaited = memory;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t byte_class = automaton->byte_classes[byte], count = bytes_to_follow(byte);
        if (count < 4) starts[byte_class] |= (uint8_t)(1u << count);
        if (byte >= 0x80 && byte < 0xc0) goes_on[byte_class] = 1;
    }
    // Bit k of a state: what leads there may be a character that lacks k bytes. Each round takes one of them in.
    memset(awaited, 0, automaton->state_count);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t state = 0; state < automaton->state_count; state++) {
            const uint32_t *steps = automaton->steps + (size_t)state * automaton->class_count;
            for (uint32_t i = 0; i < automaton->class_count; i++) {
                if (steps[i] == SSLM_NO_STATE) continue;
                awaited[steps[i]] |= (uint8_t)(starts[i] | (goes_on[i] ? awaited[state] >> 1 : 0));
            }
        }
    }
    for (uint32_t state = 0; state < automaton->state_count; state++) is_whole[state] = awaited[state] & 1;
}
