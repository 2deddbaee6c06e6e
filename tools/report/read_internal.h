/* read_internal.h - how read.c and read_origins.c read members of a JSON object. What is wrong is
 * noted once, and ends the reading.
 */
#ifndef VRAMALLOC_TOOLS_REPORT_READ_INTERNAL_H
#define VRAMALLOC_TOOLS_REPORT_READ_INTERNAL_H

#include "read.h"

enum { WHY_BYTES = 200 };

struct read_state {
    bool wrong;
    char why[WHY_BYTES];
};

void read_wrong(struct read_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A whole number from 0 to max, or to INT64_MAX; 0 where it is missing. */
uint64_t read_integer(struct read_state *state, const json_t *object, const char *name,
                      uint64_t max);
uint64_t read_figure(struct read_state *state, const json_t *object, const char *name);

/* Text without control characters; empty where it is missing. */
void read_text(struct read_state *state, const json_t *object, const char *name, char *out,
               size_t bytes);

/* The elements of a list of up to max; 0 where it is missing. */
size_t read_list(struct read_state *state, const json_t *object, const char *name, size_t max,
                 const json_t **list_out);

/* read_origins.c: who allocated, and whose the live blocks of a GPU are. The groups of the live
 * blocks are written to *groups, of which there is room for all of the report's. */
size_t read_groups_count(struct read_state *state, const json_t *gpu);
void read_live(struct read_state *state, const json_t *gpu, struct report_live *live,
               struct report_group *groups);
void read_callers(struct read_state *state, const json_t *root, struct report *report);

#endif
