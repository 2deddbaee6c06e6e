/* lock.c - the slow halves of the pool's lock. See lock.h. */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 60, NAP_NS = 1000000 };

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

void lock_take_slowly(struct lock *lock)
{
    static const struct timespec nap = {.tv_nsec = NAP_NS};
    int saved_errno = errno;
    for (int i = 0; i < SPINS; i++) {
        if (__atomic_load_n(&lock->held, __ATOMIC_RELAXED) == 0 && lock_try(lock))
            return;
        pause_briefly();
    }
    __atomic_fetch_add(&lock->waiters, 1, __ATOMIC_SEQ_CST);
    while (!lock_try(lock))
        syscall(SYS_futex, &lock->held, FUTEX_WAIT_PRIVATE, 1, &nap, NULL, 0);
    __atomic_fetch_sub(&lock->waiters, 1, __ATOMIC_RELAXED);
    errno = saved_errno;
}

void lock_wake(struct lock *lock)
{
    int saved_errno = errno;
    syscall(SYS_futex, &lock->held, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved_errno;
}

bool lock_take_for(struct lock *lock, uint64_t ns)
{
    struct timespec nap = {.tv_nsec = NAP_NS};
    for (uint64_t waited = 0; !lock_try(lock); waited += NAP_NS) {
        if (waited >= ns)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}
