/* The clock of Windows, and that of systems with POSIX. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "clock.h"

#if defined(_WIN32)
#include <windows.h>

int64_t sslm_now_ns(void)
{
    LARGE_INTEGER ticks, ticks_per_s;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&ticks_per_s);
    int64_t seconds = ticks.QuadPart / ticks_per_s.QuadPart, rest = ticks.QuadPart % ticks_per_s.QuadPart;
    return seconds * 1000000000 + rest * 1000000000 / ticks_per_s.QuadPart;
}
#else
#include <time.h>

int64_t sslm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
#endif
