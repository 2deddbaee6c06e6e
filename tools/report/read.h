/* read.h - a JSON report (docs/report.schema.json) as the struct that it was made from.
 *
 * What is not in the file is 0 or empty: reports of earlier libraries have fewer figures. What is
 * there must be of the right kind and range; a report of another schema is refused.
 *
 * What it leaves out: whether the figures add up (scripts/report-check). Lock: none.
 */
#ifndef VRAMALLOC_TOOLS_REPORT_READ_H
#define VRAMALLOC_TOOLS_REPORT_READ_H

#include <jansson.h>
#include <stdbool.h>

#include "../../shim/report.h"
#include "../common/command.h"

enum { READ_TEXT_BYTES = 64 };

struct loaded {
    struct report report;          /* its devices and strings live as long as this does */
    struct report_device *devices; /* one or more */
    struct report_group *groups;   /* of live blocks, of all devices */
    char host[256];
    char reason[READ_TEXT_BYTES], free_mode[READ_TEXT_BYTES], backing[READ_TEXT_BYTES];
    int rank;  /* RANK_UNKNOWN: none */
    int ranks; /* of the job; RANK_UNKNOWN */
};

/* False, after one line: the file cannot be read, or is no such report. */
bool report_read(const struct command *command, const char *path, struct loaded *loaded);

/* To be called where a `loaded` was copied: its report points into it. */
void report_settle(struct loaded *loaded);

void report_free(struct loaded *loaded);

#endif
