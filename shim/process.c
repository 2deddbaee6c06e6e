/* process.c - first use, fork and exit.
 *
 * First use: when libcuda is found in the process, the settings are read and printed if asked for.
 * Until then nothing happens at all, so a shell or a launcher sees no trace of the library.
 * Fork: a child forked after the first device was seen gets the driver's own answers (CUDA does not
 * survive fork) and makes no report; no lock of ours is touched there.
 * Exit: the report is made from host state by a destructor. No driver call.
 *
 * What it leaves out: exit by _exit, quick_exit or a signal makes no report.
 * Lock: none.
 */
#include "process.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "figures.h"
#include "options.h"
#include "report.h"

extern char *program_invocation_short_name;

bool process_is_orphan;

static bool device_seen;
static uint64_t start_ns;

static void child_after_fork(void)
{
    if (__atomic_load_n(&device_seen, __ATOMIC_RELAXED))
        __atomic_store_n(&process_is_orphan, true, __ATOMIC_RELAXED);
}

void process_start(void)
{
    int saved_errno = errno;
    options_load();
    if (options.verbose)
        options_print();
    pthread_atfork(NULL, NULL, child_after_fork);
    start_ns = clock_ns();
    errno = saved_errno;
}

void process_device_seen(void)
{
    __atomic_store_n(&device_seen, true, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void process_end(void)
{
    static struct report_device rows[DEVICES_MAX];
    int saved_errno = errno;
    if (start_ns == 0 || !process_serves())
        return;
    uint64_t elapsed_ns = clock_ns() - start_ns;
    size_t count = devices_collect(rows, DEVICES_MAX);
    if (count > 0) {
        struct report report = {.pid = getpid(),
                                .seconds = (double)elapsed_ns / 1e9,
                                .free_mode = options.free_mode,
                                .backing = options.backing,
                                .count_leaks = strcmp(options.leaks, "count") == 0,
                                .device_count = count,
                                .devices = rows};
        strncpy(report.program, program_invocation_short_name, sizeof(report.program) - 1);
        report_write(&report);
    }
    errno = saved_errno;
}
