/* leaks.h - for the report: whose the live blocks are, and who allocated.
 *
 * What it leaves out: printing (report_origins.c), which origin a block has (origins.h).
 * Lock: pools' own and the table's of the driver's blocks, for a bounded time. One report is made
 * at a time. No malloc, no driver call.
 */
#ifndef VRAMALLOC_SHIM_LEAKS_H
#define VRAMALLOC_SHIM_LEAKS_H

#include <stddef.h>

#include "report.h"

/* Sets `live` of each row, valid until the next call; left unknown where a lock is not to be had.
 * With the registry's lock held, or at exit. Cost: O(live blocks). */
void leaks_collect(struct report_device *rows, size_t count);

/* Sets all of a report that is about origins. Cost: O(origins). */
void callers_collect(struct report *report);

#endif
