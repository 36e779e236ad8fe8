/* Products with AVX-512 and its dot products of bytes. */
#include "products_512.h"

void sslm_store_codes_avx512vnni(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    store_codes(rows, row, codes);
}

void sslm_dot_panel_avx512vnni(const int8_t *panel, const sslm_rows *codes, const int32_t *picked, int32_t count,
                               int64_t *sums)
{
    dot_panel(panel, codes, picked, count, sums);
}
