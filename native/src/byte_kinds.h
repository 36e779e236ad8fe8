/* Kinds of bytes: which ones stay inside of a text, and which between its characters. */
#ifndef SSLM_BYTE_KINDS_H
#define SSLM_BYTE_KINDS_H

#include "sslm_native.h"

static inline uint8_t byte_kind(uint8_t byte)
{
    if (byte == '"') return SSLM_QUOTE;
    return byte == '\\' || byte >= 0x80 ? SSLM_IN_TEXT : SSLM_PLAIN;
}

#endif
