/* linear: docs/arithmetic.md 3.4. */
#include "ops.h"
#include "matrices.h"

void TIERED(sslm_linear)(const sslm_job *job, int32_t first, int32_t last, sslm_thread *thread)
{
    sslm_products products = {
        .job = job,
        .picked = job->every,
        .picked_count = job->row_count,
        .finish = TIERED(sslm_finish_linear),
        .thread = thread,
    };
    multiply_matrix(&products, first, last);
}
