/* Tiles of rows in plain C, for compilers to turn into vectors. A tier's file includes this once, after it has defined
 * TOKENS and DIMS, and says below it how to
 *   dot_lanes: write sums of high and low bytes of queries, [pair of dims][plane][lane][2], with TOKENS tokens;
 *   weigh_lanes: write sums of the halves of listed weights with DIMS dims.
 */
#ifndef SSLM_TILES_LANES_H
#define SSLM_TILES_LANES_H

#include "attention.h"

typedef int32_t lane_sums[SSLM_LANES];

/* The weights of the pairs of tokens that have any, in two halves. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) lane_sums high[SSLM_PAGE_TOKENS / 2];
    lane_sums low[SSLM_PAGE_TOKENS / 2];
    int32_t pairs[SSLM_PAGE_TOKENS / 2];
    int32_t count;
} weight_list;

static void dot_lanes(const int16_t *queries, const int16_t *keys, int32_t head_dim, lane_sums high[TOKENS],
                      lane_sums low[TOKENS]);
static void weigh_lanes(const weight_list *list, const int16_t *values, int32_t head_dim, lane_sums high[DIMS],
                        lane_sums low[DIMS]);

void TIERED(sslm_pack_queries)(const sslm_tile *tile, sslm_tile_head *head)
{
    int16_t *to = (int16_t *)(void *)head->packed;
    for (int32_t first = 0; first < tile->head_dim; first += 2, to += 4 * SSLM_LANES) {
        for (int32_t i = 0; i < 2 * SSLM_LANES; i++) {
            int16_t code = head->codes[i / 2][first + i % 2];
            to[i] = (int16_t)((code + 128) >> 8);
            to[2 * SSLM_LANES + i] = (int16_t)(code - 256 * to[i]);
        }
    }
}

static void finish_scores(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page, int32_t token,
                          const int32_t *restrict high, const int32_t *restrict low)
{
    int32_t *restrict scores = head->scores[page->score_start + token];
    int32_t position = page->first_position + token, exponent = page->exponents[token];
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        int32_t right = head->sum_shifts[lane], shift = head->score_shifts[lane] - exponent;
        int32_t cut = (int32_t)((uint32_t)high[lane] << (8 - right)) + (low[lane] >> right);
        shift = shift < 31 ? shift : 31;
        /* Beyond the tokens that count there are exponents of any size. */
        int32_t score = ((cut >> (shift > 0 ? shift : 0)) + 1) >> 1;
        int32_t is_seen = (position >= tile->first_keys[lane]) & (position <= tile->last_keys[lane]);
        int32_t seen = is_seen ? score : INT32_MIN;
        scores[lane] = score;
        head->largest[lane] = seen > head->largest[lane] ? seen : head->largest[lane];
    }
}

void TIERED(sslm_score_page)(sslm_tile *tile, const sslm_tile_page *page)
{
    for (int32_t i = 0; i < tile->head_count; i++) {
        sslm_tile_head *head = &tile->heads[i];
        /* A page holds 64 tokens, so that whole groups can be read whatever they contain; what a last pair has
         * beyond the dims meets a zero. */
        for (int32_t token = page->first / TOKENS * TOKENS; token < page->last; token += TOKENS) {
            _Alignas(SSLM_ALIGNMENT) lane_sums high[TOKENS], low[TOKENS];
            const int16_t *keys = page->codes + (size_t)token * (size_t)tile->head_dim;
            dot_lanes((const int16_t *)(const void *)head->packed, keys, tile->head_dim, high, low);
            for (int32_t j = 0; j < TOKENS; j++) finish_scores(tile, head, page, token + j, high[j], low[j]);
        }
    }
}

/* What the distances of a page's keys say of a group, and its sums of p. */
typedef struct {
    _Alignas(SSLM_ALIGNMENT) uint32_t nearest[SSLM_LANES];
    uint32_t exponents[SSLM_LANES];
    uint32_t denominators[SSLM_LANES];
} group_lanes;

