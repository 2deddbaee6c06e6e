/* lock.h - the pool's lock: held for short constant work, never across a call that can block.
 *
 * Taking it free is one locked instruction, inlined, and giving it back a plain store: there are
 * up to three of these in an allocation and its free (cache.c needs none), and locked instructions
 * are most of what the two cost. A thread that finds it held tries a few times, then says that it
 * waits and sleeps in the kernel (a futex) until it is woken. Who gives it back looks whether
 * somebody waits, but the processor may do that before others see the store: then nobody is woken,
 * so a sleep ends after 1 ms at the latest.
 *
 * What it leaves out: recursion, owners, fairness, error checking.
 */
#ifndef VRAMALLOC_POOL_LOCK_H
#define VRAMALLOC_POOL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct lock {
    uint32_t held;    /* 0 or 1 */
    uint32_t waiters; /* threads that sleep or are about to */
};

/* The slow halves, in lock.c. */
void lock_take_slowly(struct lock *lock);
void lock_wake(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    uint32_t expected = 0;
    return __atomic_compare_exchange_n(&lock->held, &expected, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *lock)
{
    if (__builtin_expect(!lock_try(lock), 0))
        lock_take_slowly(lock);
}

static inline void lock_give(struct lock *lock)
{
    __atomic_store_n(&lock->held, 0, __ATOMIC_RELEASE);
    if (__builtin_expect(__atomic_load_n(&lock->waiters, __ATOMIC_RELAXED) > 0, 0))
        lock_wake(lock);
}

/* Tries for about so long. Returns whether the lock was taken. */
bool lock_take_for(struct lock *lock, uint64_t ns);

#endif
