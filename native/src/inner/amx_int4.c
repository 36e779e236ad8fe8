/* Products of int4 weights where there are tiles beside AVX-512. */
#include "int4_512.h"

void sslm_store_codes_int4_amx(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    store_codes_int4(rows, row, codes);
}

void sslm_dot_panel_int4_amx(const uint8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                             int64_t *sums)
{
    dot_panel_int4(panel, codes, picked, count, sums);
}
