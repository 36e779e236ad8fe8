/* Which ops go together, and how many items a task gets. */
#include "sharing.h"

#include <string.h>

/* A task has whole blocks of so many rows of a matrix, and all together have so many tasks of so many bytes of
 * weights at most: less is not worth waking anybody for. */
#define TASK_ROWS 64
#define TASK_SIZE_BYTES 262144
#define TASK_PANELS (TASK_ROWS / SSLM_PANEL_ROWS)

/* The pool's threads are awake: what takes longer than a microsecond is worth sharing. */
#define POOL_WORK_MIN 16384
#define POOL_PANELS 2

static int continues(const sslm_op *before, const sslm_op *op, const sslm_op *first)
{
    if (op->kind != SSLM_OP_LINEAR || op->source != before->source) return 0;
    /* Two projections into one buffer would be a sum, whose order is the program's. */
    for (const sslm_op *one = first; one < op; one++)
        if (one->out == op->out) return 0;
    return 1;
}

static void find_in_segment(const sslm_op *ops, int32_t first_op, int32_t last_op, sslm_companions *companions)
{
    for (int32_t first = first_op, end; first < last_op; first = end) {
        end = first + 1;
        if (ops[first].kind == SSLM_OP_LINEAR)
            while (end < last_op && end - first < SSLM_MEMBERS_MAX && continues(&ops[end - 1], &ops[end], &ops[first]))
                end++;
        for (int32_t i = first; i < end; i++)
            companions[i] = (sslm_companions){.pair = 1, .all = (uint8_t)(end - i)};
        for (int32_t i = end - 2; i >= first; i -= 2) companions[i].pair = 2;
    }
}

void sslm_find_companions(const sslm_program *program, sslm_companions *companions)
{
    for (int32_t i = 0; i < program->segment_count; i++)
        find_in_segment(program->ops, program->segments[i].first_op, program->segments[i].last_op, companions);
}

int32_t sslm_member_count(const sslm_sharing *sharing, const sslm_companions *companions)
{
    if (sharing->max_tasks < 2 || sharing->scope < SSLM_SCOPE_ONE_ROW) return 1;
    if (sharing->is_pool) return companions->all;
    return sharing->is_one_row && sharing->is_prefill ? 1 : companions->pair;
}

/* Whether two ops are the same, but for the rows of the vocabulary, where the second's follow on. */
static int follows_on(const sslm_op *op, const sslm_op *next)
{
    if (op->kind != SSLM_OP_LOGITS) return memcmp(op, next, sizeof *op) == 0;
    sslm_op expected;
    memcpy(&expected, op, sizeof expected);
    expected.first_row = op->last_row;
    expected.last_row = next->last_row;
    return op->last_row % SSLM_PANEL_ROWS == 0 && memcmp(&expected, next, sizeof expected) == 0;
}

int32_t sslm_head_run(const sslm_program *program, int32_t first_segment, int32_t last_segment)
{
    const sslm_segment *segments = program->segments;
    if (segments[first_segment].kind != SSLM_SEGMENT_HEAD) return 1;
    int32_t segment = first_segment + 1;
    for (; segment < last_segment && segments[segment].kind == SSLM_SEGMENT_HEAD; segment++) {
        const sslm_segment *before = &segments[segment - 1], *next = &segments[segment];
        int32_t op_count = next->last_op - next->first_op;
        if (before->last_op - before->first_op != op_count) break;
        const sslm_op *op = &program->ops[before->first_op], *next_op = &program->ops[next->first_op];
        while (op_count > 0 && follows_on(op, next_op)) op++, next_op++, op_count--;
        if (op_count > 0) break;
    }
    return segment - first_segment;
}

/* Whole units of items for each of at most task_count tasks. */
static int32_t block_of(int32_t item_count, int64_t task_count, int32_t unit)
{
    int64_t units = ((int64_t)item_count + unit - 1) / unit;
    if (task_count > units) task_count = units;
    if (task_count < 2) return item_count;
    int64_t items = (item_count + task_count - 1) / task_count;
    return (int32_t)((items + unit - 1) / unit * unit);
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int32_t sslm_native_task_rows(int32_t row_count, int64_t size_bytes, int32_t max_tasks)
{
    return block_of(row_count, least(max_tasks, size_bytes / TASK_SIZE_BYTES), TASK_ROWS);
}

int32_t sslm_block_items(const sslm_sharing *sharing, const sslm_loop *loop)
{
    int is_matrix = loop->kind == SSLM_OP_LINEAR || loop->kind == SSLM_OP_LOGITS;
    if (sharing->is_pool) {
        int64_t task_count = loop->work < POOL_WORK_MIN ? 1 : sharing->max_tasks;
        return block_of(loop->item_count, task_count, is_matrix ? POOL_PANELS : 1);
    }
    int is_in_scope = sharing->scope >= SSLM_SCOPE_ALL || loop->kind == SSLM_OP_LOGITS
                      || (sharing->scope >= SSLM_SCOPE_ONE_ROW && loop->kind == SSLM_OP_LINEAR && sharing->is_one_row);
    if (!is_in_scope) return loop->item_count;
    return block_of(loop->item_count, least(sharing->max_tasks, loop->work / TASK_SIZE_BYTES),
                    is_matrix ? TASK_PANELS : 1);
}
