/* report.h - a report, at exit or before: one screen of text or one JSON document, made from host
 * state alone.
 *
 * What it leaves out: collecting the figures (shim/devices.c hands them over) and any CUDA call.
 *
 * Locks: none. Called by one thread at a time, which holds the report lock (reporter.h). No malloc:
 * everything is on the stack or static.
 */
#ifndef VRAMALLOC_SHIM_REPORT_H
#define VRAMALLOC_SHIM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../pool/stats.h"
#include "latency.h"
#include "modules.h"

struct counters {
#define COUNTER(name, unit, meaning) uint64_t name;
#include "counters.def"
#undef COUNTER
};

/* A free of pool memory that was refused. */
struct refused_free {
    uint64_t address;
    uint64_t block_address; /* the block it lies inside of; 0: it is free memory */
    uint64_t block_bytes;   /* as requested */
};

enum { REFUSED_FREES_MAX = 8 }; /* kept: the first ones; all are counted */

/* Live blocks of one origin (origins.h) and, where origins are no stacks, of about one size: up to
 * twice another. */
struct report_group {
    uint32_t origin;
    uint32_t module;                                       /* that allocated them; 0: not known */
    bool by_driver;                                        /* the driver served them */
    uint64_t blocks, bytes, smallest_bytes, largest_bytes; /* as requested */
};

/* All that is live on a GPU = the groups listed + the others. */
struct report_live {
    bool known; /* false: nobody looked */
    size_t count;
    const struct report_group *groups; /* the largest first */
    uint64_t other_groups, other_blocks, other_bytes;
    uint64_t kept_blocks, kept_bytes; /* of all these, by libraries that keep memory on purpose */
};

/* One group more that is not listed. */
static inline void report_live_other(struct report_live *live, const struct report_group *group)
{
    live->other_groups++;
    live->other_blocks += group->blocks;
    live->other_bytes += group->bytes;
}

/* Allocations by the module that made them. */
struct report_caller {
    uint32_t module;       /* 0: not known */
    uint64_t looked_at;    /* calls */
    uint64_t calls, bytes; /* that these stand for */
};

enum { REPORT_CALLERS_MAX = 32 }; /* the last one is what has no row of its own, if it is needed */

/* One GPU. Figures of several contexts on it are already added up. */
struct report_device {
    int ordinal;          /* as the program numbers its devices */
    char name[96];        /* empty when not known */
    uint64_t total_bytes; /* memory of the card; 0 when not known */
    uint64_t contexts;    /* pools that the figures come from */
    bool peers;           /* other devices, or green contexts, may use its memory */
    struct counters counters;
    struct pool_stats pool;
    struct pool_history history; /* times by CLOCK_MONOTONIC; peaks' are 0 for several contexts */
    struct latency latency;
    size_t refused_count;
    struct refused_free refused_frees[REFUSED_FREES_MAX];
    struct report_live live;
};

struct report {
    char program[256]; /* basename of the executable */
    int pid;
    double seconds;     /* from the first CUDA call seen to the report */
    uint64_t start_ns;  /* that call, by CLOCK_MONOTONIC */
    uint64_t number;    /* of the process's reports: 1, 2 ... */
    const char *reason; /* exit, signal USR2, every 60 s */
    bool at_exit;
    int64_t time;          /* UTC, seconds since 1970 */
    const char *free_mode; /* effective VRAMALLOC_FREE */
    const char *backing;   /* effective VRAMALLOC_BACKING */
    uint32_t slack;        /* effective VRAMALLOC_SLACK */
    bool count_leaks;      /* false: VRAMALLOC_LEAKS=off */
    bool stacks;           /* origins are call stacks */
    uint64_t stacks_stored;
    uint64_t stacks_lost; /* calls whose stack could not be walked or stored */
    /* The frames of an origin, the innermost first, at most `max`; NULL: none are known. */
    size_t (*frames)(uint32_t origin, struct module_frame *frames, size_t max);
    size_t caller_count;
    struct report_caller callers[REPORT_CALLERS_MAX]; /* most calls first */
    size_t device_count;
    const struct report_device *devices;
};

/* Writes the report where the options say (VRAMALLOC_REPORT, VRAMALLOC_REPORT_FORMAT).
 * A path is opened with O_CREAT|O_EXCL|O_NOFOLLOW, 0600; an existing file is never overwritten: the
 * next free name PATH.1, PATH.2 ... is taken, and said. If it cannot be opened, one line says why
 * and the report goes to stderr. errno is kept. */
void report_write(const struct report *report);

#endif
