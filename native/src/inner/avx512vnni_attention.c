/* The inner loops of attention with AVX-512. */
#include "attention_512.h"
