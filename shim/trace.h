/* trace.h - VRAMALLOC_TRACE: every call of the program and the pool's own events, into a file.
 *
 * Form: trace_format.h. A hook asks trace_wanted(), which costs a load and a branch; only then are
 * the functions below called. Each may be called at any time from any thread: where there is no
 * trace, or it can hold no more, it does nothing but count what is lost. errno is kept; no malloc.
 *
 * What it leaves out: reading (tools/trace), a thread of its own. Lock: one of its own for the list
 * of callers and for chunks that ended threads left; no driver call is made under it.
 */
#ifndef VRAMALLOC_SHIM_TRACE_H
#define VRAMALLOC_SHIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "trace_format.h"

/* Read through trace_wanted(). True also until the settings are known: the first call of all may be
 * the one that reads them. */
extern bool trace_on;

static inline bool trace_wanted(void)
{
    return __builtin_expect(__atomic_load_n(&trace_on, __ATOMIC_RELAXED), 0);
}

/* The settings are known. */
void trace_settle(void);

/* A device was seen; the file is made when the first one is. Children forked from now on leave the
 * trace alone. name: at most 96 characters. Cost: file calls. */
void trace_device(int ordinal, uint64_t total_bytes, const char *name);

/* The process ends in order: says so in the file, and on stderr how much was left out. */
void trace_end(void);

/* One call of the program. `caller` is the hook's return address. */
struct trace_call {
    uint64_t begin_ns; /* of a free */
    const void *caller;
    struct trace_record *record; /* of a free; NULL: there is none */
    void *chunk;                 /* that the record lies in */
    void *outer_chunk;
};

/* Around an allocation. result: the driver's code. address: 0 where there is no block. served: the
 * block is the pool's. Cost together: a clock and 48 bytes written; a call that turns slow
 * (latency.h) or waits is timed from there, which costs a clock more. */
struct trace_call trace_alloc_begin(const void *caller);
void trace_alloc_end(const struct trace_call *call, enum trace_kind kind, int result,
                     uint64_t address, uint64_t bytes, uint64_t stream, bool served);

/* Around a free: its record stands from the beginning on. Cost: as above; a wait's
 * end is the call's, and its clock the only one. */
struct trace_call trace_free_begin(const void *caller, enum trace_kind kind, uint64_t address,
                                   uint64_t stream, bool served);
void trace_free_end(const struct trace_call *call, int result);

/* Memory that is only counted. */
void trace_passed(const void *caller, uint64_t bytes);

/* The thread's latest known time inside a call of the program, else the clock's. */
uint64_t trace_recent_ns(void);

/* Nanoseconds of CLOCK_MONOTONIC where a trace is wanted, else 0: for trace_event(). */
static inline uint64_t trace_clock(void)
{
    return trace_wanted() ? clock_ns() : 0;
}

/* As trace_clock(), without asking it inside a call of the program. */
static inline uint64_t trace_recent(void)
{
    return trace_wanted() ? trace_recent_ns() : 0;
}

/* An event of the pool. begin_ns: from trace_clock() or trace_recent(), and the event lasted from
 * then till now; 0: nothing is recorded. context: its number, 0 where there is none. */
void trace_event(enum trace_kind kind, uint64_t begin_ns, uint64_t address, uint64_t bytes,
                 int result, uint16_t context);

/* Where a trace is wanted: a fence was recorded, just now. stream: 0 for all of the context. Cost:
 * 48 bytes written. */
void trace_fence(uint64_t stream, uint16_t context);

/* The host waited since begin_ns, which is not 0: recorded from TRACE_WAIT_LEAST_NS on. */
void trace_wait(uint64_t begin_ns, int result, uint16_t context);

/* The stream as records have it. per_thread: handle 0 means the thread's own default stream. */
static inline uint64_t trace_stream(const void *handle, bool per_thread)
{
    if (handle != 0)
        return (uint64_t)(uintptr_t)handle;
    return per_thread ? TRACE_STREAM_PER_THREAD : TRACE_STREAM_LEGACY;
}

#endif
