/* The inner loops of attention with AVX-512 and its dot products of pairs. */
#include "attention_512.h"
#include "row_scores_512.h"

/* Pairs of dims lie at [pair][plane][lane]: planes are the high bytes of the codes, and the low ones, as numbers of
 * 16 bits. */
void sslm_pack_queries_avx512vnni(const sslm_tile *tile, sslm_tile_head *head)
{
    for (int32_t first = 0; first < tile->head_dim; first += 32) {
        __m512i high[SSLM_LANES], low[SSLM_LANES];
        for (int lane = 0; lane < SSLM_LANES; lane++) {
            __m512i codes = _mm512_loadu_si512(head->codes[lane] + first);
            high[lane] = _mm512_srai_epi16(_mm512_add_epi16(codes, _mm512_set1_epi16(128)), 8);
            low[lane] = _mm512_sub_epi16(codes, _mm512_slli_epi16(high[lane], 8));
        }
        transpose(high);
        transpose(low);
        int8_t *to = head->packed + 64 * (size_t)first;
        for (int pair = 0; pair < 16; pair++) {
            _mm512_store_si512(to + 128 * pair, high[pair]);
            _mm512_store_si512(to + 128 * pair + 64, low[pair]);
        }
    }
}

/* Two numbers of 16 bits, for every lane. */
ALWAYS_INLINE __m512i spread_pair(const int16_t *pair)
{
    return _mm512_set1_epi32(pair_at(pair));
}

static void score_head(sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page)
{
    size_t head_dim = (size_t)tile->head_dim;
    __m512i largest = _mm512_load_si512(head->largest);
    /* A page holds 64 tokens, so that whole groups of eight can be read whatever they contain; what a last pair has
     * beyond the dims meets a zero. */
    for (int32_t token = page->first / 8 * 8; token < page->last; token += 8) {
        const int16_t *keys = page->codes + (size_t)token * head_dim;
        __m512i high[8], low[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) high[i] = low[i] = _mm512_setzero_si512();
        for (size_t d = 0; d < head_dim; d += 2) {
            __m512i h = _mm512_load_si512(head->packed + 64 * d), l = _mm512_load_si512(head->packed + 64 * d + 64);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __m512i pair = spread_pair(keys + (size_t)i * head_dim + d);
                ADD_PAIRS(high[i], h, pair);
                ADD_PAIRS(low[i], l, pair);
            }
        }
        __m512i right = _mm512_load_si512(head->sum_shifts), left = _mm512_sub_epi32(_mm512_set1_epi32(8), right);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m512i cut = _mm512_add_epi32(_mm512_sllv_epi32(high[i], left), _mm512_srav_epi32(low[i], right));
            largest = finish_scores(tile, head, page, token + i, cut, largest);
        }
    }
    _mm512_store_si512(head->largest, largest);
}

void sslm_score_page_avx512vnni(sslm_tile *tile, const sslm_tile_page *page)
{
    for (int32_t i = 0; i < tile->head_count; i++) score_head(tile, &tile->heads[i], page);
}

/* The weights of the pairs of tokens that have any, in two halves. */
typedef struct {
    __m512i high[SSLM_PAGE_TOKENS / 2];
    __m512i low[SSLM_PAGE_TOKENS / 2];
    int32_t pairs[SSLM_PAGE_TOKENS / 2];
    int32_t count;
} weight_list;

static void list_weights(const sslm_tile_group *group, int32_t first, int32_t last, weight_list *list)
{
    __m512i part = _mm512_set1_epi32(0x3ff);
    int32_t count = 0;
    for (int32_t pair = first; pair < last; pair++) {
        __m512i even = _mm512_load_si512(group->weights[2 * pair]);
        __m512i odd = _mm512_load_si512(group->weights[2 * pair + 1]);
        __m512i high = _mm512_or_si512(_mm512_srli_epi32(even, 10), _mm512_slli_epi32(_mm512_srli_epi32(odd, 10), 16));
        __m512i low = _mm512_or_si512(_mm512_and_si512(even, part), _mm512_slli_epi32(_mm512_and_si512(odd, part), 16));
        list->high[count] = high;
        list->low[count] = low;
        list->pairs[count] = pair;
        count += _mm512_test_epi32_mask(_mm512_or_si512(high, low), _mm512_set1_epi32(-1)) != 0;
    }
    list->count = count;
}

static void add_group(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page,
                      const sslm_tile_group *group)
{
    if (group->is_empty) return;
    weight_list list;
    list_weights(group, page->first / 2, (page->last + 1) / 2, &list);
    group_cut cut = cut_of(tile, group);
    size_t head_dim = (size_t)tile->head_dim;
    /* After the last page's last values there are exponents, so that whole groups of eight dims can be read. */
    for (size_t d = 0; d < head_dim; d += 8) {
        /* Sums of one half of 64 weights times codes fit 32 bits: 1024 · 32639 · 64 < 2^31. */
        __m512i high[8], low[8];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) high[i] = low[i] = _mm512_setzero_si512();
        for (int32_t index = 0; index < list.count; index++) {
            const int16_t *values = page->codes + 2 * ((size_t)list.pairs[index] * head_dim + d);
            __m512i h = list.high[index], l = list.low[index];
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++) {
                __m512i pair = spread_pair(values + 2 * i);
                ADD_PAIRS(high[i], h, pair);
                ADD_PAIRS(low[i], l, pair);
            }
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            __m512i rest = _mm512_slli_epi32(_mm512_and_si512(high[i], _mm512_set1_epi32(63)), 10);
            rest = _mm512_add_epi32(rest, low[i]);
            __m512i upper = _mm512_add_epi32(_mm512_srai_epi32(high[i], 6), _mm512_srai_epi32(rest, 16));
            add_numerators(&cut, upper, _mm512_slli_epi32(rest, 16), head->numerators[d + (size_t)i]);
        }
    }
}

void sslm_attend_page_avx512vnni(sslm_tile *tile, const sslm_tile_page *page)
{
    for (int32_t i = 0; i < tile->head_count; i++) {
        weigh_page(tile, &tile->heads[i], page);
        add_group(tile, &tile->heads[i], page, &tile->near);
        add_group(tile, &tile->heads[i], page, &tile->far);
    }
}
