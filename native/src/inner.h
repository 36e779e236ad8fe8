/* What the loops have in common that each tier writes for itself, in inner/. */
#ifndef SSLM_INNER_H
#define SSLM_INNER_H

#include "kernels.h"
#include "tier.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#endif
