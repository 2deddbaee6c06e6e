/* asymmetric.c - a fence between one thread that passes often and others that look rarely. See
 * asymmetric.h. */
#define _GNU_SOURCE
#include "asymmetric.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_NS 2000000L

static bool ready;

static bool barrier(int command)
{
#ifdef SYS_membarrier
    int saved_errno = errno;
    bool done = syscall(SYS_membarrier, command, 0) == 0;
    errno = saved_errno;
    return done;
#else
    (void)command;
    return false;
#endif
}

__attribute__((constructor)) static void prepare(void)
{
    bool works = barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                 barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    __atomic_store_n(&ready, works, __ATOMIC_RELEASE);
}

bool asymmetric_ready(void)
{
    return __atomic_load_n(&ready, __ATOMIC_ACQUIRE);
}

void asymmetric_fence_heavy(void)
{
    struct timespec drain = {.tv_nsec = DRAIN_NS};
    /* a child made by fork may have to say again that it will ask */
    if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
        (barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
         barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
        return;
    int saved_errno = errno;
    nanosleep(&drain, NULL);
    errno = saved_errno;
}
