/* Advancing sequences: chunks are begun, run through some segments together, and ended. */
#include <string.h>

#include "clock.h"
#include "plan.h"

static int32_t first_head(const sslm_program *program)
{
    return program->last_layer + 1;
}

static void begin_chunk(const sslm_program *program, sslm_sequence *sequence)
{
    sslm_span *span = &sequence->span;
    int is_again = sequence->is_rescoring != 0;
    int32_t begun = sequence->pending_count < sequence->chunk_tokens ? sequence->pending_count : sequence->chunk_tokens;
    int32_t rows = is_again ? 1 : begun;
    sequence->pending_count -= begun;
    int is_last = sequence->pending_count == 0;
    span->first_position = sequence->computed_count - is_again;
    span->token_ids = sequence->token_ids + span->first_position;
    span->row_count = rows;
    span->first_logits_row = sequence->has_all_logits ? 0 : rows - is_last;
    span->is_prefill = !sequence->is_decoding;
    sequence->next_segment = is_again ? first_head(program) : 0;
    sequence->stop_segment = span->first_logits_row < rows ? program->segment_count : first_head(program);
    sequence->is_in_flight = 1;
    sequence->chunk_count += !is_again;
}

/* A chunk that no run has begun is none: what was pending is pending again, as it was before. */
static void put_back_chunk(const sslm_program *program, sslm_sequence *sequence)
{
    int is_again = sequence->is_rescoring != 0;
    if (!sequence->is_in_flight || sequence->next_segment > (is_again ? first_head(program) : 0)) return;
    if (!is_again) sequence->pending_count += sequence->span.row_count;
    sequence->is_in_flight = 0;
    sequence->chunk_count -= !is_again;
}

/* Where a slice ends that begins where the sequence stands: the embedding belongs to the first unit after it, and the
 * selection to the last one before it. */
static int32_t slice_end(const sslm_program *program, const sslm_sequence *sequence, int32_t units)
{
    int32_t first = sequence->next_segment > 1 ? sequence->next_segment : 1, stop = sequence->stop_segment;
    int32_t last = units < stop - first ? first + units : stop;
    return last == stop - 1 && program->segments[last].kind == SSLM_SEGMENT_SELECT ? stop : last;
}

static int32_t layers_between(const sslm_program *program, int32_t first, int32_t last)
{
    int32_t from = first > 1 ? first : 1, to = last < first_head(program) ? last : first_head(program);
    return to > from ? to - from : 0;
}

/* c[p] from c[p - 1], the token at p and d[p, L]: docs/arithmetic.md, section 4. */
static void add_link(const sslm_plan *plan, sslm_sequence *sequence, int32_t row)
{
    sslm_sha256 hash;
    uint32_t token_id = (uint32_t)sequence->span.token_ids[row];
    uint8_t id_bytes[4] = {(uint8_t)token_id, (uint8_t)(token_id >> 8), (uint8_t)(token_id >> 16),
                           (uint8_t)(token_id >> 24)};
    sslm_sha256_start(&hash, plan->mix);
    sslm_sha256_add(&hash, sequence->link, 32);
    sslm_sha256_add(&hash, id_bytes, 4);
    sslm_sha256_add(&hash, sequence->span.digests + 32 * (size_t)row, 32);
    sslm_sha256_finish(&hash, sequence->link);
}

static void end_chunk(const sslm_plan *plan, sslm_sequence *sequence)
{
    const sslm_span *span = &sequence->span;
    if (!sequence->is_rescoring) {
        for (int32_t row = 0; row < span->row_count; row++) add_link(plan, sequence, row);
        sequence->computed_count += span->row_count;
        sequence->last_row = span->row_count - 1;
    }
    sequence->is_in_flight = sequence->is_rescoring = 0;
    int32_t scored = span->row_count - span->first_logits_row;
    if (scored > 0 && sequence->pending_count == 0) sequence->selected = span->selected[scored - 1];
}

static void move_chunk(const sslm_plan *plan, sslm_sequence *sequence, int32_t last)
{
    sequence->layers_run += layers_between(plan->program, sequence->next_segment, last);
    sequence->next_segment = last;
    sequence->progress = SSLM_MOVED;
    if (last < sequence->stop_segment) return;
    end_chunk(plan, sequence);
    sequence->progress = SSLM_ENDED;
}

/* Stages in order: first where a chunk stands, then where its slice ends. Chunks that end elsewhere may share one. */
static int64_t stage_of(const sslm_program *program, const sslm_sequence *sequence, int32_t units)
{
    return ((int64_t)sequence->next_segment << 32) | slice_end(program, sequence, units);
}

/* Of the sequences that stay, fill a run with those of the lowest stage, as many as have room; return how many. */
static int32_t fill_run(const sslm_program *program, sslm_advance *advance)
{
    int64_t lowest = INT64_MAX;
    for (int32_t i = 0; i < advance->sequence_count; i++) {
        const sslm_sequence *sequence = advance->sequences[i];
        if (sequence->progress != SSLM_STAYED) continue;
        int64_t stage = stage_of(program, sequence, advance->budget_units);
        if (stage < lowest) lowest = stage;
    }
    int32_t count = 0, room = advance->row_count_max;
    for (int32_t i = 0; i < advance->sequence_count; i++) {
        const sslm_sequence *sequence = advance->sequences[i];
        if (sequence->progress != SSLM_STAYED) continue;
        if (stage_of(program, sequence, advance->budget_units) != lowest) continue;
        // The first one runs in any case: what does not fit a run alone is refused by it.
        if (count > 0 && sequence->span.row_count > room) break;
        room -= sequence->span.row_count;
        advance->spans[count++] = sequence->span;
        advance->run.first_segment = sequence->next_segment;
        advance->run.last_segment = slice_end(program, sequence, advance->budget_units);
    }
    return count;
}

/* Move the sequences that a run was filled with, which are the first ones of its stage that stay. */
static void move_run(const sslm_plan *plan, const sslm_advance *advance, int32_t count)
{
    for (int32_t i = 0, moved = 0; moved < count; i++) {
        sslm_sequence *sequence = advance->sequences[i];
        if (sequence->progress != SSLM_STAYED || sequence->span.digests != advance->spans[moved].digests) continue;
        move_chunk(plan, sequence, advance->run.last_segment);
        moved++;
    }
}

static int32_t run_slices(sslm_plan *plan, sslm_advance *advance)
{
    sslm_run *run = &advance->run;
    int64_t deadline_ns = sslm_deadline_ns(run);
    run->spans = advance->spans;
    for (int32_t done = 0, count; done < advance->sequence_count; done += count) {
        // The first run has a unit in any case; of the others, those that are not begun leave their sequences alone.
        if (done > 0 && deadline_ns != 0 && sslm_now_ns() + run->unit_ns > deadline_ns) return SSLM_OK;
        count = fill_run(plan->program, advance);
        run->span_count = count;
        int32_t status = sslm_run_until(plan, run, deadline_ns);
        if (status != SSLM_OK) return status;
        move_run(plan, advance, count);
    }
    return SSLM_OK;
}

int32_t sslm_native_advance(sslm_plan *plan, sslm_advance *advance)
{
    for (int32_t i = 0; i < advance->sequence_count; i++) {
        sslm_sequence *sequence = advance->sequences[i];
        sequence->progress = SSLM_STAYED;
        if (!sequence->is_in_flight) begin_chunk(plan->program, sequence);
    }
    int32_t status = run_slices(plan, advance);
    for (int32_t i = 0; i < advance->sequence_count; i++) put_back_chunk(plan->program, advance->sequences[i]);
    return status;
}
