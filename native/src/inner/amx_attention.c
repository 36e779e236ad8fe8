/* The inner loops of attention where there are tiles beside AVX-512. */
#include "attention_512.h"
