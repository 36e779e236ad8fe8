/* The inner loops of attention in plain C. */
#include "row_weights.h"

#define TOKENS 1
#define DIMS 1
#include "single_rows_lanes.h"
#include "tiles_lanes.h"

static void dot_lanes(const int16_t *queries, const int16_t *keys, int32_t head_dim, lane_sums high[TOKENS],
                      lane_sums low[TOKENS])
{
    memset(high, 0, sizeof high[0]);
    memset(low, 0, sizeof low[0]);
    for (int32_t d = 0; d < head_dim; d += 2, queries += 4 * SSLM_LANES) {
        int16_t pair[2] = {keys[d], keys[d + 1]};
        for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
            const int16_t *h = queries + 2 * lane, *l = h + 2 * SSLM_LANES;
            high[0][lane] += h[0] * pair[0] + h[1] * pair[1];
            low[0][lane] += l[0] * pair[0] + l[1] * pair[1];
        }
    }
}

static void weigh_lanes(const weight_list *list, const int16_t *values, int32_t head_dim, lane_sums high[DIMS],
                        lane_sums low[DIMS])
{
    memset(high, 0, sizeof high[0]);
    memset(low, 0, sizeof low[0]);
    for (int32_t index = 0; index < list->count; index++) {
        const int16_t *pair = values + 2 * (size_t)list->pairs[index] * (size_t)head_dim;
        const int32_t *h = list->high[index], *l = list->low[index];
        for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
            high[0][lane] += (h[lane] & 0xffff) * pair[0] + (h[lane] >> 16) * pair[1];
            low[0][lane] += (l[lane] & 0xffff) * pair[0] + (l[lane] >> 16) * pair[1];
        }
    }
}

static void dot_keys(const int16_t *query, const int16_t *keys, int32_t head_dim, int32_t first, int32_t last,
                     int64_t *sums)
{
    for (int32_t token = first; token < last; token++) {
        const int16_t *key = keys + (size_t)token * (size_t)head_dim;
        int64_t sum = 0;
        for (int32_t d = 0; d < head_dim; d++) sum += (int64_t)query[d] * key[d];
        sums[token] = sum;
    }
}

static void weigh_values(const uint32_t *weights, const int16_t *values, int32_t head_dim, int32_t first,
                         int32_t last, int64_t *sums)
{
    weigh_rest(weights, values, head_dim, 0, first, last, sums);
}
