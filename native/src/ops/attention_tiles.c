/* attention of several rows at once: docs/arithmetic.md 3.7. Lanes are rows. */
#include "attention.h"

typedef struct {
    sslm_head_place keys;
    sslm_tile *tile;
    int32_t first_row;
    int32_t first_page;          /* that some row sees */
    int32_t last_page;           /* included */
} tile_place;

static void see(const tile_place *at)
{
    sslm_tile *tile = at->tile;
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        int32_t row = at->first_row + (lane < tile->row_count ? lane : tile->row_count - 1);
        tile->first_keys[lane] = first_key(at->keys.job, row);
        tile->last_keys[lane] = at->keys.job->rows[row].position;
    }
}

static sslm_tile_page page_of(const tile_place *at, int32_t state, int32_t page)
{
    int32_t is_last = page == at->last_page;
    const sslm_tile *tile = at->tile;
    const uint8_t *exponents = page_exponents(&at->keys, state, page);
    sslm_tile_page found = {
        .codes = page_codes(&at->keys, state, page),
        .next = page_codes(&at->keys, is_last ? at->keys.job->op->values : state, is_last ? at->first_page : page + 1),
        .next_step = (size_t)(2 * tile->head_dim + 64 * tile->head_count - 1) / (size_t)(64 * tile->head_count) * 64,
        .first_position = page * SSLM_PAGE_TOKENS,
        .score_start = (page - at->first_page) * SSLM_PAGE_TOKENS,
    };
    int32_t first, last;
    for (int32_t token = 0; token < SSLM_PAGE_TOKENS; token++) found.exponents[token] = exponents[token];
    clip_page(page, tile->first_keys[0], tile->last_keys[tile->row_count - 1], &found.first, &found.last);
    /* What the last row's window and the first row's position leave, all rows see. */
    clip_page(page, tile->first_keys[tile->row_count - 1], tile->last_keys[0], &first, &last);
    found.is_whole = first == found.first && last == found.last;
    return found;
}

/* E of every lane. Most pages are seen whole by all of them. */
static void find_value_exponents(const tile_place *at)
{
    sslm_tile *tile = at->tile;
    int32_t values = at->keys.job->op->values;
    memset(tile->value_exponents, 0, sizeof tile->value_exponents);
    for (int32_t page = at->first_page; page <= at->last_page; page++) {
        const uint8_t *exponents = page_exponents(&at->keys, values, page);
        int32_t is_whole = tile->first_keys[SSLM_LANES - 1] <= page * SSLM_PAGE_TOKENS
                           && tile->last_keys[0] >= (page + 1) * SSLM_PAGE_TOKENS - 1;
        int32_t whole = is_whole ? largest_exponent(exponents, 0, SSLM_PAGE_TOKENS) : 0;
        for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
            int32_t first, last, own = whole;
            clip_page(page, tile->first_keys[lane], tile->last_keys[lane], &first, &last);
            if (!is_whole) own = largest_exponent(exponents, first, last);
            if (own > tile->value_exponents[lane]) tile->value_exponents[lane] = own;
        }
    }
}

static void start_head(const tile_place *at, sslm_tile_head *head, int32_t index)
{
    sslm_tile *tile = at->tile;
    const sslm_rows *source = &at->keys.job->source;
    memset(head->denominators, 0, sizeof head->denominators);
    size_t dims = ((size_t)tile->head_dim + SSLM_LANES - 1) / SSLM_LANES * SSLM_LANES;
    memset(head->numerators, 0, dims * sizeof head->numerators[0]);
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        head->largest[lane] = INT32_MIN;
        head->sum_shifts[lane] = 0;
        head->score_shifts[lane] = INT8_MAX;
        if (lane >= tile->row_count) {
            memset(head->codes[lane], 0, padded_width(tile->head_dim) * sizeof head->codes[lane][0]);
            continue;
        }
        const int32_t *x = int32_row(source, at->first_row + lane) + (size_t)index * (size_t)tile->head_dim;
        query_shifts shifts = TIERED(sslm_quantize_query)(at->keys.job, x, tile->head_dim, head->codes[lane]);
        head->sum_shifts[lane] = shifts.sums;
        head->score_shifts[lane] = shifts.scores;
    }
    TIERED(sslm_pack_queries)(tile, head);
}

/* Whether scores of every key of a page are sums shifted right, which then need no clamp. */
static int32_t are_plain(const sslm_tile *tile, const sslm_tile_page *page)
{
    int32_t exponent = 0, shift = INT8_MAX;
    for (int32_t token = page->first; token < page->last; token++)
        exponent = page->exponents[token] > exponent ? page->exponents[token] : exponent;
    for (int32_t i = 0; i < tile->head_count; i++)
        for (int32_t lane = 0; lane < SSLM_LANES; lane++)
            shift = tile->heads[i].score_shifts[lane] < shift ? tile->heads[i].score_shifts[lane] : shift;
    return shift >= exponent;
}

