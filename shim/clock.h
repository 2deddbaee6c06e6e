/* clock.h - a cheap clock for counting waits: the processor's time-stamp counter.
 *
 * clock_ticks() costs about 8 ns where clock_gettime() costs 20 to 25. Ticks become nanoseconds only
 * when a report is made, by comparing both clocks over the life of the process. The counter must run
 * at a constant rate, as it does on every processor that a supported GPU is put beside (x86-64 with an
 * invariant TSC, aarch64's generic timer).
 *
 * Lock: none.
 */
#ifndef VRAMALLOC_SHIM_CLOCK_H
#define VRAMALLOC_SHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

#endif
