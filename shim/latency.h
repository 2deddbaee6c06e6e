/* latency.h - how long allocations and frees take, sampled on the hot path.
 *
 * Each thread times one of some calls: every one of its first 16, then one of about 2, 4 ... up to
 * 256, at distances that vary at random around that, so that a program's own period is not met. A
 * timed call counts for as many as it was drawn from. Calls that turn slow (the pool has no memory
 * at hand, the driver answers, memory goes back, a wait of two ticks of the coarse clock or more)
 * are all timed, each once, from where they turn slow; they are kept apart, so that both kinds
 * weigh what they should (histogram_summarize()). What reading the clock costs is taken off.
 *
 * Cost of a call that is not timed: a thread-local decrement, a store, and two branches. A library
 * built with VRAMALLOC_NO_LATENCY has none of it (make bare), for measurements of what it costs.
 *
 * What it leaves out: printing. Lock: none.
 */
#ifndef VRAMALLOC_SHIM_LATENCY_H
#define VRAMALLOC_SHIM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

enum latency_kind { LATENCY_ALLOC = 0, LATENCY_FREE, LATENCY_KINDS };

struct latency {
    struct histogram sampled[LATENCY_KINDS];
    struct histogram slow[LATENCY_KINDS];
    struct histogram growth; /* segments obtained from the driver */
};

struct device;

/* The calling thread's. Private to this file and latency.c. */
struct latency_thread {
    uint32_t left;          /* calls until the next that is timed */
    uint64_t slow_since_ns; /* the present call turned slow then; 0: it did not */
    struct device *device;  /* of the block that is being freed */
    uint64_t random;
    uint32_t timed;  /* calls so far, until there is no more to learn from that */
    uint32_t weight; /* calls that the present timed one stands for */
    uint32_t mean;   /* the same for the next */
};
extern __thread struct latency_thread latency_thread;

/* A call that is to be timed begins. Returns its time, above 0. */
uint64_t latency_draw(void);

/* A call ended that was timed (begin_ns above 0) or turned slow. */
void latency_record(enum latency_kind kind, uint64_t begin_ns);

/* A call begins that has not turned slow. latency_begin() says so too. */
static inline void latency_slow_not_yet(void)
{
    latency_thread.slow_since_ns = 0;
}

/* When the thread's present call turned slow, or its latest one; 0: it did not. */
static inline uint64_t latency_slow_since(void)
{
    return latency_thread.slow_since_ns;
}

/* Around a hooked call. */
static inline uint64_t latency_begin(void)
{
#ifdef VRAMALLOC_NO_LATENCY
    return 0;
#endif
    latency_slow_not_yet();
    return __builtin_expect(latency_thread.left-- == 0, 0) ? latency_draw() : 0;
}

static inline void latency_end(enum latency_kind kind, uint64_t begin_ns)
{
#ifdef VRAMALLOC_NO_LATENCY
    return;
#endif
    if (__builtin_expect((begin_ns | latency_thread.slow_since_ns) != 0, 0))
        latency_record(kind, begin_ns);
}

/* How many calls the present one stands for, where it is timed. */
static inline uint32_t latency_weight(void)
{
    return latency_thread.weight;
}

/* The device to which the present free counts. */
static inline void latency_of(struct device *device)
{
    latency_thread.device = device;
}

/* The present call turns slow. Cost: a clock, the first time in a call. */
void latency_slow(void);

/* The present call has waited for `ns`, by the coarse clock. */
void latency_waited(uint64_t ns);

/* A segment was obtained, which began at begin_ns by clock_ns(). */
void latency_growth(struct device *device, uint64_t begin_ns);

#endif
