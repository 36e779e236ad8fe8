/* The scalar tier has no lanes: its ops do whole rows. */
#include "rows.h"

int32_t sslm_normalize_lanes_scalar(const int32_t *x, const int32_t *gain, int32_t count, int32_t exponent,
                                    int32_t reciprocal, int32_t shift, int32_t *y)
{
    (void)x, (void)gain, (void)count, (void)exponent, (void)reciprocal, (void)shift, (void)y;
    return 0;
}

int32_t sslm_rotate_lanes_scalar(const sslm_rotation *rotation, int32_t position, int32_t *row, int32_t width)
{
    (void)rotation, (void)position, (void)row, (void)width;
    return 0;
}

int32_t sslm_activate_lanes_scalar(const int32_t *nodes, const int32_t *gate, const int32_t *up, int32_t count,
                                   int32_t shift, int32_t *activated, uint64_t *largest)
{
    (void)nodes, (void)gate, (void)up, (void)count, (void)shift, (void)activated, (void)largest;
    return 0;
}

int32_t sslm_multiply_lanes_scalar(const int32_t *left, const int32_t *right, int32_t count, int32_t exponent,
                                   int16_t *codes)
{
    (void)left, (void)right, (void)count, (void)exponent, (void)codes;
    return 0;
}

int32_t sslm_weigh_lanes_scalar(const uint32_t *exponents, int32_t count, uint64_t *weights)
{
    (void)exponents, (void)count, (void)weights;
    return 0;
}
