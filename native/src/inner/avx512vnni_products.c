/* Products with AVX-512 and its dot products of bytes. */
#include "outputs_512.h"
#include "products_512.h"

void sslm_store_codes_avx512vnni(const sslm_rows *rows, int32_t row, int16_t *codes)
{
    store_codes(rows, row, codes);
}

void sslm_multiply_avx512vnni(const sslm_products *products, int32_t first, int32_t last)
{
    multiply(products, first, last);
}
