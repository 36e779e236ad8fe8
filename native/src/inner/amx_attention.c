/* The inner loops of attention where there are tiles beside AVX-512.
 *
 * Codes are 256 · h + l with signed bytes h and l, and weights have three bytes, so that tiles of bytes give exact
 * sums. A tile of keys has 16 tokens, one of values 16 dims; the other operand has the 16 lanes.
 */
#include "amx_tiles.h"
#include "amx_weights.h"
#include "attention_512.h"

/* Loads of tiles do not tell the compiler what they read. */
#define TILES_READ_MEMORY() __asm__ volatile("" : : : "memory")

#include "row_scores_amx.h"

/* The high and the low bytes of 64 codes. A byte of the first vector is followed by one of the second. */
ALWAYS_INLINE void split_codes(__m512i first, __m512i second, __m512i *high, __m512i *low)
{
    __m512i half = _mm512_set1_epi16(128), upper = _mm512_set1_epi16((short)0xff00), lower = _mm512_set1_epi16(0xff);
    *low = _mm512_or_si512(_mm512_and_si512(first, lower), _mm512_slli_epi16(second, 8));
    first = _mm512_add_epi16(first, half);
    second = _mm512_add_epi16(second, half);
    *high = _mm512_or_si512(_mm512_srli_epi16(first, 8), _mm512_and_si512(second, upper));
}

/* For every 64 dims 16 rows of lanes of high bytes, and 16 of low ones. */
void sslm_pack_queries_amx(const sslm_tile *tile, sslm_tile_head *head)
{
    for (int32_t first = 0; first < tile->head_dim; first += BLOCK) {
        __m512i high[SIDE], low[SIDE];
        for (int lane = 0; lane < SIDE; lane++) {
            const int16_t *codes = head->codes[lane] + first;
            split_codes(_mm512_loadu_si512(codes), _mm512_loadu_si512(codes + 32), &high[lane], &low[lane]);
        }
        transpose(high);
        transpose(low);
        int8_t *to = head->packed + 2 * SIDE * (size_t)first;
        for (int i = 0; i < SIDE; i++) {
            _mm512_store_si512(to + BLOCK * i, high[i]);
            _mm512_store_si512(to + BLOCK * (SIDE + i), low[i]);
        }
    }
}

/* Where a page's packed codes are or belong. The first pages keep their places; others share what is left, of which
 * there is enough for those that are used together. */
static int8_t *place_of(sslm_packed_pages *pages, const sslm_tile *tile, const sslm_tile_page *page, int32_t *slot)
{
    int32_t count = packed_page_count(tile->head_dim), shared = pages_together(tile->head_dim);
    int32_t number = page->first_position / SSLM_PAGE_TOKENS, kept = count - shared;
    *slot = number < kept ? number : kept + number % shared;
    return pages->bytes + 2 * SSLM_PAGE_TOKENS * padded_width(tile->head_dim) * (size_t)*slot;
}

/* Remember whose codes are in a place; whether they were there before. */
static int is_packed(sslm_packed_pages *pages, int32_t slot, const int16_t *source)
{
    int is_there = pages->sources[slot] == source;
    pages->sources[slot] = source;
    return is_there;
}

/* For every 64 dims the high bytes of 64 tokens, and the low ones; zeros beyond the dims. */
static void pack_keys(size_t head_dim, const int16_t *codes, int8_t *packed)
{
    for (size_t first = 0; first < head_dim; first += BLOCK) {
        uint64_t mask = head_dim - first < BLOCK ? (UINT64_C(1) << (head_dim - first)) - 1 : UINT64_MAX;
        int8_t *to = packed + 2 * SSLM_PAGE_TOKENS * first;
        for (size_t token = 0; token < SSLM_PAGE_TOKENS; token++) {
            const int16_t *keys = codes + token * head_dim + first;
            __m512i high, low;
            split_codes(_mm512_maskz_loadu_epi16((__mmask32)mask, keys),
                        _mm512_maskz_loadu_epi16((__mmask32)(mask >> 32), keys + 32), &high, &low);
            _mm512_store_si512(to + BLOCK * token, high);
            _mm512_store_si512(to + BLOCK * (SSLM_PAGE_TOKENS + token), low);
        }
    }
}

typedef struct {
    _Alignas(64) int32_t sums[3][SIDE][SSLM_LANES];
} sum_planes;

