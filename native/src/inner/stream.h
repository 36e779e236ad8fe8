/* Keeping a stream of weights from memory under way. */
#ifndef SSLM_STREAM_H
#define SSLM_STREAM_H

#include "inner.h"

/* How far ahead lines are asked for, to be near and to be nearer. The hardware's own prefetching stops at each page
 * of memory, and one distance alone keeps too few lines under way. */
#define STREAM_NEAR_BYTES 3072
#define STREAM_FAR_BYTES 6144

/* Ask for what the stream at a line of 64 bytes will come to. */
ALWAYS_INLINE void keep_streaming(const void *line)
{
    __builtin_prefetch((const char *)line + STREAM_NEAR_BYTES, 0, 3);
    __builtin_prefetch((const char *)line + STREAM_FAR_BYTES, 0, 2);
}

#endif
