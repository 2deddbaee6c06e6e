/* points.h - put in front of every file of pool/ and shim/ by the test build of the library: each
 * lock operation, atomic access, clock and sleep becomes a point where the scheduler may go on
 * with another thread. The sources themselves are as they are.
 *
 * A point is coarse (locks; the simulator adds driver calls) or fine (atomic accesses). Relaxed
 * additions are counters, and no points.
 *
 * What it leaves out: the order of memory. One thread runs at a time, so what another one sees is
 * always the newest; ThreadSanitizer and the tests with real threads are for that. The lock's own
 * spinning and sleeping (pool/lock.c) is replaced by the scheduler's wait.
 */
#ifndef VRAMALLOC_SCHEDULE_POINTS_H
#define VRAMALLOC_SCHEDULE_POINTS_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "../../pool/lock.h"
#include "scheduler.h"

#define SCHEDULE_TEXT(number) #number
#define SCHEDULE_LINE(number) SCHEDULE_TEXT(number)
#define SCHEDULE_HERE(what)   __FILE__ ":" SCHEDULE_LINE(__LINE__) " " what

static inline void schedule_lock_take(struct lock *lock, const char *where)
{
    schedule_point(SCHEDULE_COARSE, where);
    while (!lock_try(lock))
        schedule_wait(lock, where);
    schedule_owns(lock);
}

static inline void schedule_lock_give(struct lock *lock, const char *where)
{
    lock_give(lock);
    schedule_wake(lock);
    schedule_point(SCHEDULE_COARSE, where);
}

#define lock_take(lock) schedule_lock_take((lock), SCHEDULE_HERE("takes " #lock))
#define lock_give(lock) schedule_lock_give((lock), SCHEDULE_HERE("gave " #lock))

#define pthread_mutex_lock(mutex)    schedule_mutex_lock((mutex), SCHEDULE_HERE("takes " #mutex))
#define pthread_mutex_trylock(mutex) schedule_mutex_trylock((mutex), SCHEDULE_HERE("tries " #mutex))
#define pthread_mutex_unlock(mutex)  schedule_mutex_unlock((mutex), SCHEDULE_HERE("gave " #mutex))
#define sched_yield()                schedule_yield(20000, SCHEDULE_HERE("yields"))
#define nanosleep(nap, left)         schedule_sleep((nap), SCHEDULE_HERE("sleeps"))
#define clock_gettime(clock, now)    schedule_clock((clock), (now))

#define SCHEDULE_ATOMIC(what) schedule_point(SCHEDULE_FINE, SCHEDULE_HERE(what))
#define SCHEDULE_COUNTER(order, what)                                                              \
    ((order) == __ATOMIC_RELAXED ? (void)0 : SCHEDULE_ATOMIC(what))

#define __atomic_load_n(place, order)                                                              \
    (SCHEDULE_ATOMIC("loads " #place), __atomic_load_n(place, order))
#define __atomic_store_n(place, value, order)                                                      \
    (SCHEDULE_ATOMIC("stores " #place), __atomic_store_n(place, value, order))
#define __atomic_exchange_n(place, value, order)                                                   \
    (SCHEDULE_ATOMIC("exchanges " #place), __atomic_exchange_n(place, value, order))
#define __atomic_compare_exchange_n(place, ...)                                                    \
    (SCHEDULE_ATOMIC("compares " #place), __atomic_compare_exchange_n(place, __VA_ARGS__))
#define __atomic_fetch_add(place, value, order)                                                    \
    (SCHEDULE_COUNTER(order, "adds to " #place), __atomic_fetch_add(place, value, order))
#define __atomic_fetch_sub(place, value, order)                                                    \
    (SCHEDULE_COUNTER(order, "takes from " #place), __atomic_fetch_sub(place, value, order))
#define __atomic_add_fetch(place, value, order)                                                    \
    (SCHEDULE_COUNTER(order, "adds to " #place), __atomic_add_fetch(place, value, order))
#define __atomic_sub_fetch(place, value, order)                                                    \
    (SCHEDULE_COUNTER(order, "takes from " #place), __atomic_sub_fetch(place, value, order))
#define __atomic_fetch_or(place, value, order)                                                     \
    (SCHEDULE_ATOMIC("sets in " #place), __atomic_fetch_or(place, value, order))
#define __atomic_or_fetch(place, value, order)                                                     \
    (SCHEDULE_ATOMIC("sets in " #place), __atomic_or_fetch(place, value, order))
#define __atomic_fetch_and(place, value, order)                                                    \
    (SCHEDULE_ATOMIC("clears in " #place), __atomic_fetch_and(place, value, order))

#endif
