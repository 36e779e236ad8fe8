/* A clock that only goes forward. */
#ifndef SSLM_CLOCK_H
#define SSLM_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some moment. */
int64_t sslm_now_ns(void);

#endif
