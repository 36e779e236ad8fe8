/* Keeping streams of weights from memory under way. */
#ifndef SSLM_STREAM_H
#define SSLM_STREAM_H

#include "inner.h"

/* How far ahead lines are asked for, to be near and to be nearer: of all streams together. The hardware's own
 * prefetching stops at each page of memory, and one distance alone keeps too few lines under way. */
#define STREAM_NEAR_BYTES 3072
#define STREAM_FAR_BYTES 6144

/* Ask for what one of stream_count streams will come to, which is at a line of 64 bytes now. */
ALWAYS_INLINE void keep_streaming(const void *line, const int stream_count)
{
    __builtin_prefetch((const char *)line + STREAM_NEAR_BYTES / stream_count, 0, 3);
    __builtin_prefetch((const char *)line + STREAM_FAR_BYTES / stream_count, 0, 2);
}

#endif
