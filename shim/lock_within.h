/* lock_within.h - a mutex whose owner may never give it back: the process may end in a thread, or
 * in a handler of a thread, that holds it.
 *
 * What it leaves out: the pool's own lock (lock_take_for() in pool/lock.h). Lock: the one given.
 */
#ifndef VRAMALLOC_SHIM_LOCK_WITHIN_H
#define VRAMALLOC_SHIM_LOCK_WITHIN_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Takes it, asking each millisecond. False: it could not be had within so many. errno may change.
 */
static inline bool lock_within(pthread_mutex_t *lock, int patience_ms)
{
    static const struct timespec nap = {.tv_nsec = 1000000};
    for (int waited = 0; pthread_mutex_trylock(lock) != 0; waited++) {
        if (waited >= patience_ms)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

#endif
