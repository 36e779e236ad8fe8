/* Running segments: every op over the rows of all spans, then the digests. */
#include <string.h>

#include "clock.h"
#include "plan.h"

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
    for (int32_t i = 0; i < plan->scratch_count; i++)
        for (size_t site = 0; site < SSLM_SITE_COUNT; site++)
            memset(plan->scratch[i].saturated + site * (size_t)program->row_count_max, 0,
                   (size_t)plan->row_count * sizeof(uint64_t));
}

static sslm_sharing sharing_of(const sslm_plan *plan, const sslm_run *run)
{
    return (sslm_sharing){
        .max_tasks = plan->dispatch.hook.max_tasks,
        .scope = plan->dispatch.hook.scope,
        .is_pool = plan->program->thread_count > 1,
        .is_one_row = plan->row_count == 1,
        .is_prefill = run->spans[0].is_prefill,
    };
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
        for (int32_t i = 0; i < plan->scratch_count; i++)
            for (size_t site = 0; site < SSLM_SITE_COUNT; site++)
                span->saturations[site] +=
                    (int64_t)plan->scratch[i].saturated[site * (size_t)program->row_count_max + (size_t)row];
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

/* Ops that are computed as one loop, whose items are those of the first, then those of the second, and so on. */
typedef struct {
    sslm_kernel kernel;
    int32_t member_count;
    int32_t first_items[SSLM_MEMBERS_MAX + 1];
    sslm_job jobs[SSLM_MEMBERS_MAX];
} op_group;

static void run_group(const void *job, int32_t first, int32_t last, sslm_thread *scratch)
{
    const op_group *group = job;
    for (int32_t i = 0; i < group->member_count; i++) {
        int32_t start = group->first_items[i], end = group->first_items[i + 1];
        int32_t from = first > start ? first : start, to = last < end ? last : end;
        if (from < to) group->kernel(&group->jobs[i], from - start, to - start, scratch);
    }
}

/* Bytes of a matrix's rows, as they are read: of int4 the codes and their scales. */
static int64_t weight_size_bytes(const sslm_matrix *matrix, int32_t row_count)
{
    return (int64_t)(panel_size_bytes(matrix) / SSLM_PANEL_ROWS) * row_count;
}

static int32_t panel_count(int32_t row_count)
{
    return (row_count + SSLM_PANEL_ROWS - 1) / SSLM_PANEL_ROWS;
}

/* How many items an op has, and roughly how much work they all are. */
static int32_t count_items(const sslm_job *job, int64_t *work)
{
    const sslm_op *op = job->op;
    int64_t keys = 0;
    int32_t row_count = job->picked_count == 0 ? 0 : op->last_row - op->first_row, tiles = 0;
    switch (op->kind) {
    case SSLM_OP_LINEAR:
        *work = weight_size_bytes(&op->matrix, op->matrix.out_features) * job->row_count;
        return panel_count(op->matrix.out_features);
    case SSLM_OP_LOGITS:
        *work = weight_size_bytes(&op->matrix, row_count) * job->picked_count;
        return panel_count(row_count);
    case SSLM_OP_ATTENTION:
        for (int32_t row = 0; row < job->row_count; row++) keys += job->rows[row].position + 1;
        *work = keys * op->heads.head_count * job->program->states[op->state].head_dim;
        for (int32_t row = 0; row < job->row_count; row += tile_row_count(job, row)) tiles++;
        return tiles * job->program->states[op->state].head_count;
    case SSLM_OP_CHOOSE:
        *work = (int64_t)job->program->vocab_size * job->picked_count;
        return job->picked_count;
    case SSLM_OP_MOVING_AVERAGE:
        *work = 0;
        return job->rows[job->row_count - 1].span_index + 1;
    default:
        *work = 8 * (int64_t)job->out.width * job->row_count;
        return job->row_count;
    }
}

static sslm_job job_of(const sslm_plan *plan, const sslm_op *op)
{
    return (sslm_job){
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
    };
}

/* Do a loop, and tell how long it took if that was asked. */
static int32_t run_loop(sslm_plan *plan, const sslm_run *run, const sslm_loop *loop, sslm_loop_body body,
                        const void *job)
{
    int64_t started = run->op_ns == NULL ? 0 : sslm_now_ns();
    int32_t block_items = sslm_block_items(&plan->sharing, loop);
    int32_t status = sslm_dispatch_run(&plan->dispatch, body, job, loop->item_count, block_items);
    if (run->op_ns != NULL) run->op_ns[loop->kind] += sslm_now_ns() - started;
    return status;
}

static int32_t run_ops(sslm_plan *plan, const sslm_run *run, const sslm_op *ops, int32_t count)
{
    op_group group = {.kernel = plan->table->kernels[ops->kind], .member_count = count};
    sslm_loop loop = {.kind = ops->kind};
    for (int32_t i = 0; i < count; i++) {
        int64_t work;
        group.jobs[i] = job_of(plan, &ops[i]);
        loop.item_count += count_items(&group.jobs[i], &work);
        loop.work += work;
        group.first_items[i + 1] = loop.item_count;
    }
    return run_loop(plan, run, &loop, run_group, &group);
}

static int32_t run_digests(sslm_plan *plan, const sslm_run *run, int32_t segment)
{
    sslm_digest_job job = {.plan = plan, .segment = segment};
    int is_last_layer = segment == plan->program->last_layer;
    int64_t width = is_last_layer ? plan->buffers[plan->program->residual].width : 0;
    sslm_loop loop = {.kind = SSLM_OP_COUNT, .item_count = plan->row_count, .work = 16 * width * plan->row_count};
    return run_loop(plan, run, &loop, sslm_digest_rows, &job);
}

/* Run a segment, or several of the head as if they were one: the logits up to those of the last. */
static int32_t run_segment(sslm_plan *plan, const sslm_run *run, int32_t index, int32_t last_index)
{
    const sslm_segment *segment = &plan->program->segments[index];
    const sslm_op *ops = &plan->program->ops[segment->first_op];
    const sslm_op *last_ops = &plan->program->ops[plan->program->segments[last_index].first_op];
    for (int32_t i = 0, count; i < segment->last_op - segment->first_op; i += count) {
        sslm_op joined;
        const sslm_op *op = &ops[i];
        if (last_index > index && op->kind == SSLM_OP_LOGITS) {
            joined = *op;
            joined.last_row = last_ops[i].last_row;
            op = &joined;
        }
        count = sslm_member_count(&plan->sharing, &plan->companions[segment->first_op + i]);
        int32_t status = run_ops(plan, run, op, count);
        if (status != SSLM_OK || sslm_dispatch_is_cancelled(&plan->dispatch)) return status;
    }
    int is_layer = segment->kind == SSLM_SEGMENT_EMBED || segment->kind == SSLM_SEGMENT_LAYER;
    return is_layer ? run_digests(plan, run, index) : SSLM_OK;
}

/* Note what a unit took that began at *started and ended with a segment, and tell whether another one may begin. */
static int has_time(const sslm_plan *plan, sslm_run *run, int32_t segment, int64_t deadline_ns, int64_t *started)
{
    int64_t now = sslm_now_ns(), elapsed = now - *started;
    int64_t *longest = segment <= plan->program->last_layer ? &run->layer_ns : &run->block_ns;
    if (elapsed > *longest) *longest = elapsed;
    if (elapsed > run->unit_ns) run->unit_ns = elapsed;
    *started = now;
    return now + run->unit_ns <= deadline_ns;
}

/* Whether a unit ends behind a segment: the embedding and the selection belong to their neighbours. */
static int is_unit_end(const sslm_program *program, int32_t segment)
{
    int is_last = segment + 1 == program->segment_count;
    return program->segments[segment].kind != SSLM_SEGMENT_EMBED
           && (is_last || program->segments[segment + 1].kind != SSLM_SEGMENT_SELECT);
}

static int32_t run_segments(sslm_plan *plan, sslm_run *run, int64_t deadline_ns)
{
    int64_t started = deadline_ns == 0 ? 0 : sslm_now_ns();
    for (int32_t i = run->first_segment, next; i < run->last_segment; i = next) {
        if (sslm_dispatch_is_cancelled(&plan->dispatch)) return SSLM_CANCELLED;
        next = i + (deadline_ns == 0 ? sslm_head_run(plan->program, i, run->last_segment) : 1);
        int32_t status = run_segment(plan, run, i, next - 1);
        if (status != SSLM_OK) {
            sslm_dispatch_explain(&plan->dispatch, run);
            run->fault_segment = i;
            return status;
        }
        if (deadline_ns == 0 || !is_unit_end(plan->program, i)) continue;
        if (!has_time(plan, run, i, deadline_ns, &started)) run->last_segment = next;
    }
    return sslm_dispatch_is_cancelled(&plan->dispatch) ? SSLM_CANCELLED : SSLM_OK;
}

int64_t sslm_deadline_ns(const sslm_run *run)
{
    return run->max_ns == 0 ? 0 : sslm_now_ns() + run->max_ns;
}

int32_t sslm_run_until(sslm_plan *plan, sslm_run *run, int64_t deadline_ns)
{
    if (atomic_flag_test_and_set(&plan->is_running)) return SSLM_BUSY;
    int32_t status = check_run(plan->program, run);
    if (status == SSLM_OK && run->span_count > 0) {
        sslm_dispatch_watch(&plan->dispatch, run->cancel);
        gather(plan, run);
        plan->sharing = sharing_of(plan, run);
        status = run_segments(plan, run, deadline_ns);
        if (status == SSLM_OK) commit(plan, run);
        sslm_dispatch_watch(&plan->dispatch, NULL);
    }
    atomic_flag_clear(&plan->is_running);
    return status;
}

int32_t sslm_native_plan_run(sslm_plan *plan, sslm_run *run)
{
    return sslm_run_until(plan, run, sslm_deadline_ns(run));
}
