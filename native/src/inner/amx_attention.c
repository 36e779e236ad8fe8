/* The inner loops of attention where there are tiles beside AVX-512.
 *
 * Codes are 256 · h + l with signed bytes h and l, and weights have three bytes, so that tiles of bytes give exact
 * sums. A tile of keys has 16 tokens, one of values 16 dims; the other operand has the 16 lanes.
 */
#include "amx_tiles.h"
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

/* For every 64 dims the high bytes of 64 tokens, and the low ones; zeros beyond the dims. */
static void pack_keys(sslm_tile *tile, const sslm_tile_page *page)
{
    for (int32_t first = 0; first < tile->head_dim; first += BLOCK) {
        int32_t rest = tile->head_dim - first;
        uint64_t mask = rest < BLOCK ? (UINT64_C(1) << rest) - 1 : UINT64_MAX;
        int8_t *to = tile->packed + 2 * SSLM_PAGE_TOKENS * (size_t)first;
        for (int32_t token = page->first; token < page->last; token++) {
            const int16_t *keys = page->codes + (size_t)token * (size_t)tile->head_dim + first;
            __m512i high, low;
            split_codes(_mm512_maskz_loadu_epi16((__mmask32)mask, keys),
                        _mm512_maskz_loadu_epi16((__mmask32)(mask >> 32), keys + 32), &high, &low);
            _mm512_store_si512(to + BLOCK * token, high);
            _mm512_store_si512(to + BLOCK * (SSLM_PAGE_TOKENS + token), low);
        }
    }
}

typedef struct {
    _Alignas(64) int32_t sums[4][SIDE][SSLM_LANES];
} sum_planes;

/* Sums of 16 tokens from `token` on: of high bytes, of high with low ones, of low ones. */
ALWAYS_INLINE void dot_tokens(const sslm_tile *tile, const sslm_tile_head *head, int32_t token, sum_planes *planes)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int32_t first = 0; first < tile->head_dim; first += BLOCK) {
        const int8_t *keys = tile->packed + 2 * SSLM_PAGE_TOKENS * (size_t)first + BLOCK * token;
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
    _tile_stored(0, planes->sums[0], BLOCK);
    _tile_stored(1, planes->sums[1], BLOCK);
    _tile_stored(2, planes->sums[2], BLOCK);
}

static void finish_tokens(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page, int32_t token,
                          const sum_planes *planes)
{
    __m512i right = _mm512_load_si512(head->sum_shifts), left = _mm512_sub_epi32(_mm512_set1_epi32(8), right);
    __m512i far_left = _mm512_add_epi32(left, _mm512_set1_epi32(8)), largest = _mm512_load_si512(head->largest);
#pragma GCC unroll 4
    for (int i = 0; i < SIDE; i++) {
        __m512i cut = _mm512_sllv_epi32(_mm512_load_si512(planes->sums[0][i]), far_left);
        cut = _mm512_add_epi32(cut, _mm512_sllv_epi32(_mm512_load_si512(planes->sums[1][i]), left));
        cut = _mm512_add_epi32(cut, _mm512_srav_epi32(_mm512_load_si512(planes->sums[2][i]), right));
        largest = finish_scores(tile, head, page, token + i, cut, largest);
    }
    _mm512_store_si512(head->largest, largest);
}

void sslm_score_page_amx(sslm_tile *tile, const sslm_tile_page *page)
{
    sum_planes planes[2];
    int32_t start = page->first / SIDE * SIDE, head = 0, token = start;
    _tile_loadconfig(&shapes[SIDE - 1]);
    pack_keys(tile, page);
    TILES_READ_MEMORY();
    dot_tokens(tile, &tile->heads[0], token, &planes[0]);
    for (int32_t turn = 0; head < tile->head_count; turn ^= 1) {
        int32_t next_token = token + SIDE < page->last ? token + SIDE : start;
        int32_t next_head = next_token == start ? head + 1 : head;
        /* The next sums are on their way while these are read. */
        if (next_head < tile->head_count) dot_tokens(tile, &tile->heads[next_head], next_token, &planes[turn ^ 1]);
        finish_tokens(tile, &tile->heads[head], page, token, &planes[turn]);
        head = next_head;
        token = next_token;
    }
    _tile_release();
}

/* For every 16 dims the high bytes of 64 tokens, and the low ones; zeros beyond the dims. Of four tokens the two in the
 * middle change places. */
static void pack_values(sslm_tile *tile, const sslm_tile_page *page)
{
    size_t head_dim = (size_t)tile->head_dim;
    for (size_t first = 0; first < head_dim; first += SIDE) {
        __mmask16 mask = head_dim - first < SIDE ? (__mmask16)((1u << (head_dim - first)) - 1) : 0xffff;
        __m512i high[SIDE], low[SIDE];
        for (size_t four = 0; four < SSLM_PAGE_TOKENS / 4; four++) {
            const int16_t *values = page->codes + 2 * (2 * four * head_dim + first);
            split_codes(_mm512_maskz_loadu_epi32(mask, values), _mm512_maskz_loadu_epi32(mask, values + 2 * head_dim),
                        &high[four], &low[four]);
        }
        transpose(high);
        transpose(low);
        int8_t *to = tile->packed + 2 * BLOCK * first;
        for (int i = 0; i < SIDE; i++) {
            _mm512_store_si512(to + BLOCK * i, high[i]);
            _mm512_store_si512(to + BLOCK * (SIDE + i), low[i]);
        }
    }
}

