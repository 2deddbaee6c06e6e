/* clock.h - two clocks: one exact, one cheap enough for every free.
 *
 * The coarse clock advances with the kernel's timer, every few milliseconds, and costs a few
 * nanoseconds to read where the exact one costs 20 to 35. A sum of many short waits measured with
 * it is right on average, since the clock advances within a wait as often as the wait is long; one
 * wait is right to the timer's step.
 *
 * Lock: none.
 */
#ifndef VRAMALLOC_SHIM_CLOCK_H
#define VRAMALLOC_SHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_coarse_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

#endif
