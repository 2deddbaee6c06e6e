/* trace.h - allocation traces: the CSV that RMM's replay benchmark reads, plain or gzip'd; and the
 * library's own (shim/trace_format.h), of which the GPU with the most allocations is taken.
 *
 * Columns: Thread,Time,Action,Pointer,Size,Stream. Action is allocate or free; Stream is "-" for
 * cudaMalloc and cudaFree, else a stream handle; Time is nanoseconds. RMM's own logs (lines of
 * failed allocations, times of day) are read as well.
 *
 * What it leaves out: replaying. Lock: none; a loaded trace is read-only.
 */
#ifndef VRAMALLOC_REPLAY_TRACE_H
#define VRAMALLOC_REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No block is larger: so sums of sizes stay below 2^64 as long as 4096 such blocks do not live. */
#define TRACE_BLOCK_MAX_BYTES ((uint64_t)1 << 52)

struct trace_event {
    uint64_t bytes;   /* of the block: also on its free */
    uint64_t stream;  /* 0: not stream-ordered; else the handle + 1 */
    uint64_t time_ns; /* since the first event */
    uint32_t block;   /* 0 .. trace.block_count - 1: one life of one pointer */
    uint32_t thread;  /* 0 .. trace.thread_count - 1 */
    bool is_free;
};

struct trace {
    struct trace_event *events;
    size_t event_count;
    size_t block_count;
    size_t thread_count;
    size_t foreign_frees; /* frees of pointers the trace never allocated: left out */
    size_t other_gpus;    /* allocations of other GPUs: left out */
    size_t lost_events;   /* that the trace says it has not */
    uint64_t card_bytes;  /* of the GPU; 0: not known */
    /* The request that was refused and behind which nothing was allocated any more: what the
     * program ended of, most likely. It is no event. */
    uint64_t refused_bytes; /* 0: there is none */
    uint64_t refused_ns;    /* since the first event */
    size_t refused_at;      /* events before it */
};

struct trace_error {
    size_t line; /* from 1; 0: not about a line */
    char reason[256];
};

/* Reads a CSV without keeping it: `visit` is called for each event. pointer: as the file has it.
 * False: *error says why; `visit` returned false, or as trace_load(). */
typedef bool trace_visitor(void *arg, const struct trace_event *event, uint64_t pointer);
bool trace_visit(const char *path, trace_visitor *visit, void *arg, struct trace_error *error);

/* Loads a whole trace, a CSV or what VRAMALLOC_TRACE makes. True: trace_free() it later. False:
 * *error says where and why. */
bool trace_load(const char *path, struct trace *trace, struct trace_error *error);
void trace_free(struct trace *trace);

/* Makes the refused request an event, as if it had been granted to the thread of the event before.
 * False: the host has no memory. */
bool trace_refused_add(struct trace *trace);

#endif
