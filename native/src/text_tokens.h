/* Tokens of all sections but the last, which are whole characters of texts, by how many they have. */
#ifndef SSLM_TEXT_TOKENS_H
#define SSLM_TEXT_TOKENS_H

#include "sslm_native.h"

static inline const uint32_t *longer_mask(const sslm_token_trie *trie, uint32_t than)
{
    return trie->longer_masks + (size_t)than * trie->mask_words;
}

/* Add those of up to so many characters. */
static inline void add_up_to(const sslm_token_trie *trie, uint32_t length, uint32_t *mask)
{
    const uint32_t *all = longer_mask(trie, 0);
    if (length < SSLM_LONGER_MASKS) {
        const uint32_t *longer = longer_mask(trie, length);
        for (uint32_t i = 0; i < trie->mask_words; i++) mask[i] |= all[i] & ~longer[i];
        return;
    }
    for (uint32_t i = 0; i < trie->mask_words; i++) mask[i] |= all[i];
    for (uint32_t i = 0; i < trie->long_count; i++)
        if (trie->long_lengths[i] > length) mask[trie->long_tokens[i] / 32] &= ~(1u << trie->long_tokens[i] % 32);
}

/* Take away those of fewer characters. base has all that mask may have. */
static inline void keep_from(const sslm_token_trie *trie, uint32_t length, const uint32_t *base, uint32_t *mask)
{
    const uint32_t *all = longer_mask(trie, 0);
    if (length <= SSLM_LONGER_MASKS) {
        const uint32_t *kept = longer_mask(trie, length - 1);
        for (uint32_t i = 0; i < trie->mask_words; i++) mask[i] &= ~(all[i] & ~kept[i]);
        return;
    }
    for (uint32_t i = 0; i < trie->mask_words; i++) mask[i] &= ~all[i];
    for (uint32_t i = 0; i < trie->long_count; i++) {
        uint32_t word = trie->long_tokens[i] / 32, bit = 1u << trie->long_tokens[i] % 32;
        if (trie->long_lengths[i] >= length) mask[word] |= base[word] & bit;
    }
}

#endif
