/* Codes that are kept as they are, for tiers that have no dot products of bytes. A tier's file includes this once. */
#ifndef SSLM_PLAIN_CODES_H
#define SSLM_PLAIN_CODES_H

#include <string.h>

#include "products.h"

static int16_t *row_codes(const sslm_rows *rows, int32_t row)
{
    return (int16_t *)(void *)rows->base + (size_t)row * padded_width(rows->width);
}

void TIERED(sslm_store_codes)(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    size_t width = (size_t)rows->width, padded = padded_width(rows->width);
    memset(codes + width, 0, (padded - width) * sizeof *codes);
    memcpy(row_codes(rows, row), codes, padded * sizeof *codes);
}

#endif
