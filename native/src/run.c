/* Running segments: every op over the rows of all spans, then the digests. */
#include <string.h>

#include "clock.h"
#include "plan.h"

/* Work below this many elements is not worth waking anybody. */
#define SHARED_ELEMENTS_MIN 16384
/* Chunks per thread: enough that a thread that was set aside holds up little. */
#define CHUNKS_PER_THREAD 4

static int32_t blame(sslm_run *run, int32_t status, int32_t span, int64_t value)
{
    run->bad_span = span;
    run->bad_value = value;
    return status;
}

static int32_t check_pages(const sslm_program *program, sslm_run *run, int32_t index)
{
    const sslm_span *span = &run->spans[index];
    if (program->page_size_bytes == 0) return SSLM_OK;
    int64_t page_count = (span->first_position + span->row_count + SSLM_PAGE_TOKENS - 1) / SSLM_PAGE_TOKENS;
    if (page_count > span->table_page_count) return blame(run, SSLM_BAD_PAGE, index, span->table_page_count);
    for (int64_t i = 0; i < page_count; i++)
        if (span->pages[i] < 0 || span->pages[i] >= span->pool_page_count)
            return blame(run, SSLM_BAD_PAGE, index, i);
    return SSLM_OK;
}

static int32_t check_span(const sslm_program *program, sslm_run *run, int32_t index)
{
    const sslm_span *span = &run->spans[index];
    if (span->row_count < 1 || span->row_count > SSLM_SPAN_ROWS_MAX || span->first_logits_row < 0
        || span->first_logits_row > span->row_count)
        return blame(run, SSLM_BAD_ROWS, index, span->row_count);
    if (span->first_position < 0 || span->first_position > program->context_tokens - span->row_count)
        return blame(run, SSLM_BAD_POSITION, index, span->first_position);
    for (int32_t i = 0; i < span->row_count; i++)
        if (span->token_ids[i] < 0 || span->token_ids[i] >= program->vocab_size)
            return blame(run, SSLM_BAD_TOKEN, index, span->token_ids[i]);
    return check_pages(program, run, index);
}

static int32_t check_run(const sslm_program *program, sslm_run *run)
{
    if (run->first_segment < 0 || run->first_segment > run->last_segment || run->last_segment > program->segment_count)
        return SSLM_BAD_SEGMENTS;
    int64_t row_count = 0;
    for (int32_t i = 0; i < run->span_count; i++) {
        int32_t status = check_span(program, run, i);
        if (status != SSLM_OK) return status;
        row_count += run->spans[i].row_count;
    }
    return row_count > program->row_count_max ? blame(run, SSLM_BAD_ROWS, -1, row_count) : SSLM_OK;
}

/* Number the rows of all spans and fetch the residuals that the first segment continues from. */
static void gather(sslm_plan *plan, const sslm_run *run)
{
    const sslm_program *program = plan->program;
    sslm_rows *residual = &plan->buffers[program->residual];
    size_t size_bytes = 4 * (size_t)residual->width;
    plan->row_count = plan->picked_count = 0;
    for (int32_t i = 0; i < run->span_count; i++) {
        const sslm_span *span = &run->spans[i];
        for (int32_t index = 0; index < span->row_count; index++) {
            int32_t row = plan->row_count++;
            plan->rows[row] = (sslm_row){
                .span = span,
                .span_index = i,
                .index = index,
                .position = (int32_t)span->first_position + index,
            };
            if (span->logits != NULL && index >= span->first_logits_row) plan->picked[plan->picked_count++] = row;
            memcpy(int32_row(residual, row), span->residual + (size_t)index * (size_t)residual->width, size_bytes);
        }
    }
    for (int32_t i = 0; i < program->buffer_count; i++) plan->buffers[i].row_count = plan->row_count;
    for (int32_t i = 0; i < program->thread_count; i++)
        memset(plan->threads[i].saturated, 0, SSLM_SITE_COUNT * (size_t)program->row_count_max * sizeof(uint64_t));
}

/* Give residuals, counters and fixed states back to the sequences. */
static void commit(const sslm_plan *plan, const sslm_run *run)
{
    const sslm_program *program = plan->program;
    const sslm_rows *residual = &plan->buffers[program->residual];
    size_t size_bytes = 4 * (size_t)residual->width;
    for (int32_t row = 0; row < plan->row_count; row++) {
        const sslm_row *place = &plan->rows[row];
        const sslm_span *span = place->span;
        memcpy(span->residual + (size_t)place->index * (size_t)residual->width, int32_row(residual, row), size_bytes);
        for (int32_t thread = 0; thread < program->thread_count; thread++)
            for (size_t site = 0; site < SSLM_SITE_COUNT; site++)
                span->saturations[site] +=
                    (int64_t)plan->threads[thread].saturated[site * (size_t)program->row_count_max + (size_t)row];
        if (place->index + 1 < span->row_count) continue;
        for (int32_t i = 0; i < program->state_count; i++) {
            const sslm_state *state = &program->states[i];
            if (state->kind != SSLM_STATE_FIXED) continue;
            if (state->segment < run->first_segment || state->segment >= run->last_segment) continue;
            const uint8_t *after = (const uint8_t *)int32_row(&plan->history, row) + state->offset_bytes;
            memcpy(span->fixed + state->offset_bytes, after, 4 * (size_t)state->head_dim);
        }
    }
}