typedef int8_t packed_weights[3][SIDE][BLOCK];

/* The three bytes of the weights of four tokens side by side, in the order of pack_values. */
static void pack_weights(const sslm_tile_group *group, packed_weights packed)
{
    __m512i low_half = _mm512_set1_epi32(0xffff), low_byte = _mm512_set1_epi16(0xff);
    __m512i high_byte = _mm512_set1_epi16((short)0xff00);
    for (int four = 0; four < SSLM_PAGE_TOKENS / 4; four++) {
        __m512i n[4], lower[2], upper[2];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) n[i] = _mm512_load_si512(group->weights[4 * four + i]);
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            lower[i] = _mm512_or_si512(_mm512_and_si512(n[2 * i], low_half), _mm512_slli_epi32(n[2 * i + 1], 16));
            upper[i] = _mm512_or_si512(_mm512_srli_epi32(n[2 * i], 16), _mm512_andnot_si512(low_half, n[2 * i + 1]));
        }
        _mm512_store_si512(packed[0][four], _mm512_or_si512(_mm512_and_si512(lower[0], low_byte),
                                                            _mm512_slli_epi16(lower[1], 8)));
        _mm512_store_si512(packed[1][four], _mm512_or_si512(_mm512_srli_epi16(lower[0], 8),
                                                            _mm512_and_si512(lower[1], high_byte)));
        _mm512_store_si512(packed[2][four], _mm512_or_si512(upper[0], _mm512_slli_epi16(upper[1], 8)));
    }
}

/* Sums of 16 dims by powers of 256. */
ALWAYS_INLINE void weigh_dims(const int8_t *values, packed_weights weights, sum_planes *planes)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(5, values + SIDE * BLOCK, BLOCK);
    _tile_loadd(6, weights[0], BLOCK);
    _tile_dpbsud(0, 5, 6);
    _tile_loadd(4, values, BLOCK);
    _tile_dpbsud(1, 4, 6);
    _tile_loadd(7, weights[1], BLOCK);
    _tile_dpbsud(2, 4, 7);
    _tile_loadd(6, weights[2], BLOCK);
    _tile_dpbsud(3, 4, 6);
    _tile_dpbsud(1, 5, 7);
    _tile_dpbsud(2, 5, 6);
    _tile_stored(0, planes->sums[0], BLOCK);
    _tile_stored(1, planes->sums[1], BLOCK);
    _tile_stored(2, planes->sums[2], BLOCK);
    _tile_stored(3, planes->sums[3], BLOCK);
}

ALWAYS_INLINE void add_dims(const group_cut *cut, const sum_planes *planes, int64_t numerators[SIDE][SSLM_LANES])
{
#pragma GCC unroll 4
    for (int i = 0; i < SIDE; i++) {
        __m512i lower = _mm512_slli_epi32(_mm512_load_si512(planes->sums[1][i]), 8);
        lower = _mm512_add_epi32(lower, _mm512_load_si512(planes->sums[0][i]));
        __m512i upper = _mm512_slli_epi32(_mm512_load_si512(planes->sums[3][i]), 8);
        upper = _mm512_add_epi32(upper, _mm512_load_si512(planes->sums[2][i]));
        upper = _mm512_add_epi32(upper, _mm512_srai_epi32(lower, 16));
        add_numerators(cut, upper, _mm512_slli_epi32(lower, 16), numerators[i]);
    }
}

/* What the groups of a head that are not empty add. */
typedef struct {
    _Alignas(64) packed_weights weights[2];
    group_cut cuts[2];
    int32_t count;
} head_weights;

static void pack_groups(const sslm_tile *tile, head_weights *packed)
{
    const sslm_tile_group *groups[2] = {&tile->near, &tile->far};
    packed->count = 0;
    for (int i = 0; i < 2; i++) {
        if (groups[i]->is_empty) continue;
        pack_weights(groups[i], packed->weights[packed->count]);
        packed->cuts[packed->count++] = cut_of(tile, groups[i]);
    }
    TILES_READ_MEMORY();
}

void sslm_attend_page_amx(sslm_tile *tile, const sslm_tile_page *page)
{
    head_weights packed;
    sum_planes planes[2];
    int32_t blocks = (tile->head_dim + SIDE - 1) / SIDE;
    _tile_loadconfig(&shapes[SIDE - 1]);
    pack_values(tile, page);
    weigh_page(tile, &tile->heads[0], page);
    for (int32_t index = 0; index < tile->head_count; index++) {
        pack_groups(tile, &packed);
        weigh_dims(tile->packed, packed.weights[0], &planes[0]);
        /* The next sums are on their way while these are read, and while the next head's keys are weighed. */
        if (index + 1 < tile->head_count) weigh_page(tile, &tile->heads[index + 1], page);
        for (int32_t turn = 0; turn < blocks * packed.count; turn++) {
            int32_t next = turn + 1, block = turn % blocks;
            if (next < blocks * packed.count)
                weigh_dims(tile->packed + 2 * BLOCK * SIDE * (size_t)(next % blocks), packed.weights[next / blocks],
                           &planes[next % 2]);
            add_dims(&packed.cuts[turn / blocks], &planes[turn % 2], tile->heads[index].numerators + SIDE * block);
        }
    }
    _tile_release();
}
