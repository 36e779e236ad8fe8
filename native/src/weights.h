/* The polynomial of weights: docs/arithmetic.md 5.4. */
#ifndef SSLM_WEIGHTS_H
#define SSLM_WEIGHTS_H

#define SSLM_WEIGHT_BITS 40
#define SSLM_EXPONENT_BITS 24

/* c_1 … c_7, with 32 fraction bits. */
#define SSLM_WEIGHT_1 2977044459u
#define SSLM_WEIGHT_2 1031764650u
#define SSLM_WEIGHT_3 238385494u
#define SSLM_WEIGHT_4 41298234u
#define SSLM_WEIGHT_5 5702267u
#define SSLM_WEIGHT_6 632021u
#define SSLM_WEIGHT_7 46333u

#endif
