/* Loops whose items do not depend on one another: cut into blocks, one for each task, that a host's hook or the
 * built-in pool runs. Tasks are counted here, so that no hook can have one left out or done twice. */
#ifndef SSLM_DISPATCH_H
#define SSLM_DISPATCH_H

#include <stdatomic.h>

#include "kernels.h"

/* Do items first … last - 1 with scratch that nobody else uses meanwhile. */
typedef void (*sslm_loop_body)(const void *job, int32_t first, int32_t last, sslm_thread *scratch);

/* What a hook hands back with every task: by it a call that comes too late is told from those of the loop at hand. */
typedef struct {
    void *dispatch;
    _Atomic uint64_t number;                     /* of the loop that it was last given for */
} sslm_ticket;

/* Loops until a ticket is given again. */
#define SSLM_TICKETS 64

/* `loop` holds the number of the loop in its high bits, and the count of its tasks, which is 0 between loops, in
 * the low ones. A task's mark is twice the number of the last loop in which it was taken, and
 * one more once it was done: marks only ever grow, so that an invocation that comes too late finds itself late. */
typedef struct {
    _Alignas(64) _Atomic uint64_t loop;
    _Atomic uint64_t fault;                      /* of the loop: its number, SSLM_FAULT_*, and the index */
    _Atomic uint32_t is_cancelled;               /* cancel was seen to be set */
    const int32_t *cancel;                       /* nonzero skips the items that are left; or NULL */
    sslm_loop_body body;
    const void *job;
    int32_t item_count;
    int32_t block_items;
    sslm_thread *scratch;                        /* [as many as tasks run side by side] */
    sslm_parallel_for hook;
    int32_t stopped;                             /* what the last loop's hook returned */
    _Alignas(64) _Atomic uint64_t used_scratch[SSLM_TASK_COUNT_MAX / 64];    /* a bit each */
    _Alignas(64) _Atomic uint64_t marks[SSLM_TASK_COUNT_MAX];
    sslm_ticket tickets[SSLM_TICKETS];
} sslm_dispatch;

/* No hook; the rest is zeros. */
void sslm_dispatch_start(sslm_dispatch *dispatch, sslm_thread *scratch, int32_t scratch_count);

/* Do all items in blocks of block_items. Returns SSLM_OK, also when cancelled; or SSLM_BROKEN_HOOK or
 * SSLM_STOPPED_HOOK, and then nobody is at work any more. */
int32_t sslm_dispatch_run(sslm_dispatch *dispatch, sslm_loop_body body, const void *job, int32_t item_count,
                          int32_t block_items);

/* Write down what the last loop's hook did wrong. */
void sslm_dispatch_explain(const sslm_dispatch *dispatch, sslm_run *run);

/* From now on skip the items that are left once *cancel is seen to be nonzero; NULL for never. */
void sslm_dispatch_watch(sslm_dispatch *dispatch, const int32_t *cancel);

/* Whether the flag is set, or was seen to be since sslm_dispatch_watch, by any thread: the host may clear it at any
 * time, and what was skipped stays skipped. */
int32_t sslm_dispatch_is_cancelled(sslm_dispatch *dispatch);

#endif
