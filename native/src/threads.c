/* The pool: a loop is cut into chunks, which its threads take one by one. */
#include "threads.h"

#ifdef SSLM_X86
#include <immintrin.h>
#define relax() _mm_pause()
#elif defined(__aarch64__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void)0)
#endif

/* About 50 µs. Longer spins cost milliseconds when other processes want the cores. */
#define SPIN_COUNT 2000

void sslm_pool_watch(sslm_pool *pool, const int32_t *cancel)
{
    atomic_store(&pool->is_cancelled, 0);
    pool->cancel = cancel;
}

int32_t sslm_pool_is_cancelled(sslm_pool *pool)
{
    if (pool->cancel == NULL) return 0;
    if (atomic_load_explicit(&pool->is_cancelled, memory_order_relaxed)) return 1;
    if (__atomic_load_n(pool->cancel, __ATOMIC_RELAXED) == 0) return 0;
    /* The count of done chunks, which comes after, makes this visible to whoever waits for the loop. */
    atomic_store_explicit(&pool->is_cancelled, 1, memory_order_relaxed);
    return 1;
}

/* Take a chunk that nobody has; false if there is none. */
static int take_chunk(sslm_pool *pool, uint32_t *chunk)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((uint32_t)ticket != 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *chunk = (uint32_t)ticket - 1;
            return 1;
        }
    }
    return 0;
}

static void do_chunks(sslm_pool *pool, int32_t thread)
{
    uint32_t chunk;
    while (take_chunk(pool, &chunk)) {
        uint32_t count = pool->chunk_count;
        int32_t first = (int32_t)(count - 1 - chunk) * pool->chunk_items;
        int32_t rest = pool->item_count - first;
        int32_t last = rest < pool->chunk_items ? pool->item_count : first + pool->chunk_items;
        if (!sslm_pool_is_cancelled(pool)) pool->task(pool->job, first, last, thread);
        /* After its last chunk a loop's fields may change: nothing but the counters is touched from here. */
        uint32_t done = atomic_fetch_add(&pool->done, 1) + 1;
        if (done == count && atomic_load(&pool->is_caller_sleeping)) sslm_wake(&pool->sleepers, &pool->done);
    }
}

static void work(void *argument)
{
    const sslm_worker *worker = argument;
    sslm_pool *pool = worker->pool;
    for (;;) {
        /* First what was published, then everything that publishing announces: nothing can be missed. */
        uint32_t seen = atomic_load(&pool->published);
        if (atomic_load(&pool->is_stopping)) break;
        do_chunks(pool, worker->index);
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
    atomic_init(&pool->is_cancelled, 0);
    pool->cancel = NULL;
    pool->workers = workers;
    pool->worker_count = 0;
    if (sslm_sleepers_init(&pool->sleepers) != 0) return -1;
    int32_t failure = 0;
    for (int32_t index = 1; index < thread_count && failure == 0; index++) {
        sslm_worker *worker = &workers[index - 1];
        worker->pool = pool;
        worker->index = index;
        failure = sslm_system_thread_start(&worker->thread, work, worker);
        if (failure == 0) pool->worker_count++;
    }
    if (failure == 0) return 0;
    sslm_pool_stop(pool);
    return -1;
}

/* The last chunks may be with workers that the system has set aside. */
static void wait_for_workers(sslm_pool *pool, uint32_t chunk_count)
{
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == chunk_count) return;
        relax();
    }
    atomic_store(&pool->is_caller_sleeping, 1);
    for (uint32_t done = atomic_load(&pool->done); done != chunk_count; done = atomic_load(&pool->done))
        sslm_sleep_on(&pool->sleepers, &pool->done, done);
    atomic_store(&pool->is_caller_sleeping, 0);
}

void sslm_pool_run(sslm_pool *pool, sslm_task task, const void *job, int32_t item_count, int32_t chunk_items)
{
    uint32_t chunk_count = (uint32_t)(item_count / chunk_items + (item_count % chunk_items != 0));
    if (chunk_count == 0) return;
    uint64_t loop = (atomic_load(&pool->ticket) >> 32) + 1;
    pool->task = task;
    pool->job = job;
    pool->item_count = item_count;
    pool->chunk_items = chunk_items;
    pool->chunk_count = chunk_count;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->ticket, loop << 32 | chunk_count);
    if (pool->worker_count > 0 && chunk_count > 1) publish(pool);
    do_chunks(pool, 0);
    wait_for_workers(pool, chunk_count);
}

void sslm_pool_stop(sslm_pool *pool)
{
    atomic_store(&pool->is_stopping, 1);
    publish(pool);
    for (int32_t i = 0; i < pool->worker_count; i++) sslm_system_thread_join(&pool->workers[i].thread);
    pool->worker_count = 0;
    sslm_sleepers_destroy(&pool->sleepers);
}