/* Step 3 for a token. */
static void measure_token(const sslm_tile *tile, const sslm_tile_head *head, const sslm_tile_page *page, int32_t token,
                          group_lanes *restrict near, group_lanes *restrict far)
{
    const int32_t *restrict scores = head->scores[page->score_start + token];
    int32_t position = page->first_position + token;
    uint32_t exponent = (uint32_t)page->exponents[token];
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        uint32_t t = (uint32_t)head->largest[lane] - (uint32_t)scores[lane];
        int32_t is_seen = (position >= tile->first_keys[lane]) & (position <= tile->last_keys[lane]);
        uint32_t in_near = 0u - (uint32_t)(is_seen & (t < SSLM_FAR));
        uint32_t in_far = 0u - (uint32_t)(is_seen & (t >= SSLM_FAR));
        uint32_t near_t = t | ~in_near, far_t = t | ~in_far;
        near->nearest[lane] = near_t < near->nearest[lane] ? near_t : near->nearest[lane];
        far->nearest[lane] = far_t < far->nearest[lane] ? far_t : far->nearest[lane];
        uint32_t near_e = exponent & in_near, far_e = exponent & in_far;
        near->exponents[lane] = near_e > near->exponents[lane] ? near_e : near->exponents[lane];
        far->exponents[lane] = far_e > far->exponents[lane] ? far_e : far->exponents[lane];
    }
}

/* Step 4 for a token. */
static void weigh_token(sslm_tile *restrict tile, const sslm_tile_head *head, const sslm_tile_page *page, int32_t token,
                        group_lanes *restrict near, group_lanes *restrict far)
{
    const int32_t *restrict scores = head->scores[page->score_start + token], *restrict nodes = tile->nodes;
    uint32_t *restrict near_weights = tile->near.weights[token], *restrict far_weights = tile->far.weights[token];
    int32_t position = page->first_position + token;
    uint32_t exponent = (uint32_t)page->exponents[token];
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        uint32_t t = (uint32_t)head->largest[lane] - (uint32_t)scores[lane];
        uint32_t is_seen = (position >= tile->first_keys[lane]) & (position <= tile->last_keys[lane]);
        uint32_t is_near = t < SSLM_FAR, in_near = 0u - (is_seen & is_near), in_far = 0u - (is_seen & !is_near);
        uint32_t nearest = (near->nearest[lane] & in_near) | (far->nearest[lane] & in_far);
        uint32_t top = (near->exponents[lane] & in_near) | (far->exponents[lane] & in_far);
        uint32_t node = t >> 10 & 63, rest = t & 0x3ff, start = (uint32_t)nodes[node];
        uint32_t power = start - (((start - (uint32_t)nodes[node + 1]) * rest + 512) >> 10);
        /* Cut by 25 bits, no power is left. A lane that is in no group may have any shift. */
        uint32_t down = (t >> 16) - (nearest >> 16) + 3, lifted;
        down = down < 25 ? down : 25;
        lifted = down + ((top - exponent) & (in_near | in_far));
        lifted = lifted < 25 ? lifted : 25;
        uint32_t p = ((power >> down) + 1) >> 1, n = ((power >> lifted) + 1) >> 1;
        near->denominators[lane] += p & in_near;
        far->denominators[lane] += p & in_far;
        near_weights[lane] = n & in_near;
        far_weights[lane] = n & in_far;
    }
}

static void finish_group(sslm_tile_head *head, const group_lanes *lanes, sslm_tile_group *group)
{
    group->is_empty = 1;
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        group->wholes[lane] = lanes->nearest[lane] >> 16;
        group->exponents[lane] = lanes->exponents[lane];
        group->is_empty &= lanes->nearest[lane] == UINT32_MAX;
        head->denominators[lane] += rshift_round((int64_t)lanes->denominators[lane] << 7, (int32_t)group->wholes[lane]);
    }
}