/* Sums of 16 tokens from `token` on, in tiles: of high bytes, of high with low ones, of low ones. */
ALWAYS_INLINE void dot_tokens(const sslm_tile *tile, const sslm_tile_head *head, const int8_t *packed, int32_t token)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int32_t first = 0; first < tile->head_dim; first += BLOCK) {
        const int8_t *keys = packed + 2 * SSLM_PAGE_TOKENS * (size_t)first + BLOCK * token;
        const int8_t *queries = head->packed + 2 * SIDE * (size_t)first;
        _tile_loadd(5, queries, BLOCK);
        _tile_loadd(3, keys, BLOCK);
        _tile_dpbssd(0, 3, 5);
        _tile_loadd(6, queries + SIDE * BLOCK, BLOCK);
        _tile_dpbssd(1, 3, 6);
        _tile_loadd(4, keys + SSLM_PAGE_TOKENS * BLOCK, BLOCK);
        _tile_dpbssd(2, 4, 6);
        _tile_dpbssd(1, 4, 5);
    }
}

ALWAYS_INLINE void store_dots(sum_planes *planes)
{
    _tile_stored(0, planes->sums[0], BLOCK);
    _tile_stored(1, planes->sums[1], BLOCK);
    _tile_stored(2, planes->sums[2], BLOCK);
}

ALWAYS_INLINE void finish_tokens(const sslm_tile *tile, const sslm_tile_page *page, const int is_whole,
                                 int32_t token, const sum_planes *planes, score_lanes *lanes)
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
        __m512i high = _mm512_slli_epi32(_mm512_load_si512(planes->sums[0][i]), 8);
        high = _mm512_add_epi32(high, _mm512_load_si512(planes->sums[1][i]));
        __mmask16 seen = is_whole ? 0xffff : sees(tile, page->first_position + token + i);
        finish_scores(lanes, token + i, seen, high, _mm512_load_si512(planes->sums[2][i]));
    }
    fetch_ahead(lanes->next, SIDE * lanes->next_step, token / SIDE);
}

ALWAYS_INLINE void score_heads(sslm_tile *tile, const sslm_tile_page *page, const int is_whole, const int8_t *keys,
                               size_t next_step)
{
    sum_planes planes;
    int32_t start = page->first / SIDE * SIDE;
    dot_tokens(tile, &tile->heads[0], keys, start);
    for (int32_t index = 0; index < tile->head_count; index++) {
        score_lanes lanes = start_scores(tile, &tile->heads[index], page);
        lanes.next_step = next_step;
        for (int32_t token = start, next; token < page->last; token = next) {
            next = token + SIDE;
            store_dots(&planes);
            /* The next sums are on their way while these are read. */
            if (next < page->last) dot_tokens(tile, &tile->heads[index], keys, next);
            else if (index + 1 < tile->head_count) dot_tokens(tile, &tile->heads[index + 1], keys, start);
            finish_tokens(tile, page, is_whole, token, &planes, &lanes);
        }
        _mm512_store_si512(tile->heads[index].largest, lanes.largest);
    }
}

void sslm_score_page_amx(sslm_tile *tile, const sslm_tile_page *page)
{
    int32_t slot;
    int8_t *keys = place_of(&tile->keys, tile, page, &slot);
    /* Where a page has been packed, the next one most likely has been, too. */
    size_t next_step = 0;
    if (!is_packed(&tile->keys, slot, page->codes)) {
        pack_keys((size_t)tile->head_dim, page->codes, keys);
        next_step = page->next_step;
    }
    TILES_READ_MEMORY();
    if (page->is_whole) score_heads(tile, page, 1, keys, next_step);
    else score_heads(tile, page, 0, keys, next_step);
}

/* For every 16 dims the high bytes of 64 tokens, and the low ones; zeros beyond the dims. Of four tokens the two in the
 * middle change places. */
static void pack_values(size_t head_dim, const int16_t *codes, int8_t *packed)
{
    for (size_t first = 0; first < head_dim; first += SIDE) {
        __mmask16 mask = head_dim - first < SIDE ? (__mmask16)((1u << (head_dim - first)) - 1) : 0xffff;
        __m512i high[SIDE], low[SIDE];
        for (size_t four = 0; four < SSLM_PAGE_TOKENS / 4; four++) {
            const int16_t *values = codes + 2 * (2 * four * head_dim + first);
            split_codes(_mm512_maskz_loadu_epi32(mask, values), _mm512_maskz_loadu_epi32(mask, values + 2 * head_dim),
                        &high[four], &low[four]);
        }
        transpose(high);
        transpose(low);
        int8_t *to = packed + 2 * BLOCK * first;
        for (int i = 0; i < SIDE; i++) {
            _mm512_store_si512(to + BLOCK * i, high[i]);
            _mm512_store_si512(to + BLOCK * (SIDE + i), low[i]);
        }
    }
}

