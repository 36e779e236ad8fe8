/* A plan: a program, and the memory that its runs need. */
#ifndef SSLM_PLAN_H
#define SSLM_PLAN_H

#include "dispatch.h"
#include "kernels.h"
#include "sha256.h"
#include "sharing.h"
#include "threads.h"

struct sslm_plan {
    sslm_pool pool;
    sslm_dispatch dispatch;
    const sslm_program *program;
    const sslm_kernel_table *table;
    sslm_sha256_mix mix;
    sslm_rows *buffers;          /* [buffer_count] */
    sslm_rows history;           /* fixed states after every row of a run */
    sslm_row *rows;              /* [row_count_max] */
    int32_t *every;              /* [row_count_max]: 0, 1, 2, … */
    int32_t *picked;             /* [row_count_max] */
    sslm_thread *scratch;        /* [scratch_count] */
    sslm_worker *workers;        /* [thread_count] */
    sslm_companions *companions; /* of every op */
    size_t size_bytes;
    int32_t scratch_count;       /* tasks that may run side by side */
    sslm_sharing sharing;        /* of the run that is going on, as the rest */
    int32_t row_count;
    int32_t picked_count;
    atomic_flag is_running;
};

/* When a run has to end that begins now; 0 if it has no limit. */
int64_t sslm_deadline_ns(const sslm_run *run);

/* Run as sslm_native_plan_run does, until a moment by sslm_now_ns; 0 sets no limit. */
int32_t sslm_run_until(sslm_plan *plan, sslm_run *run, int64_t deadline_ns);

/* Digests of a segment: docs/arithmetic.md, section 4. Items are rows. */
typedef struct {
    const sslm_plan *plan;
    int32_t segment;
} sslm_digest_job;

void sslm_digest_rows(const void *digest_job, int32_t first, int32_t last, sslm_thread *scratch);

#endif