typedef struct {
    const sslm_plan *plan;
    sslm_kernel kernel;
    sslm_job job;
} op_task;

static void run_kernel(const void *argument, int32_t first, int32_t last, int32_t thread)
{
    const op_task *task = argument;
    task->kernel(&task->job, first, last, &task->plan->threads[thread]);
}

/* How many items an op has, and roughly how many elements of work each is. */
static int32_t count_items(const sslm_job *job, int64_t *item_elements)
{
    const sslm_op *op = job->op;
    int32_t last_row;
    switch (op->kind) {
    case SSLM_OP_LINEAR:
        *item_elements = (int64_t)SSLM_PANEL_ROWS * op->matrix.in_features * job->row_count;
        return (op->matrix.out_features + SSLM_PANEL_ROWS - 1) / SSLM_PANEL_ROWS;
    case SSLM_OP_LOGITS:
        last_row = job->picked_count == 0 ? op->first_row : op->last_row;
        *item_elements = (int64_t)SSLM_PANEL_ROWS * op->matrix.in_features * job->picked_count;
        return (last_row - op->first_row + SSLM_PANEL_ROWS - 1) / SSLM_PANEL_ROWS;
    case SSLM_OP_ATTENTION:
        *item_elements = (int64_t)job->program->states[op->state].head_dim * (job->rows[0].position + 1);
        return job->row_count * op->heads.head_count;
    case SSLM_OP_ARGMAX:
        *item_elements = job->program->vocab_size;
        return job->picked_count;
    case SSLM_OP_MOVING_AVERAGE:
        *item_elements = 0;
        return job->rows[job->row_count - 1].span_index + 1;
    default:
        *item_elements = 8 * (int64_t)job->out.width;
        return job->row_count;
    }
}

static void share(sslm_plan *plan, sslm_task task, const void *job, int32_t item_count, int64_t item_elements)
{
    int32_t chunk_items = item_count;
    if (plan->program->thread_count > 1 && item_elements * item_count >= SHARED_ELEMENTS_MIN)
        chunk_items = item_count / (plan->program->thread_count * CHUNKS_PER_THREAD);
    else if (plan->pool.cancel != NULL && item_count > 64)
        chunk_items = 64;
    sslm_pool_run(&plan->pool, task, job, item_count, chunk_items < 1 ? 1 : chunk_items);
}

static void run_op(sslm_plan *plan, const sslm_op *op)
{
    op_task task = {
        .plan = plan,
        .kernel = plan->table->kernels[op->kind],
        .job = {
            .program = plan->program,
            .op = op,
            .rows = plan->rows,
            .picked = plan->picked,
            .every = plan->every,
            .source = plan->buffers[op->source],
            .other = plan->buffers[op->other],
            .out = plan->buffers[op->out],
            .history = plan->history,
            .row_count = plan->row_count,
            .picked_count = plan->picked_count,
        },
    };
    int64_t item_elements;
    int32_t item_count = count_items(&task.job, &item_elements);
    share(plan, run_kernel, &task, item_count, item_elements);
}

/* Add the time since *mark to that of a kind of op, and begin the next one's. */
static void charge(const sslm_run *run, int32_t kind, int64_t *mark)
{
    if (run->op_ns == NULL) return;
    int64_t now = sslm_now_ns();
    if (kind >= 0) run->op_ns[kind] += now - *mark;
    *mark = now;
}

static void run_segment(sslm_plan *plan, const sslm_run *run, int32_t index)
{
    int64_t mark = 0;
    charge(run, -1, &mark);
    const sslm_segment *segment = &plan->program->segments[index];
    int is_layer = segment->kind == SSLM_SEGMENT_EMBED || segment->kind == SSLM_SEGMENT_LAYER;
    for (int32_t i = segment->first_op; i < segment->last_op; i++) {
        run_op(plan, &plan->program->ops[i]);
        charge(run, plan->program->ops[i].kind, &mark);
        if (sslm_pool_is_cancelled(&plan->pool)) return;
    }
    if (!is_layer) return;
    sslm_digest_job job = {.plan = plan, .segment = index};
    int64_t elements = index == plan->program->last_layer ? 16 * plan->buffers[plan->program->residual].width : 0;
    share(plan, sslm_digest_rows, &job, plan->row_count, elements);
    charge(run, SSLM_OP_COUNT, &mark);
}

int32_t sslm_native_plan_run(sslm_plan *plan, sslm_run *run)
{
    if (atomic_flag_test_and_set(&plan->is_running)) return SSLM_BUSY;
    int32_t status = check_run(plan->program, run);
    if (status == SSLM_OK && run->span_count > 0) {
        sslm_pool_watch(&plan->pool, run->cancel);
        gather(plan, run);
        for (int32_t i = run->first_segment; i < run->last_segment; i++) {
            if (sslm_pool_is_cancelled(&plan->pool)) break;
            run_segment(plan, run, i);
        }
        if (sslm_pool_is_cancelled(&plan->pool)) status = SSLM_CANCELLED;
        else commit(plan, run);
        sslm_pool_watch(&plan->pool, NULL);
    }
    atomic_flag_clear(&plan->is_running);
    return status;
}
