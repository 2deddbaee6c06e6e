/* live_print.h - shared figures as a table, as JSON, and for Prometheus. Lock: none. */
#ifndef VRAMALLOC_TOOLS_LIVE_PRINT_H
#define VRAMALLOC_TOOLS_LIVE_PRINT_H

#include <stdio.h>

#include "live_read.h"

enum { LIVE_COLUMNS_MIN = 80, LIVE_STALE_SECONDS = 3 };

/* A row a process and GPU under a heading, no wider than `columns` (80 at least), at most `lines`
 * of them in all, each followed by `line_end`. */
void live_table_print(FILE *out, const struct live_process *list, size_t count, int columns,
                      int lines, const char *line_end);

/* One document, vramalloc-live/1. */
void live_json_print(FILE *out, const struct live_process *list, size_t count);

/* Prometheus text format, version 0.0.4. */
void live_metrics_print(FILE *out, const struct live_process *list, size_t count);

#endif
