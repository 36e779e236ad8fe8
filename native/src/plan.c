/* Laying a plan out in the caller's memory, opening it and closing it. */
#include "plan.h"

#include <string.h>

#include "cpu.h"
#include "tiles.h"

/* Hands out aligned parts of a block, or only counts them where base is NULL. */
typedef struct {
    uint8_t *base;
    size_t used;
} block;

static void *take(block *from, size_t count, size_t size_bytes)
{
    uint8_t *part = from->base == NULL ? NULL : from->base + from->used;
    from->used += (count * size_bytes + SSLM_ALIGNMENT - 1) / SSLM_ALIGNMENT * SSLM_ALIGNMENT;
    return part;
}

static sslm_rows take_rows(block *from, size_t row_count, size_t stride_bytes, int32_t width)
{
    return (sslm_rows){.base = take(from, row_count, stride_bytes), .stride_bytes = stride_bytes, .width = width};
}

static size_t count_ops(const sslm_program *program)
{
    return program->segment_count == 0 ? 0 : (size_t)program->segments[program->segment_count - 1].last_op;
}

/* Whether a matrix of int4 reads a buffer. */
static int is_read_by_int4(const sslm_program *program, int32_t buffer)
{
    for (size_t i = 0; i < count_ops(program); i++) {
        const sslm_op *op = &program->ops[i];
        int has_source = op->kind == SSLM_OP_LINEAR || op->kind == SSLM_OP_LOGITS;
        if (has_source && op->source == buffer && op->matrix.encoding == SSLM_PANEL_INT4) return 1;
    }
    return 0;
}

static sslm_rows take_buffer(block *from, size_t row_count, const sslm_program *program, int32_t index)
{
    const sslm_buffer *buffer = &program->buffers[index];
    size_t width = padded_width(buffer->width);
    sslm_rows rows;
    switch (buffer->kind) {
    case SSLM_BUFFER_INT32:
        return take_rows(from, row_count, 4 * width, buffer->width);
    case SSLM_BUFFER_CODES:
        rows = take_rows(from, row_count, 2 * width, buffer->width);
        rows.code_rows = take(from, row_count, sizeof *rows.code_rows);
        if (is_read_by_int4(program, index))
            rows.int4_base = take(from, row_count, int4_row_size_bytes(buffer->width));
        return rows;
    default:
        return (sslm_rows){.width = buffer->width};
    }
}

/* As many tasks as may run side by side, whether the pool's or those of a hook that comes later. */
static int32_t count_scratch(const sslm_program *program)
{
    return program->task_count_max > program->thread_count ? program->task_count_max : program->thread_count;
}

/* Fill in what a plan points to, behind the plan itself. The same walk sizes it and sets it up, so that
 * the two cannot disagree. */
static void lay_out(const sslm_program *program, block *from, sslm_plan *plan)
{
    int is_counting = from->base == NULL;
    size_t rows = (size_t)program->row_count_max;
    size_t scratch_count = (size_t)count_scratch(program), threads = (size_t)program->thread_count;
    size_t widest = 0, unpacked = 0;
    plan->buffers = take(from, (size_t)program->buffer_count, sizeof *plan->buffers);
    for (int32_t i = 0; i < program->buffer_count; i++) {
        const sslm_buffer *buffer = &program->buffers[i];
        sslm_rows taken = take_buffer(from, rows, program, i);
        if (!is_counting) plan->buffers[i] = taken;
        if (buffer->kind != SSLM_BUFFER_OUTSIDE && padded_width(buffer->width) > widest)
            widest = padded_width(buffer->width);
        int has_tiles = program->tier == SSLM_TIER_AMX && is_read_by_int4(program, i);
        if (has_tiles && padded_width(buffer->width) > unpacked) unpacked = padded_width(buffer->width);
    }
    plan->history = take_rows(from, rows, program->fixed_size_bytes, (int32_t)(program->fixed_size_bytes / 4));
    plan->rows = take(from, rows, sizeof *plan->rows);
    plan->every = take(from, rows, sizeof *plan->every);
    plan->picked = take(from, rows, sizeof *plan->picked);
    plan->workers = take(from, threads, sizeof *plan->workers);
    plan->companions = take(from, count_ops(program), sizeof *plan->companions);
    plan->scratch = take(from, scratch_count, sizeof *plan->scratch);
    for (size_t i = 0; i < scratch_count; i++) {
        sslm_thread scratch = {
            .values = take(from, widest, sizeof(int32_t)),
            .codes = take(from, widest, sizeof(int16_t)),
            .unpacked = take(from, unpacked, 2 * SSLM_PANEL_ROWS),
            .scores = take(from, score_count(program), sizeof(int32_t)),
            .tile = take(from, 1, sizeof(sslm_tile)),
            .saturated = take(from, SSLM_SITE_COUNT * rows, sizeof(uint64_t)),
        };
        if (!is_counting) plan->scratch[i] = scratch;
    }
}

static const sslm_kernel_table *tier_table(int32_t tier)
{
    switch (tier) {
#ifdef SSLM_HAS_AVX2
    case SSLM_TIER_AVX2:
        return &sslm_kernels_avx2;
#endif
#ifdef SSLM_HAS_AVXVNNI
    case SSLM_TIER_AVXVNNI:
        return &sslm_kernels_avxvnni;
#endif
#ifdef SSLM_HAS_AVX512VNNI
    case SSLM_TIER_AVX512VNNI:
        return &sslm_kernels_avx512vnni;
#endif
#ifdef SSLM_HAS_NEON
    case SSLM_TIER_NEON:
        return &sslm_kernels_neon;
#endif
#ifdef SSLM_HAS_AMX
    case SSLM_TIER_AMX:
        return &sslm_kernels_amx;
#endif
    case SSLM_TIER_SCALAR:
        return &sslm_kernels_scalar;
    default:
        return NULL;
    }
}

