/* The inner loops of rows, over what a tier has defined before it includes this: lanes (LANES numbers of 32
 * bits), wide_lanes (as many of 64 bits) and the functions on them. */
#ifndef SSLM_ROW_LOOPS_H
#define SSLM_ROW_LOOPS_H

#include "arithmetic.h"

/* (x + half) >> shift for results that fit 32 bits; shift is 0 … 32. */
ALWAYS_INLINE lanes round_lanes(wide_lanes x, int32_t shift)
{
    return narrow(add_wide(x, all_wide((INT64_C(1) << shift) >> 1)), shift);
}

/* The same for shifts of 32 … 62. */
ALWAYS_INLINE lanes round_high_lanes(wide_lanes x, int32_t shift)
{
    return shift_right(high_halves_of(add_wide(x, all_wide((INT64_C(1) << shift) >> 1))), shift - 32);
}

int32_t TIERED(sslm_normalize_lanes)(const int32_t *x, const int32_t *gain, int32_t count, int32_t exponent,
                                     int32_t reciprocal, int32_t shift, int32_t *y)
{
    /* A code times either half of the reciprocal fits 32 bits. */
    lanes high = all_lanes(reciprocal >> 12), low = all_lanes(reciprocal & 0xfff);
    lanes half = all_lanes((1 << exponent) >> 1);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes value = load_lanes(x + i), factor = load_lanes(gain + i);
        lanes code = add_if_common(shift_right(value, exponent), value, half);
        wide_lanes upper = shift_left_wide(multiply(multiply_short(code, high), factor), 12);
        wide_lanes product = add_wide(upper, multiply(multiply_short(code, low), factor));
        store_lanes(y + i, round_high_lanes(product, shift));
    }
    return i;
}

/* Pairs i and i + pairs of every head. */
ALWAYS_INLINE int32_t rotate_halves(const sslm_rotation *rotation, const int32_t *cos, const int32_t *sin,
                                    int32_t *row, int32_t width)
{
    int32_t pairs = rotation->rotary_dim / 2, i = 0;
    for (; i + LANES <= pairs; i += LANES) {
        lanes c = load_lanes(cos + i), s = load_lanes(sin + i);
        for (int32_t start = i; start < width; start += rotation->head_dim) {
            lanes a = load_lanes(row + start), b = load_lanes(row + start + pairs);
            store_lanes(row + start, round_lanes(subtract_wide(multiply(a, c), multiply(b, s)), 30));
            store_lanes(row + start + pairs, round_lanes(add_wide(multiply(b, c), multiply(a, s)), 30));
        }
    }
    return i;
}

/* Pairs 2i and 2i + 1 of every head. */
ALWAYS_INLINE int32_t rotate_neighbours(const sslm_rotation *rotation, const int32_t *cos, const int32_t *sin,
                                        int32_t *row, int32_t width)
{
    int32_t pairs = rotation->rotary_dim / 2, i = 0;
    for (; i + LANES / 2 <= pairs; i += LANES / 2) {
        lanes c = load_twice(cos + i), s = negate_even(load_twice(sin + i));
        for (int32_t start = 2 * i; start < width; start += rotation->head_dim) {
            lanes x = load_lanes(row + start);
            store_lanes(row + start, round_lanes(add_wide(multiply(x, c), multiply(swap_neighbours(x), s)), 30));
        }
    }
    return i;
}

int32_t TIERED(sslm_rotate_lanes)(const sslm_rotation *rotation, int32_t position, int32_t *row, int32_t width)
{
    /* The sum of two products is at most 2^31 times the largest value. */
    if (largest_size(row, width) >= 1u << 30) return 0;
    size_t angle = (size_t)position * (size_t)(rotation->rotary_dim / 2);
    const int32_t *cos = rotation->cos + angle, *sin = rotation->sin + angle;
    if (rotation->is_interleaved) return rotate_neighbours(rotation, cos, sin, row, width);
    return rotate_halves(rotation, cos, sin, row, width);
}

/* sigmoid_neg. */
ALWAYS_INLINE lanes sigmoid_lanes(const int32_t *nodes, lanes a)
{
    lanes here, next;
    look_up(nodes, a, &here, &next);
    lanes fall = multiply_low(subtract_lanes(here, next), and_lanes(a, all_lanes(0x3ff)));
    return subtract_lanes(here, shift_right_unsigned(add_lanes(fall, all_lanes(512)), 10));
}

int32_t TIERED(sslm_activate_lanes)(const int32_t *nodes, const int32_t *gate, const int32_t *up, int32_t count,
                                    int32_t shift, int32_t *activated, uint64_t *largest)
{
    lanes half = all_lanes((1 << shift) >> 1);
    wide_lanes size = all_wide(0);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        lanes g = load_lanes(gate + i);
        lanes z = sigmoid_lanes(nodes, shift_right_unsigned(add_lanes(absolute(g), half), shift));
        lanes h = round_lanes(multiply(g, reflect(g, all_lanes(1 << 28), z)), 28);
        store_lanes(activated + i, h);
        size = larger(size, multiply(absolute(h), absolute(load_lanes(up + i))));
    }
    uint64_t found = (uint64_t)largest_of(size);
    *largest = found > *largest ? found : *largest;
    return i;
}

/* is_high is a constant where this is inlined. */
ALWAYS_INLINE int32_t multiply_rows(const int32_t *left, const int32_t *right, int32_t count, int32_t exponent,
                                    const int is_high, int16_t *codes)
{
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        wide_lanes product = multiply(load_lanes(left + i), load_lanes(right + i));
        store_codes(codes + i, is_high ? round_high_lanes(product, exponent) : round_lanes(product, exponent));
    }
    return i;
}

int32_t TIERED(sslm_multiply_lanes)(const int32_t *left, const int32_t *right, int32_t count, int32_t exponent,
                                    int16_t *codes)
{
    if (exponent < 32) return multiply_rows(left, right, count, exponent, 0, codes);
    return multiply_rows(left, right, count, exponent, 1, codes);
}

#endif
