/* The inner loops of rows with AVX-512. */
#include "rows_512.h"
