/* The pool: its threads take the tasks of a loop one by one. */
#include "threads.h"

#include "relax.h"

/* About 50 µs. Longer spins cost milliseconds when other processes want the cores. */
#define SPIN_COUNT 2000

/* Take a task that nobody has; false if there is none. */
static int take_task(sslm_pool *pool, uint32_t *untaken)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((uint32_t)ticket != 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *untaken = (uint32_t)ticket - 1;
            return 1;
        }
    }
    return 0;
}

static void do_tasks(sslm_pool *pool)
{
    uint32_t untaken;
    while (take_task(pool, &untaken)) {
        uint32_t count = pool->task_count;
        pool->task(pool->argument, (int32_t)(count - 1 - untaken));
        /* After its last task a loop's fields may change: nothing but the counters is touched from here. */
        uint32_t done = atomic_fetch_add(&pool->done, 1) + 1;
        if (done == count && atomic_load(&pool->is_caller_sleeping)) sslm_wake(&pool->sleepers, &pool->done);
    }
}

static void work(void *argument)
{
    sslm_pool *pool = ((const sslm_worker *)argument)->pool;
    for (;;) {
        /* First what was published, then everything that publishing announces: nothing can be missed. */
        uint32_t seen = atomic_load(&pool->published);
        if (atomic_load(&pool->is_stopping)) break;
        do_tasks(pool);
        for (int i = 0; i < SPIN_COUNT && atomic_load(&pool->published) == seen; i++) relax();
        if (atomic_load(&pool->published) != seen) continue;
        atomic_fetch_add(&pool->sleeping_workers, 1);
        sslm_sleep_on(&pool->sleepers, &pool->published, seen);
        atomic_fetch_sub(&pool->sleeping_workers, 1);
    }
}

static void publish(sslm_pool *pool)
{
    atomic_fetch_add(&pool->published, 1);
    if (atomic_load(&pool->sleeping_workers) != 0) sslm_wake(&pool->sleepers, &pool->published);
}

int32_t sslm_pool_start(sslm_pool *pool, sslm_worker *workers, int32_t thread_count)
{
    atomic_init(&pool->ticket, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->published, 0);
    atomic_init(&pool->sleeping_workers, 0);
    atomic_init(&pool->is_caller_sleeping, 0);
    atomic_init(&pool->is_stopping, 0);
    pool->workers = workers;
    pool->worker_count = 0;
    if (sslm_sleepers_init(&pool->sleepers) != 0) return -1;
    int32_t failure = 0;
    for (int32_t index = 1; index < thread_count && failure == 0; index++) {
        sslm_worker *worker = &workers[index - 1];
        worker->pool = pool;
        failure = sslm_system_thread_start(&worker->thread, work, worker);
        if (failure == 0) pool->worker_count++;
    }
    if (failure == 0) return 0;
    sslm_pool_stop(pool);
    return -1;
}

/* The last tasks may be with workers that the system has set aside. */
static void wait_for_workers(sslm_pool *pool, uint32_t task_count)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == task_count) return;
        relax();
    }
    atomic_store(&pool->is_caller_sleeping, 1);
    for (uint32_t done = atomic_load(&pool->done); done != task_count; done = atomic_load(&pool->done))
        sslm_sleep_on(&pool->sleepers, &pool->done, done);
    atomic_store(&pool->is_caller_sleeping, 0);
}

int32_t sslm_pool_run(void *user, sslm_task task, void *argument, int32_t task_count)
{
    sslm_pool *pool = user;
    uint32_t count = (uint32_t)task_count;
    uint64_t loop = (atomic_load(&pool->ticket) >> 32) + 1;
    pool->task = task;
    pool->argument = argument;
    pool->task_count = count;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->ticket, loop << 32 | count);
    publish(pool);
    do_tasks(pool);
    wait_for_workers(pool, count);
    return 0;
}

void sslm_pool_stop(sslm_pool *pool)
{
    atomic_store(&pool->is_stopping, 1);
    publish(pool);
    for (int32_t i = 0; i < pool->worker_count; i++) sslm_system_thread_join(&pool->workers[i].thread);
    pool->worker_count = 0;
    sslm_sleepers_destroy(&pool->sleepers);
}
