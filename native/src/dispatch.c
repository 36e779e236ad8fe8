/* Running the tasks of a loop through a hook that is not trusted. */
#include "dispatch.h"

#include "relax.h"

#define LOOP_COUNT_BITS 9
#define LOOP_COUNT_MASK ((UINT64_C(1) << LOOP_COUNT_BITS) - 1)

/* A fault's low bits are the index, then its kind, then the loop's number without its highest bits. */
#define FAULT_KIND_SHIFT 32
#define FAULT_LOOP_SHIFT 35

/* Items between two looks at the flag that cancels: less than a millisecond of any op. */
#define WATCHED_ITEMS 64

void sslm_dispatch_start(sslm_dispatch *dispatch, sslm_thread *scratch, int32_t scratch_count)
{
    dispatch->scratch = scratch;
    dispatch->hook = (sslm_parallel_for){.run = NULL, .max_tasks = 0};
    for (int32_t i = 0; i < SSLM_TICKETS; i++) dispatch->tickets[i].dispatch = dispatch;
    /* What does not exist is in use for ever. */
    for (int32_t i = scratch_count; i < SSLM_TASK_COUNT_MAX; i++)
        dispatch->used_scratch[i / 64] |= UINT64_C(1) << (i % 64);
}

void sslm_dispatch_watch(sslm_dispatch *dispatch, const int32_t *cancel)
{
    atomic_store(&dispatch->is_cancelled, 0);
    dispatch->cancel = cancel;
}

int32_t sslm_dispatch_is_cancelled(sslm_dispatch *dispatch)
{
    if (dispatch->cancel == NULL) return 0;
    if (atomic_load_explicit(&dispatch->is_cancelled, memory_order_relaxed)) return 1;
    if (__atomic_load_n(dispatch->cancel, __ATOMIC_RELAXED) == 0) return 0;
    /* The task's mark, which comes after, makes this visible to whoever waits for the loop. */
    atomic_store_explicit(&dispatch->is_cancelled, 1, memory_order_relaxed);
    return 1;
}

static uint64_t fault_of(uint64_t number, uint64_t kind, int32_t index)
{
    return number << FAULT_LOOP_SHIFT | kind << FAULT_KIND_SHIFT | (uint32_t)index;
}

/* Whether this is a fault of the loop of a number, and not one that nobody asked for any more. */
static int is_fault_of(uint64_t fault, uint64_t number)
{
    return fault != 0 && fault >> FAULT_LOOP_SHIFT == number << FAULT_LOOP_SHIFT >> FAULT_LOOP_SHIFT;
}

static int is_fault_since(uint64_t fault, uint64_t number)
{
    return fault != 0 && (int64_t)(((fault >> FAULT_LOOP_SHIFT) - number) << FAULT_LOOP_SHIFT) >= 0;
}

/* Keep the first fault of each loop, and none of a loop that is over. */
static void blame(sslm_dispatch *dispatch, uint64_t number, uint64_t kind, int32_t index)
{
    uint64_t before = atomic_load(&dispatch->fault), fault = fault_of(number, kind, index);
    while (!is_fault_since(before, number) && !atomic_compare_exchange_weak(&dispatch->fault, &before, fault)) {}
}