/* What one head's weights of some pages multiply. */
typedef struct {
    int32_t blocks;              /* of 16 dims */
    int32_t page_count;
    const int8_t **values;       /* [page], of [block][high, low] tiles */
    weight_planes *weights;      /* [page] */
    const int *has_top;          /* [page] */
} weighed_pages;

static const int8_t *values_of(const weighed_pages *of, int32_t page, int32_t block)
{
    return of->values[page] + 2 * TILE_BYTES * (size_t)block;
}

typedef int32_t dim_sums[SIDE][SSLM_LANES];

/* Add floor((L + 128) / 256) of some lowest bytes, for every dim. */
static void round_lowest(const weighed_pages *of, int32_t page, int8_t lowest[SIDE][BLOCK], dim_sums *rounded)
{
    static const _Alignas(64) int32_t half[SSLM_LANES] = {128, 128, 128, 128, 128, 128, 128, 128,
                                                          128, 128, 128, 128, 128, 128, 128, 128};
    _Alignas(64) dim_sums sums[SSLM_HEAD_DIM_MAX / SIDE];
    TILES_READ_MEMORY();
    _tile_loadd(7, lowest, BLOCK);
    for (int32_t block = 0; block < of->blocks; block++) {
        _tile_loadd(0, half, 0);
        _tile_loadd(5, values_of(of, page, block) + TILE_BYTES, BLOCK);
        _tile_dpbsud(0, 5, 7);
        _tile_stored(0, sums[block], BLOCK);
    }
    for (int32_t block = 0; block < of->blocks; block++) {
#pragma GCC unroll 4
        for (int i = 0; i < SIDE; i++) {
            __m512i rest = _mm512_srai_epi32(_mm512_load_si512(sums[block][i]), 8);
            _mm512_store_si512(rounded[block][i], _mm512_add_epi32(_mm512_load_si512(rounded[block][i]), rest));
        }
    }
}

/* H of 16 dims and all pages, by powers of 256. */
static void weigh_dims(const weighed_pages *of, int32_t block, dim_sums sums[WEIGHT_BYTES])
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    for (int32_t page = 0; page < of->page_count; page++) {
        const int8_t *values = values_of(of, page, block);
        int8_t(*weights)[SIDE][BLOCK] = of->weights[page];
        _tile_loadd(6, values, BLOCK);
        _tile_loadd(7, weights[0], BLOCK);
        _tile_dpbsud(0, 6, 7);
        _tile_loadd(5, values + TILE_BYTES, BLOCK);
        _tile_loadd(7, weights[1], BLOCK);
        _tile_dpbsud(0, 5, 7);
        _tile_dpbsud(1, 6, 7);
        _tile_loadd(7, weights[2], BLOCK);
        _tile_dpbsud(1, 5, 7);
        _tile_dpbsud(2, 6, 7);
        _tile_loadd(7, weights[3], BLOCK);
        _tile_dpbsud(2, 5, 7);
        _tile_dpbsud(3, 6, 7);
        if (!of->has_top[page]) continue;
        _tile_loadd(7, weights[4], BLOCK);
        _tile_dpbsud(3, 5, 7);
        _tile_dpbsud(4, 6, 7);
    }
    _tile_stored(0, sums[0], BLOCK);
    _tile_stored(1, sums[1], BLOCK);
    _tile_stored(2, sums[2], BLOCK);
    _tile_stored(3, sums[3], BLOCK);
    _tile_stored(4, sums[4], BLOCK);
}

/* Step 5 for 16 dims: add what is rounded and H. */
static void add_dims(dim_sums sums[WEIGHT_BYTES], dim_sums rounded, int64_t numerators[SIDE][SSLM_LANES])
{
#pragma GCC unroll 2
    for (int i = 0; i < SIDE; i++) {
        /* The 32 low bits may overflow, the others carry. */
        __m512i upper = _mm512_add_epi32(_mm512_load_si512(rounded[i]), _mm512_load_si512(sums[0][i])), lower = upper;
#pragma GCC unroll 4
        for (int byte = 1; byte < WEIGHT_BYTES; byte++) {
            __m512i sum = _mm512_load_si512(sums[byte][i]);
            upper = _mm512_add_epi32(_mm512_srai_epi32(upper, 8), sum);
            if (byte < 4) lower = _mm512_add_epi32(lower, _mm512_slli_epi32(sum, 8 * byte));
        }
        __m512i sum[2] = {_mm512_unpacklo_epi32(lower, upper), _mm512_unpackhi_epi32(lower, upper)};
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            int64_t *to = numerators[i] + 8 * half;
            _mm512_store_si512(to, _mm512_add_epi64(_mm512_load_si512(to), sum[half]));
        }
    }
}

