/* How the work of a run is cut into tasks: by shapes and by the most tasks that there may be, whoever runs them. */
#ifndef SSLM_SHARING_H
#define SSLM_SHARING_H

#include "kernels.h"

/* Projections that are computed as one loop. */
#define SSLM_MEMBERS_MAX 4

/* How the built-in pool shares: several tasks for each thread, so that one that was set aside holds up little. */
#define SSLM_POOL_TASKS_PER_THREAD 4

/* Consecutive projections of one source from an op on, this one included; 1 for other ops. The first of them
 * that are not one of a pair stand alone: q, then k and v; gate and up. */
typedef struct {
    uint8_t pair;                /* 1 or 2 */
    uint8_t all;                 /* 1 … SSLM_MEMBERS_MAX */
} sslm_companions;

/* What a run may share, and in how many tasks. */
typedef struct {
    int32_t max_tasks;           /* below 2 nothing is shared */
    uint32_t scope;              /* SSLM_SCOPE_* */
    int32_t is_pool;
    int32_t is_one_row;
    int32_t is_prefill;
} sslm_sharing;

/* A loop over the items of an op, or of several as if they were one. */
typedef struct {
    int32_t kind;                /* SSLM_OP_* */
    int32_t item_count;
    int64_t work;                /* bytes of weights times rows, or about as many elements */
} sslm_loop;

/* Fill in the companions of every op. */
void sslm_find_companions(const sslm_program *program, sslm_companions *companions);

/* How many ops, from this one on, go together. */
int32_t sslm_member_count(const sslm_sharing *sharing, const sslm_companions *companions);

/* How many segments of the head, from this one on, differ in nothing but the rows that follow on. */
int32_t sslm_head_run(const sslm_program *program, int32_t first_segment, int32_t last_segment);

/* Items of one task; item_count if they are not shared. */
int32_t sslm_block_items(const sslm_sharing *sharing, const sslm_loop *loop);

#endif