/* Take a task for a loop; false if it was taken in this one, or the loop is over. */
static int take_task(sslm_dispatch *dispatch, uint64_t number, int32_t index)
{
    uint64_t mark = atomic_load_explicit(&dispatch->marks[index], memory_order_relaxed);
    while (mark < 2 * number)
        if (atomic_compare_exchange_weak_explicit(&dispatch->marks[index], &mark, 2 * number, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return 1;
    return 0;
}

/* There is enough for all tasks that can run side by side, so that nobody waits here. */
static int32_t take_scratch(sslm_dispatch *dispatch)
{
    for (int32_t word = 0;; word = (word + 1) % (SSLM_TASK_COUNT_MAX / 64)) {
        uint64_t used = atomic_load_explicit(&dispatch->used_scratch[word], memory_order_relaxed);
        while (used != UINT64_MAX) {
            int32_t bit = 0;
            while (used >> bit & 1) bit++;
            if (atomic_compare_exchange_weak_explicit(&dispatch->used_scratch[word], &used, used | UINT64_C(1) << bit,
                                                      memory_order_acquire, memory_order_relaxed))
                return 64 * word + bit;
        }
    }
}

static void give_scratch(sslm_dispatch *dispatch, int32_t index)
{
    uint64_t bit = UINT64_C(1) << (index % 64);
    atomic_fetch_and_explicit(&dispatch->used_scratch[index / 64], ~bit, memory_order_release);
}

static void do_block(sslm_dispatch *dispatch, int32_t index, int32_t scratch)
{
    int32_t first = index * dispatch->block_items, rest = dispatch->item_count - first;
    int32_t last = rest < dispatch->block_items ? dispatch->item_count : first + dispatch->block_items;
    if (dispatch->cancel == NULL) {
        dispatch->body(dispatch->job, first, last, &dispatch->scratch[scratch]);
        return;
    }
    for (int32_t next; first < last && !sslm_dispatch_is_cancelled(dispatch); first = next) {
        next = last - first < WATCHED_ITEMS ? last : first + WATCHED_ITEMS;
        dispatch->body(dispatch->job, first, next, &dispatch->scratch[scratch]);
    }
}

/* The sslm_task that hooks are given. Whatever it is called with and whenever, it does no harm. */
static void do_task(void *argument, int32_t index)
{
    const sslm_ticket *ticket = argument;
    sslm_dispatch *dispatch = ticket->dispatch;
    uint64_t loop = atomic_load_explicit(&dispatch->loop, memory_order_acquire);
    uint64_t number = loop >> LOOP_COUNT_BITS;
    int32_t task_count = (int32_t)(loop & LOOP_COUNT_MASK);
    /* Its loop is over: there is nobody to blame it on. */
    if (task_count == 0 || atomic_load_explicit(&ticket->number, memory_order_relaxed) != number) return;
    if (index < 0 || index >= task_count) {
        blame(dispatch, number, SSLM_FAULT_INVENTED, index);
    } else if (!take_task(dispatch, number, index)) {
        blame(dispatch, number, SSLM_FAULT_REPEATED, index);
    } else {
        int32_t scratch = take_scratch(dispatch);
        do_block(dispatch, index, scratch);
        give_scratch(dispatch, scratch);
        atomic_store_explicit(&dispatch->marks[index], 2 * number + 1, memory_order_release);
    }
}

/* End a loop: take what was omitted, so that nobody can begin it any more, and wait for who is still at work. Returns
 * whether every task had been done. */
static int close_loop(sslm_dispatch *dispatch, uint64_t number, int32_t task_count)
{
    int is_whole = 1;
    for (int32_t index = 0; index < task_count; index++) {
        if (atomic_load_explicit(&dispatch->marks[index], memory_order_acquire) == 2 * number + 1) continue;
        is_whole = 0;
        if (take_task(dispatch, number, index)) {
            blame(dispatch, number, SSLM_FAULT_OMITTED, index);
            continue;
        }
        blame(dispatch, number, SSLM_FAULT_UNFINISHED, index);
        while (atomic_load_explicit(&dispatch->marks[index], memory_order_acquire) != 2 * number + 1) relax();
    }
    atomic_store_explicit(&dispatch->loop, number << LOOP_COUNT_BITS, memory_order_release);
    return is_whole;
}

/* Blocks of the loop at hand: a task each. */
static int32_t count_tasks(const sslm_dispatch *dispatch)
{
    return dispatch->item_count / dispatch->block_items + (dispatch->item_count % dispatch->block_items != 0);
}

int32_t sslm_dispatch_run(sslm_dispatch *dispatch, sslm_loop_body body, const void *job, int32_t item_count,
                          int32_t block_items)
{
    if (item_count == 0) return SSLM_OK;
    dispatch->body = body;
    dispatch->job = job;
    dispatch->item_count = item_count;
    dispatch->block_items = block_items;
    int32_t task_count = count_tasks(dispatch);
    if (task_count == 1) {
        do_block(dispatch, 0, 0);
        return SSLM_OK;
    }
    uint64_t number = (atomic_load_explicit(&dispatch->loop, memory_order_relaxed) >> LOOP_COUNT_BITS) + 1;
    sslm_ticket *ticket = &dispatch->tickets[number % SSLM_TICKETS];
    atomic_store_explicit(&ticket->number, number, memory_order_relaxed);
    atomic_store(&dispatch->fault, 0);
    atomic_store_explicit(&dispatch->loop, number << LOOP_COUNT_BITS | (uint64_t)task_count, memory_order_release);
    int32_t stopped = dispatch->hook.run(dispatch->hook.user, do_task, ticket, task_count);
    int is_whole = close_loop(dispatch, number, task_count);
    dispatch->stopped = stopped;
    if (stopped != 0) return SSLM_STOPPED_HOOK;
    return is_whole && !is_fault_of(atomic_load(&dispatch->fault), number) ? SSLM_OK : SSLM_BROKEN_HOOK;
}

void sslm_dispatch_explain(const sslm_dispatch *dispatch, sslm_run *run)
{
    uint64_t fault = atomic_load(&dispatch->fault);
    run->fault = (int32_t)(fault >> FAULT_KIND_SHIFT & 7);
    run->fault_index = dispatch->stopped != 0 ? dispatch->stopped : (int32_t)(uint32_t)fault;
    run->fault_task_count = count_tasks(dispatch);
}
