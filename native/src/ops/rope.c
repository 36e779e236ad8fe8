/* rope: docs/arithmetic.md 3.5. */
#include "arithmetic.h"
#include "ops.h"
#include "rows.h"

static uint64_t rotate(int32_t *a, int32_t *b, int64_t cos, int64_t sin)
{
    int64_t x = rshift_round(*a * cos - *b * sin, 30);
    int64_t y = rshift_round(*b * cos + *a * sin, 30);
    int64_t kept_x = clamp32(x), kept_y = clamp32(y);
    *a = (int32_t)kept_x;
    *b = (int32_t)kept_y;
    return (uint64_t)(kept_x != x) + (uint64_t)(kept_y != y);
}

void TIERED(sslm_rope)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    const sslm_rotation *rotation = &job->op->rotation;
    uint64_t *saturated = site_counts(job, thread);
    int32_t pairs = rotation->rotary_dim / 2, width = job->out.width;
    for (int32_t row = first; row < last; row++) {
        int32_t position = job->rows[row].position;
        size_t angle = (size_t)position * (size_t)pairs;
        const int32_t *cos = rotation->cos + angle, *sin = rotation->sin + angle;
        int32_t *x = int32_row(&job->out, row);
        int32_t done = TIERED(sslm_rotate_lanes)(rotation, position, x, width);
        uint64_t count = 0;
        for (int32_t start = 0; start < width; start += rotation->head_dim) {
            int32_t *head = x + start;
            if (rotation->is_interleaved)
                for (int32_t i = done; i < pairs; i++) count += rotate(head + 2 * i, head + 2 * i + 1, cos[i], sin[i]);
            else
                for (int32_t i = done; i < pairs; i++) count += rotate(head + i, head + pairs + i, cos[i], sin[i]);
        }
        saturated[row] += count;
    }
}