/* sslm_score_page for any scores and shifts: only models that were made for it come here. */
static void score_page_any(const sslm_tile *tile, sslm_tile_head *head, const sslm_tile_page *page)
{
    for (int32_t lane = 0; lane < SSLM_LANES; lane++) {
        int32_t shift = head->score_shifts[lane] + head->sum_shifts[lane] + 1;
        for (int32_t token = page->first; token < page->last; token++) {
            const int16_t *key = page->codes + (size_t)token * (size_t)tile->head_dim;
            int32_t position = page->first_position + token;
            int32_t score = score_any(head->codes[lane], key, tile->head_dim, shift - page->exponents[token]);
            head->scores[page->score_start + token][lane] = score;
            int32_t is_seen = position >= tile->first_keys[lane] && position <= tile->last_keys[lane];
            if (is_seen && score > head->largest[lane]) head->largest[lane] = score;
        }
    }
}

static void attend_heads(const tile_place *at)
{
    sslm_tile *tile = at->tile;
    const sslm_op *op = at->keys.job->op;
    for (int32_t page = at->first_page; page <= at->last_page; page++) {
        sslm_tile_page keys = page_of(at, op->state, page);
        if (are_plain(tile, &keys)) {
            TIERED(sslm_score_page)(tile, &keys);
        } else {
            for (int32_t i = 0; i < tile->head_count; i++) score_page_any(tile, &tile->heads[i], &keys);
        }
    }
    sslm_tile_page values[SSLM_TILE_PAGES_MAX];
    int32_t together = pages_together(tile->head_dim);
    for (int32_t page = at->first_page, count; page <= at->last_page; page += count) {
        count = at->last_page + 1 - page < together ? at->last_page + 1 - page : together;
        for (int32_t i = 0; i < count; i++) values[i] = page_of(at, op->values, page + i);
        TIERED(sslm_attend_pages)(tile, values, count);
    }
}

void TIERED(sslm_forget_pages)(sslm_thread *thread)
{
    memset(thread->tile->keys.sources, 0, sizeof thread->tile->keys.sources);
    memset(thread->tile->values.sources, 0, sizeof thread->tile->values.sources);
}

void TIERED(sslm_attend_tile)(const sslm_job *job, size_t kv_head, int32_t first_row, int32_t row_count,
                              sslm_thread *thread)
{
    const sslm_state *keys = &job->program->states[job->op->state];
    sslm_tile *tile = thread->tile;
    tile_place at = {
        .keys = {.job = job, .span = job->rows[first_row].span, .kv_head = kv_head, .head_dim = keys->head_dim},
        .tile = tile,
        .first_row = first_row,
        .first_page = first_key(job, first_row) / SSLM_PAGE_TOKENS,
        .last_page = job->rows[first_row + row_count - 1].position / SSLM_PAGE_TOKENS,
    };
    tile->nodes = job->program->pow2_nodes;
    tile->row_count = row_count;
    tile->head_dim = keys->head_dim;
    see(&at);
    find_value_exponents(&at);
    size_t head_scores = (size_t)(at.last_page - at.first_page + 1) * SSLM_PAGE_TOKENS;
    int32_t together = (int32_t)(score_count(job->program) / SSLM_LANES / head_scores);
    if (together > SSLM_TILE_HEADS_MAX) together = SSLM_TILE_HEADS_MAX;
    int32_t group = job->op->heads.head_count / keys->head_count, first_head = (int32_t)kv_head * group;
    TIERED(sslm_start_tile)();
    for (int32_t done = 0; done < group; done += tile->head_count) {
        tile->head_count = group - done < together ? group - done : together;
        for (int32_t i = 0; i < tile->head_count; i++) {
            tile->heads[i].scores = (int32_t(*)[SSLM_LANES])thread->scores + (size_t)i * head_scores;
            start_head(&at, &tile->heads[i], first_head + done + i);
        }
        attend_heads(&at);
        for (int32_t i = 0; i < tile->head_count; i++) {
            int32_t *out = int32_row(&job->out, first_row) + (first_head + done + i) * tile->head_dim;
            TIERED(sslm_divide_tile)(tile, &tile->heads[i], out, job->out.stride_bytes / 4,
                                     site_counts(job, thread) + first_row);
        }
    }
    TIERED(sslm_end_tile)();
}
