/* Kinds of bytes: which ones stay inside of a text, and which between its characters. */
#ifndef SSLM_BYTE_KINDS_H
#define SSLM_BYTE_KINDS_H

#include "sslm_native.h"

static inline uint8_t byte_kind(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z') return SSLM_LOWER;
    if (byte >= 'A' && byte <= 'Z') return SSLM_LETTER;
    if (byte >= '0' && byte <= '9') return SSLM_DIGIT;
    if (byte >= 0x80) return SSLM_WHOLE;
    if (byte == '\\') return SSLM_IN_TEXT;
    return byte == '"' || byte < ' ' ? SSLM_MARK : SSLM_PLAIN;
}

#endif