static void weigh_page(sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page)
{
    group_lanes near, far;
    memset(&near, 0, sizeof near);
    memset(&far, 0, sizeof far);
    memset(near.nearest, 0xff, sizeof near.nearest);
    memset(far.nearest, 0xff, sizeof far.nearest);
    memset(tile->near.weights, 0, sizeof tile->near.weights);
    memset(tile->far.weights, 0, sizeof tile->far.weights);
    for (int32_t token = page->first; token < page->last; token++) measure_token(tile, head, page, token, &near, &far);
    for (int32_t token = page->first; token < page->last; token++) weigh_token(tile, head, page, token, &near, &far);
    finish_group(head, &near, &tile->near);
    finish_group(head, &far, &tile->far);
}

static void list_weights(const sslm_tile_group *group, int32_t first, int32_t last, weight_list *list)
{
    int32_t count = 0;
    for (int32_t pair = first; pair < last; pair++) {
        const uint32_t *restrict even = group->weights[2 * pair], *restrict odd = group->weights[2 * pair + 1];
        int32_t *restrict high = list->high[count], *restrict low = list->low[count];
        uint32_t any = 0;
        for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
            high[lane] = high_halves(even[lane], odd[lane]);
            low[lane] = low_halves(even[lane], odd[lane]);
            any |= even[lane] | odd[lane];
        }
        list->pairs[count] = pair;
        count += any != 0;
    }
    list->count = count;
}

/* Step 5 for a dim. Adding 2^62 before the shift, and taking its share off after, lets it be one of a number that is
 * not negative. */
static void add_numerators(const uint64_t *restrict shifts, const uint64_t *restrict middles,
                           const int32_t *restrict high, const int32_t *restrict low, int64_t *restrict numerators)
{
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        uint64_t sum = (uint64_t)((int64_t)high[lane] * 1024 + low[lane]) << 7;
        uint64_t lifted = sum + middles[lane] + (UINT64_C(1) << 62);
        numerators[lane] += (int64_t)((lifted >> shifts[lane]) - (UINT64_C(1) << 62 >> shifts[lane]));
    }
}

static void add_group(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                      const sslm_tile_group *group)
{
    if (group->is_empty) return;
    weight_list list;
    uint64_t shifts[SSLM_LANES], middles[SSLM_LANES];
    list_weights(group, page->first / 2, (page->last + 1) / 2, &list);
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        uint64_t shift = (uint64_t)group->wholes[lane] + (uint32_t)tile->value_exponents[lane] - group->exponents[lane];
        shifts[lane] = shift < 60 ? shift : 60;
        middles[lane] = UINT64_C(1) << shifts[lane] >> 1;
    }
    /* After the last page's last values there are exponents, so that whole groups of dims can be read. */
    for (int32_t d = 0; d < tile->head_dim; d += DIMS) {
        _Alignas(SSLM_ALIGNMENT) lane_sums high[DIMS], low[DIMS];
        weigh_lanes(&list, page->codes + 2 * d, tile->head_dim, high, low);
        for (int32_t i = 0; i < DIMS; i++) add_numerators(shifts, middles, high[i], low[i], head->numerators[d + i]);
    }
}

#include "page_by_page.h"

query_shifts TIERED(sslm_quantize_query)(const sslm_job *job, const int32_t *x, int32_t head_dim, int16_t *codes)
{
    int32_t exponent = block_exponent_int32(x, head_dim);
    uint32_t sizes = 0;
    memset(codes, 0, padded_width(head_dim) * sizeof codes[0]);
    for (int32_t d = 0; d < head_dim; d++) {
        int32_t code = code_of(x[d], exponent);
        codes[d] = (int16_t)code;
        sizes += abs32(code);
    }
    return query_shifts_of(job, exponent, sizes);
}

void TIERED(sslm_divide_tile)(const sslm_tile *tile, const sslm_tile_head *head, int32_t *out, size_t stride,
                              uint64_t *saturated)
{
    for (int32_t lane = 0; lane < tile->row_count; lane++, out += stride) {
        divisor by = divisor_of(head->denominators[lane]);
        for (int32_t d = 0; d < tile->head_dim; d++)
            saturated[lane] += divide_by(by, head->numerators[d][lane], tile->value_exponents[lane], &out[d]);
    }
}

#endif
