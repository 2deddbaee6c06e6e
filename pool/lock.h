/* lock.h - the pool's lock: held for short constant work, never across a call that can block.
 *
 * One word: 0 free, 1 held, 2 held and perhaps waited for. Taking it free is one atomic exchange
 * and giving it back another, inlined: about half of what pthread_mutex costs, and there are three
 * of these in an allocation and its free. A thread that finds it held tries a few times, then
 * sleeps in the kernel until it is given back (Drepper, "Futexes Are Tricky", 2011, mutex 2).
 *
 * What it leaves out: recursion, owners, fairness, error checking.
 */
#ifndef VRAMALLOC_POOL_LOCK_H
#define VRAMALLOC_POOL_LOCK_H

#include <stdbool.h>
#include <stdint.h>

struct lock {
    uint32_t word; /* zero: free */
};

/* The slow halves, in lock.c. */
void lock_take_slowly(struct lock *lock);
void lock_wake(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    uint32_t expected = 0;
    return __atomic_compare_exchange_n(&lock->word, &expected, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static inline void lock_take(struct lock *lock)
{
    if (__builtin_expect(!lock_try(lock), 0))
        lock_take_slowly(lock);
}

static inline void lock_give(struct lock *lock)
{
    if (__builtin_expect(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2, 0))
        lock_wake(lock);
}

/* Tries for about so long. Returns whether the lock was taken. */
bool lock_take_for(struct lock *lock, uint64_t ns);

#endif
