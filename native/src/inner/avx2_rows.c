/* The inner loops of rows with AVX2. */
#include "rows_256.h"
