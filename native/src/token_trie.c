/* The bytes of a vocabulary, each common beginning once; and which tokens are alike. */
#include "byte_kinds.h"
#include "sslm_native.h"

static uint32_t common_size(const uint8_t *a, uint32_t a_size, const uint8_t *b, uint32_t b_size)
{
    uint32_t size = 0;
    while (size < a_size && size < b_size && a[size] == b[size]) size++;
    return size;
}

uint32_t sslm_native_token_prefixes(const sslm_token_list *tokens, const sslm_token_prefixes *out)
{
    uint32_t node_count = 0, depth = 0, section = 0;
    const uint8_t *last = NULL;
    for (uint32_t i = 0; i <= tokens->count; i++) {
        const uint8_t *token = tokens->bytes + tokens->offsets[i];
        uint32_t token_size = i < tokens->count ? tokens->offsets[i + 1] - tokens->offsets[i] : 0;
        uint32_t common = common_size(last, depth, token, token_size);
        while (section <= SSLM_SECTION_COUNT && tokens->section_tokens[section] == i) {
            out->section_nodes[section++] = node_count;
            common = 0;
        }
        for (; depth > common; depth--) {
            uint32_t node = out->path[depth], parent = out->path[depth - 1];
            out->ends[node] = node_count;
            if (depth == 1) continue;
            uint32_t size = out->heights[node] + 1u, tail = out->tails[node];
            if (out->heights[parent] < size) out->heights[parent] = (uint16_t)size;
            uint8_t kind = byte_kind(out->bytes[node]);
            if (kind == SSLM_MARK) tail = size;
            if (kind < out->kinds[node]) kind = out->kinds[node];
            if (out->kinds[parent] < kind) out->kinds[parent] = kind;
            if (out->tails[parent] < tail) out->tails[parent] = (uint16_t)tail;
        }
        while (depth < token_size) {
            out->path[++depth] = node_count;
            out->bytes[node_count] = token[depth - 1];
            out->depths[node_count] = (uint16_t)depth;
            out->heights[node_count] = 0;
            out->tails[node_count] = 0;
            out->kinds[node_count] = 0;
            out->first_ids[node_count++] = i;
        }
        last = token;
    }
    out->first_ids[node_count] = tokens->count;
    for (uint32_t node = out->section_nodes[SSLM_SECTION_OTHER]; node < node_count; node++)
        if (out->kinds[node] < SSLM_IN_TEXT) out->kinds[node] = SSLM_IN_TEXT;
    return node_count;
}

/* The characters of a token that has only whole ones. */
static uint32_t length_of(const uint8_t *token, uint32_t size)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < size; i++) length += (token[i] & 0xc0) != 0x80;
    return length;
}

uint32_t sslm_native_token_masks(const sslm_token_list *tokens, const int32_t *token_ids, uint32_t mask_words,
                                 const sslm_token_masks *out)
{
    uint32_t long_count = 0, section = 0;
    for (uint32_t i = 0; i < tokens->count; i++) {
        while (tokens->section_tokens[section + 1] <= i) section++;
        uint32_t word = (uint32_t)token_ids[i] / 32, bit = 1u << token_ids[i] % 32;
        out->section_masks[(size_t)section * mask_words + word] |= bit;
        if (section == SSLM_SECTION_OTHER) continue;
        uint32_t offset = tokens->offsets[i], size = tokens->offsets[i + 1] - offset;
        uint32_t length = length_of(tokens->bytes + offset, size);
        for (uint32_t than = 0; than < length && than < SSLM_LONGER_MASKS; than++)
            out->longer_masks[(size_t)than * mask_words + word] |= bit;
        if (length < SSLM_LONGER_MASKS) continue;
        out->long_tokens[long_count] = (uint32_t)token_ids[i];
        out->long_lengths[long_count++] = (uint16_t)length;
    }
    return long_count;
}
