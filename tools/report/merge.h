/* merge.h - the reports of many processes as one table: a row a process and GPU, the worst first.
 *
 * Of a process that made several reports (VRAMALLOC_REPORT_EVERY) the last one counts.
 *
 * What it leaves out: reading them (read.c). Lock: none.
 */
#ifndef VRAMALLOC_TOOLS_REPORT_MERGE_H
#define VRAMALLOC_TOOLS_REPORT_MERGE_H

#include <stddef.h>
#include <stdio.h>

#include "read.h"

/* Leaves the last report of each process, in the order of the ranks. Returns how many. */
size_t merge_latest(struct loaded *loaded, size_t count);

/* Writes the table; of reports that merge_latest() left, one or more. earlier: how many it took
 * out. False: the host has no memory. */
bool merge_text(FILE *to, const struct loaded *loaded, size_t count, size_t earlier);
bool merge_json(FILE *to, const struct loaded *loaded, size_t count, size_t earlier);

#endif
