/* source.h - where a view's events come from: a trace of vramalloc, or a CSV of RMM's form.
 *
 * Both give the same events in the same order each time they are gone through. A CSV does not say
 * who called, what the pool held or how it was set; it says which thread called.
 *
 * What it leaves out: what the events mean together (state.c). Lock: none.
 */
#ifndef VRAMALLOC_VIEW_SOURCE_H
#define VRAMALLOC_VIEW_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
    EVENT_ALLOC, /* of a block, which the caller got */
    EVENT_FREE,
    EVENT_GROW, /* memory from the driver, and back to it */
    EVENT_SHRINK,
    EVENT_OUT_OF_MEMORY, /* a request of `bytes` failed */
    EVENT_FAILED,        /* and its call returned: tells the caller */
    EVENT_CONTEXT_END,
    EVENT_WAIT, /* the host waited for the GPU */
    EVENT_PASSED,
    EVENT_OTHER
};

enum { SOURCE_DEVICES = 64, SOURCE_REASON_BYTES = 400 };

struct event {
    enum event_kind kind;
    bool served;     /* of an allocation: the block is the pool's */
    uint8_t device;  /* 0 .. SOURCE_DEVICES - 1 */
    uint16_t caller; /* 0: not known; source_caller() names it */
    uint16_t context;
    uint32_t thread;
    uint64_t time_ns; /* since the first event or the program's start, never falling */
    uint64_t duration_ns;
    uint64_t address;
    uint64_t bytes;
};

struct source_device {
    bool known;
    uint64_t bytes; /* of the card */
    const char *name;
};

/* What is known of the run beside its events. Strings are any bytes but zero. */
struct source_info {
    const char *form;    /* "vramalloc" or "csv" */
    const char *program; /* NULL: not known; the same for the next */
    const char *host;
    int pid;
    uint64_t start_unix_ns; /* 0: not known */
    bool ended;             /* the program ended in order */
    uint64_t lost_events;
    bool cut; /* the trace stopped before the program did: from cut_ns on events are missing */
    uint64_t cut_ns;
    bool knows_callers;         /* else callers are threads and sizes */
    bool movable;               /* neighbouring memory from the driver is one (vmm) */
    const char *const *setting; /* NAME=value */
    size_t setting_count;
    struct source_device device[SOURCE_DEVICES];
};

struct source;

/* NULL: `reason` says why, in one line without a newline. */
struct source *source_open(const char *path, char reason[SOURCE_REASON_BYTES]);
void source_close(struct source *source);
const struct source_info *source_info(const struct source *source);

/* True: *event is the next one. False: there is none, or source_reason() says what is wrong. */
bool source_next(struct source *source, struct event *event);
const char *source_reason(const struct source *source); /* NULL: nothing is wrong */
void source_rewind(struct source *source);

/* Who calls, in two parts: the module (a path, or a thread) and the place in it (a symbol or an
 * offset, or sizes). Texts are cut to fit. */
struct source_place {
    char module[256];
    char place[128];
};
struct source_place source_caller(const struct source *source, uint16_t caller);

#endif
