/* In which states of an automaton the characters of a text are all alike. */
#include "byte_kinds.h"
#include "sslm_native.h"

/* Characters beyond ASCII by their first bytes: the bounds of these and of the second ones, and how many follow the
 * first. */
typedef struct {
    uint8_t first, last, low, high, count;
} character_range;

static const character_range RANGES[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 1}, {0xe0, 0xe0, 0xa0, 0xbf, 2}, {0xe1, 0xec, 0x80, 0xbf, 2}, {0xed, 0xed, 0x80, 0x9f, 2},
    {0xee, 0xef, 0x80, 0xbf, 2}, {0xf0, 0xf0, 0x90, 0xbf, 3}, {0xf1, 0xf3, 0x80, 0xbf, 3}, {0xf4, 0xf4, 0x80, 0x8f, 3},
};

static uint32_t step(const sslm_automaton *automaton, uint32_t state, uint32_t byte)
{
    if (state == SSLM_NO_STATE) return SSLM_NO_STATE;
    return automaton->steps[(size_t)state * automaton->class_count + automaton->byte_classes[byte]];
}

/* Whether from a state all bytes from low to high, and then as many more of a character, lead to a target. */
static int all_lead_to(const sslm_automaton *automaton, uint32_t state, const character_range *range, uint32_t target)
{
    uint32_t low = range->low, high = range->high, count = range->count;
    // All that is between lead to one state each, but for the first bytes: one way stands for all.
    for (; count > 0; count--, low = 0x80, high = 0xbf) {
        uint32_t found = step(automaton, state, low);
        for (uint32_t byte = low; byte <= high; byte++)
            if (step(automaton, state, byte) != found) return 0;
        state = found;
    }
    return state == target;
}

static uint32_t text_step(const sslm_automaton *automaton, uint32_t state)
{
    uint32_t target = step(automaton, state, ' ');
    for (uint32_t byte = ' '; byte < 0x80; byte++)
        if (byte_kind((uint8_t)byte) < SSLM_IN_TEXT && step(automaton, state, byte) != target) return SSLM_MANY_STATES;
    for (uint32_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++) {
        uint32_t last_found = SSLM_MANY_STATES;
        for (uint32_t byte = RANGES[i].first; byte <= RANGES[i].last; byte++) {
            uint32_t found = step(automaton, state, byte);
            if (found == last_found) continue;
            if (!all_lead_to(automaton, found, &RANGES[i], target)) return SSLM_MANY_STATES;
            last_found = found;
        }
    }
    return target;
}

void sslm_native_text_steps(const sslm_automaton *automaton, uint32_t *text_steps)
{
    for (uint32_t state = 0; state < automaton->state_count; state++) text_steps[state] = text_step(automaton, state);
}

void sslm_native_text_rooms(const uint32_t *text_steps, uint32_t state_count, uint8_t *rooms)
{
    for (uint32_t first = 0; first < state_count; first++) {
        uint32_t state = first, room = 0;
        while (room < 255 && text_steps[state] < SSLM_MANY_STATES) {
            room = text_steps[state] == state ? 255 : room + 1;
            state = text_steps[state];
        }
        rooms[first] = (uint8_t)room;
    }
}