uint32_t sslm_native_abi(void)
{
    return SSLM_NATIVE_ABI;
}

uint32_t sslm_native_cpu_features(void)
{
    return sslm_cpu_features();
}

int32_t sslm_native_tier_available(int32_t tier)
{
    return tier_table(tier) != NULL && sslm_tier_runs(tier, sslm_cpu_features());
}

uint64_t sslm_native_plan_size(const sslm_program *program)
{
    sslm_plan counted;
    block counting = {.base = NULL, .used = 0};
    take(&counting, 1, sizeof counted);
    lay_out(program, &counting, &counted);
    return counting.used;
}

/* The pool is one more hook, the only one that a plan with threads of its own has. */
static int32_t start_pool(sslm_plan *plan, int32_t thread_count)
{
    if (thread_count == 1) return SSLM_OK;
    if (sslm_pool_start(&plan->pool, plan->workers, thread_count) != 0) return SSLM_NO_THREAD;
    int32_t max_tasks = thread_count * SSLM_POOL_TASKS_PER_THREAD;
    plan->dispatch.hook = (sslm_parallel_for){
        .run = sslm_pool_run,
        .user = &plan->pool,
        .max_tasks = max_tasks < SSLM_TASK_COUNT_MAX ? max_tasks : SSLM_TASK_COUNT_MAX,
        .scope = SSLM_SCOPE_ALL,
    };
    return SSLM_OK;
}

int32_t sslm_native_plan_open(const sslm_program *program, void *memory, uint64_t size_bytes, sslm_plan **opened)
{
    if (!sslm_native_tier_available(program->tier)) return SSLM_BAD_TIER;
    if (program->thread_count < 1 || program->thread_count > SSLM_THREAD_COUNT_MAX) return SSLM_NO_THREAD;
    if (program->task_count_max < 0 || program->task_count_max > SSLM_TASK_COUNT_MAX) return SSLM_BAD_HOOK;
    if ((uintptr_t)memory % SSLM_ALIGNMENT != 0 || size_bytes < sslm_native_plan_size(program)) return SSLM_BAD_MEMORY;
    memset(memory, 0, size_bytes);
    block whole = {.base = memory, .used = 0};
    sslm_plan *plan = take(&whole, 1, sizeof *plan);
    lay_out(program, &whole, plan);
    plan->size_bytes = whole.used;
    plan->program = program;
    plan->table = tier_table(program->tier);
    /* The scalar tier is the one that takes nothing from the CPU, its digests included. */
    plan->mix = sslm_sha256_best_mix(program->tier == SSLM_TIER_SCALAR ? 0 : sslm_cpu_features());
    for (int32_t i = 0; i < program->row_count_max; i++) plan->every[i] = i;
    plan->scratch_count = count_scratch(program);
    sslm_find_companions(program, plan->companions);
    sslm_dispatch_start(&plan->dispatch, plan->scratch, plan->scratch_count);
    atomic_flag_clear(&plan->is_running);
    int32_t status = start_pool(plan, program->thread_count);
    if (status == SSLM_OK) *opened = plan;
    return status;
}

/* Whether a hook may be installed; one without run takes the one before away. */
static int is_allowed(const sslm_program *program, const sslm_parallel_for *hook)
{
    if (program->thread_count > 1) return 0;
    if (hook == NULL) return 1;
    if (hook->scope > SSLM_SCOPE_ALL || hook->max_tasks < 0) return 0;
    /* A single task is never handed out, so that it needs no scratch. */
    return hook->max_tasks <= 1 || (hook->run != NULL && hook->max_tasks <= program->task_count_max);
}

int32_t sslm_native_plan_set_parallel_for(sslm_plan *plan, const sslm_parallel_for *hook)
{
    if (atomic_flag_test_and_set(&plan->is_running)) return SSLM_BUSY;
    int is_good = is_allowed(plan->program, hook);
    if (is_good) plan->dispatch.hook = hook == NULL ? (sslm_parallel_for){.run = NULL, .max_tasks = 0} : *hook;
    atomic_flag_clear(&plan->is_running);
    return is_good ? SSLM_OK : SSLM_BAD_HOOK;
}

int32_t sslm_native_plan_close(sslm_plan *plan)
{
    if (atomic_flag_test_and_set(&plan->is_running)) return SSLM_BUSY;
    if (plan->program->thread_count > 1) sslm_pool_stop(&plan->pool);
    return SSLM_OK;
}

int32_t sslm_native_logprobs(const sslm_plan *plan, sslm_logprobs *row)
{
    return plan->table->logprobs(row, (uint32_t)plan->program->vocab_size);
}

void sslm_native_sha256(const uint8_t *data, uint64_t size_bytes, int32_t portable, uint8_t *digest)
{
    sslm_sha256 hash;
    sslm_sha256_start(&hash, sslm_sha256_best_mix(portable ? 0 : sslm_cpu_features()));
    sslm_sha256_add(&hash, data, size_bytes);
    sslm_sha256_finish(&hash, digest);
}
