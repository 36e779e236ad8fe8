/* The built-in pool of threads: one more way to run the tasks of a loop, as a host's hook is. */
#ifndef SSLM_THREADS_H
#define SSLM_THREADS_H

#include <stdatomic.h>
#include <stdint.h>

#include "sslm_native.h"
#include "system_threads.h"

typedef struct sslm_pool sslm_pool;

typedef struct {
    sslm_pool *pool;
    sslm_system_thread thread;
} sslm_worker;

/* `ticket` holds the number of the loop in its high half and the tasks that nobody has taken in its low half,
 * so that a thread that wakes late can take no task of a loop that it did not look at. A loop is over when all
 * its tasks are done. */
struct sslm_pool {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t done;          /* tasks */
    _Alignas(64) _Atomic uint32_t published;     /* changes with every loop: idle workers sleep on it */
    _Atomic uint32_t sleeping_workers;
    _Atomic uint32_t is_caller_sleeping;
    _Atomic uint32_t is_stopping;
    sslm_task task;
    void *argument;
    uint32_t task_count;
    int32_t worker_count;
    sslm_worker *workers;
    sslm_sleepers sleepers;
};

/* Start thread_count - 1 workers, described in workers[]. 0, or a negative number if one did not start. */
int32_t sslm_pool_start(sslm_pool *pool, sslm_worker *workers, int32_t thread_count);

/* Do all tasks, with the workers' help: the run of an sslm_parallel_for whose user is the pool. Returns 0. */
int32_t sslm_pool_run(void *user, sslm_task task, void *argument, int32_t task_count);

/* Join the workers. */
void sslm_pool_stop(sslm_pool *pool);

#endif
