/* A small pool of threads for loops whose iterations do not depend on one another. */
#ifndef SSLM_THREADS_H
#define SSLM_THREADS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sslm_native.h"
#include "system_threads.h"

/* Do items first … last - 1. thread counts from 0, the caller of sslm_pool_run. */
typedef void (*sslm_task)(const void *job, int32_t first, int32_t last, int32_t thread);

typedef struct sslm_pool sslm_pool;

typedef struct {
    sslm_pool *pool;
    int32_t index;
    sslm_system_thread thread;
} sslm_worker;

/* A loop is cut into chunks. `ticket` holds the number of the loop in its high half and the chunks that
 * nobody has taken in its low half, so that a thread that wakes late can take no chunk of a loop that it
 * did not look at. A loop is over when all its chunks are done. */
struct sslm_pool {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t done;          /* chunks */
    _Alignas(64) _Atomic uint32_t published;     /* changes with every loop: idle workers sleep on it */
    _Atomic uint32_t sleeping_workers;
    _Atomic uint32_t is_caller_sleeping;
    _Atomic uint32_t is_stopping;
    _Atomic uint32_t is_cancelled;               /* cancel was seen to be set */
    sslm_task task;
    const void *job;
    const int32_t *cancel;                       /* nonzero skips the chunks that are left; or NULL */
    int32_t item_count;
    int32_t chunk_items;
    uint32_t chunk_count;
    int32_t worker_count;
    sslm_worker *workers;
    sslm_sleepers sleepers;
};

/* Start thread_count - 1 workers, described in workers[]. 0, or a negative number if one did not start. */
int32_t sslm_pool_start(sslm_pool *pool, sslm_worker *workers, int32_t thread_count);

/* Do all items in chunks of chunk_items, with the workers' help, and return when they are done. */
void sslm_pool_run(sslm_pool *pool, sslm_task task, const void *job, int32_t item_count, int32_t chunk_items);

/* From now on skip the chunks that are left once *cancel is seen to be nonzero; NULL for never. */
void sslm_pool_watch(sslm_pool *pool, const int32_t *cancel);

/* Whether the flag is set, or was seen to be since sslm_pool_watch, by any thread: the host may clear it at any
 * time, and what was skipped stays skipped. */
int32_t sslm_pool_is_cancelled(sslm_pool *pool);

/* Join the workers. */
void sslm_pool_stop(sslm_pool *pool);

#endif
