/* Products of int4 weights with AVX-512. */
#include "int4_512.h"

void sslm_store_codes_int4_avx512vnni(const sslm_rows *rows, int32_t row, const int16_t *codes)
{
    store_codes_int4(rows, row, codes);
}

void sslm_multiply_int4_avx512vnni(const sslm_products *products, int32_t first, int32_t last)
{
    multiply_with(dot_int4, INT4_ROWS, products, first, last);
}
