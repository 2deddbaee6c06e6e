/* process.c - first use, fork and exit.
 *
 * First use: when libcuda is found in the process, the settings are read and printed if asked for.
 * Until then nothing happens at all, so a shell or a launcher sees no trace of the library.
 * Fork: a child made after the first device was seen gets the driver's own answers (CUDA does not
 * survive fork) and makes no report; no lock of ours is touched there. It is told by a page that
 * the kernel hands to children as zeroes, since a raw clone() runs no handlers of fork.
 * Exit: the report is made from host state by a destructor (reporter.c). No driver call.
 *
 * What it leaves out: exit by _exit, quick_exit or a signal makes no report.
 * Lock: none.
 */
#define _GNU_SOURCE
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "options.h"
#include "origins.h"
#include "reporter.h"
#include "trace.h"

/* Serves until a device is seen; from then on `mark` is looked at. */
static const bool always = true;
static bool served = true;
const bool *process_is_served = &always;

static bool started;

/* Where the kernel has no such pages (before 4.14). */
static void child_after_fork(void)
{
    __atomic_store_n(&served, false, __ATOMIC_RELAXED);
}

/* A page that reads as zeroes in every child with memory of its own; NULL: not possible. */
static bool *mark_make(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    bool *mark = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED)
        return NULL;
    if (madvise(mark, bytes, MADV_WIPEONFORK) == 0) {
        __atomic_store_n(mark, true, __ATOMIC_RELAXED);
        return mark;
    }
    munmap(mark, bytes);
    return NULL;
}

void process_start(void)
{
    int saved_errno = errno;
    options_load();
    origins_settle();
    trace_settle();
    if (options.verbose)
        options_print();
    reporter_begin();
    started = true;
    errno = saved_errno;
}

void process_device_seen(void)
{
    if (process_is_served != &always)
        return;
    bool *mark = mark_make();
    if (mark == NULL)
        pthread_atfork(NULL, NULL, child_after_fork);
    __atomic_store_n(&process_is_served, mark != NULL ? mark : &served, __ATOMIC_RELEASE);
}

void process_memory_asked(uint64_t total_bytes)
{
    options_complain(total_bytes);
    reporter_start();
}

__attribute__((destructor)) static void process_end(void)
{
    if (started && process_serves()) {
        trace_end();
        reporter_end();
    }
}
