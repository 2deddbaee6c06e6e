/* asymmetric.h - a fence between one thread that passes often and others that look rarely.
 *
 * The frequent side stores a flag and then loads another thread's; the rare side does the reverse.
 * One of the two must see the other, which takes a full fence between store and load on both sides:
 * a locked instruction, most of the cost of a short operation. Here the frequent side pays nothing
 * (the compiler alone is held back), and the rare side makes every other thread of the process pass
 * a fence at that moment, by membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED (Linux 4.14).
 *
 * Should the kernel no longer answer (a sandbox entered later), the rare side sleeps 2 ms instead:
 * processors keep a store to themselves for nanoseconds, and an interrupt drains what they keep.
 *
 * What it leaves out: flags, waiting. Lock: none.
 */
#ifndef VRAMALLOC_POOL_ASYMMETRIC_H
#define VRAMALLOC_POOL_ASYMMETRIC_H

#include <stdbool.h>

/* Whether such fences work here; false: use full ones. The kernel is told at the start of the
 * process that it will be asked, since where other threads run already that may take it 10 ms and
 * more. Cost: a load. */
bool asymmetric_ready(void);

/* The rare side. Keeps errno. Cost: a system call, 1 to 10 us. */
void asymmetric_fence_heavy(void);

/* The frequent side. Cost: nothing. */
static inline void asymmetric_fence_light(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif
