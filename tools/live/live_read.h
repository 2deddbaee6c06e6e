/* live_read.h - the processes of this user that share their figures (shim/live.h), read and sorted.
 *
 * What it leaves out: printing. Lock: none; a process that writes meanwhile is noticed by the
 * checksum.
 */
#ifndef VRAMALLOC_TOOLS_LIVE_READ_H
#define VRAMALLOC_TOOLS_LIVE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../shim/live.h"

/* One figure, as in shim/live.def. */
struct live_figure {
    const char *name, *meaning;
    bool total; /* only grows; else a level */
    enum live_unit { LIVE_BYTES, LIVE_COUNT, LIVE_NS } unit;
    size_t offset; /* of its uint64_t in struct live_row */
};

extern const struct live_figure live_figures[];
extern const size_t live_figure_count;

static inline uint64_t live_figure_of(const struct live_row *row, const struct live_figure *figure)
{
    return *(const uint64_t *)(const void *)((const char *)row + figure->offset);
}

struct live_process {
    struct live_header header;
    struct live_sample now;
    struct live_sample before; /* row_count 0: there was none yet, and the time is the beginning */
    double seconds;            /* from the first CUDA call to `now` */
    double age_seconds;        /* of `now` */
};

/* What follows from a row and the one before. Shares are NaN where nothing can be divided. */
struct live_rates {
    double allocations, frees; /* a second */
    double hit_share; /* allocations served from the pool; of all so far where none was made */
    double
        wait_share; /* time in frees that waited, of time that passed; several threads: above 1 */
    double external_fragmentation;
};

struct live_rates live_rates_of(const struct live_process *process, const struct live_row *row);

/* Reads all, or that of one process (pid not 0), sorted by pid. Files that dead processes left
 * behind are removed. notes: what is passed over costs a line on stderr. *list_out: free() it.
 * False: no memory, or the folder cannot be read; errno says why. */
bool live_list(uint64_t pid, bool notes, struct live_process **list_out, size_t *count_out);

#endif