/* All of a page for one lane, as for a single row. */
static void attend_lane(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page, int32_t lane)
{
    int32_t scores[SSLM_PAGE_TOKENS];
    uint8_t exponents[SSLM_PAGE_TOKENS];
    for (int32_t token = 0; token < SSLM_PAGE_TOKENS; token++) {
        scores[token] = head->scores[page->score_start + token][lane];
        exponents[token] = (uint8_t)page->exponents[token];
    }
    sslm_row_page seen = {
        .codes = page->codes,
        .exponents = exponents,
        .near = page->codes,
        .far = {page->codes, page->codes, page->codes, page->codes},
        .head_dim = tile->head_dim,
        .value_exponent = tile->value_exponents[lane],
        .nodes = tile->nodes,
    };
    clip_page(page->first_position / SSLM_PAGE_TOKENS, tile->first_keys[lane], tile->last_keys[lane], &seen.first,
              &seen.last);
    sslm_row_heads row;
    sslm_row_head *own = &row.heads[0];
    memset(own, 0, sizeof *own);
    own->largest = head->largest[lane];
    own->scores = scores;
    row.head_count = 1;
    sslm_attend_row_amx(&row, &seen);
    head->denominators[lane] += own->denominator;
    int32_t place = numerator_place(lane);
    for (int32_t d = 0; d < tile->head_dim; d++) head->numerators[d][place] += own->numerators[row_place(d)];
}

/* Weigh the keys of a page, and add what only a page by itself has to the sums. */
static void weigh_page_of(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                          const power_lines *lines, const weighed_pages *of, int32_t index, int *has_top,
                          dim_sums *rounded)
{
    page_groups groups = weigh_page_raised(tile, head, page, lines, of->weights[index]);
    *has_top = groups.has_top;
    if (groups.has_near_rest) {
        _Alignas(64) int8_t near[SIDE][BLOCK], far[SIDE][BLOCK];
        part_lowest(head, page, &groups, of->weights[index], near, far);
        round_lowest(of, index, near, rounded);
        round_lowest(of, index, far, rounded);
    } else {
        round_lowest(of, index, of->weights[index][0], rounded);
    }
    for (int32_t lane = 0; lane < SSLM_LANES; lane++)
        if (groups.is_odd >> lane & 1) attend_lane(tile, head, page, lane);
}

void sslm_attend_pages_amx(sslm_tile *tile, const sslm_tile_page *pages, int32_t page_count)
{
    _Alignas(64) dim_sums rounded[SSLM_HEAD_DIM_MAX / SIDE], sums[WEIGHT_BYTES];
    const int8_t *values[SSLM_TILE_PAGES_MAX];
    int has_top[SSLM_TILE_PAGES_MAX];
    power_lines lines = lines_of(tile->nodes);
    weighed_pages of = {
        .blocks = (tile->head_dim + SIDE - 1) / SIDE,
        .page_count = page_count,
        .values = values,
        .weights = (weight_planes *)tile->weights,
        .has_top = has_top,
    };
    for (int32_t i = 0, slot; i < page_count; i++) {
        const int16_t *codes = pages[i].codes;
        int8_t *packed = place_of(&tile->values, tile, &pages[i], &slot);
        if (!is_packed(&tile->values, slot, codes)) pack_values((size_t)tile->head_dim, codes, packed);
        values[i] = packed;
    }
    for (int32_t index = 0; index < tile->head_count; index++) {
        sslm_tile_head *head = &tile->heads[index];
        memset(rounded, 0, sizeof(dim_sums) * (size_t)of.blocks);
        for (int32_t i = 0; i < page_count; i++)
            weigh_page_of(tile, head, &pages[i], &lines, &of, i, &has_top[i], rounded);
        TILES_READ_MEMORY();
        for (int32_t block = 0; block < of.blocks; block++) {
            weigh_dims(&of, block, sums);
            add_dims(sums, rounded[block], head->numerators + SIDE * block);
        }
    }
}

void sslm_start_tile_amx(void)
{
    _tile_loadconfig(&shapes[SIDE - 1]);
}

void sslm_end_tile_amx(void)
{
    _tile_release();
}
