/* The inner loops of rows where there are tiles beside AVX-512. */
#include "rows_512.h"
