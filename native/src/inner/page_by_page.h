/* Attention of tiers that take pages one by one and change no state of the CPU. A tier's file includes this once, after
 * its weigh_page and add_group. */
#ifndef SSLM_PAGE_BY_PAGE_H
#define SSLM_PAGE_BY_PAGE_H

#include "attention.h"

void TIERED(sslm_attend_pages)(sslm_tile *tile, const sslm_tile_page *pages, int32_t page_count)
{
    for (int32_t page = 0; page < page_count; page++) {
        for (int32_t i = 0; i < tile->head_count; i++) {
            weigh_page(tile, &tile->heads[i], &pages[page]);
            add_group(tile, &tile->heads[i], &pages[page], &tile->near);
            add_group(tile, &tile->heads[i], &pages[page], &tile->far);
        }
    }
}

void TIERED(sslm_start_tile)(void)
{
}

void TIERED(sslm_end_tile)(void)
{
}

/* Queries are read as they are. */
void TIERED(sslm_start_scores)(sslm_row_heads *row, int32_t head_dim)
{
    (void)row;
    (void)head_dim;
}

void TIERED(sslm_end_scores)(void)
{
}

#endif
