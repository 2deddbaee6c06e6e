/* reporter.c - reports, and the thread that makes them while the program runs. See reporter.h.
 *
 * The thread sleeps on a futex: a handler can wake it, no descriptor is held that a program could
 * close, and a change of the clock does not matter.
 */
#define _GNU_SOURCE
#include "reporter.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "devices.h"
#include "figures.h"
#include "leaks.h"
#include "live.h"
#include "lock_within.h"
#include "log.h"
#include "options.h"
#include "process.h"
#include "report.h"
#include "signal_name.h"
#include "signals.h"

#define SECOND_NS 1000000000U
#define NEVER_NS  UINT64_MAX

enum { EXIT_PATIENCE_MS = 3000, REGISTRY_PATIENCE_MS = 1000, REASON_BYTES = 48 };
enum state { STATE_NONE, STATE_STARTING, STATE_RUNS, STATE_ENDING };

static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;
static struct report_device rows[DEVICES_MAX]; /* under report_lock */
static uint64_t report_number;                 /* under report_lock */
static uint64_t begin_ns;
static int state;      /* enum state, atomic */
static uint32_t asked; /* reports that were asked for; also what the thread sleeps on */

/* Returns how many rows count. blocks: whose they are is wanted. */
static size_t figures_take(bool at_exit, bool blocks)
{
    pthread_mutex_t *registry = devices_lock();
    bool locked = !at_exit; /* a thread that ended the process from a handler may hold it */
    if (locked && !lock_within(registry, REGISTRY_PATIENCE_MS))
        return 0;
    size_t count = devices_collect(rows, DEVICES_MAX);
    if (blocks)
        leaks_collect(rows, count);
    if (locked)
        pthread_mutex_unlock(registry);
    return count;
}

static void report_make_locked(const char *reason, bool at_exit)
{
    static struct report report; /* under report_lock: the stack may be small */
    bool count_leaks = strcmp(options.leaks, "off") != 0;
    size_t count = figures_take(at_exit, count_leaks && strcmp(options.report, "off") != 0);
    uint64_t elapsed_ns = clock_ns() - begin_ns; /* not less than the figures' means are over */
    if (count == 0)
        return;
    report = (struct report){.pid = getpid(),
                             .seconds = (double)elapsed_ns / 1e9,
                             .start_ns = begin_ns,
                             .number = ++report_number,
                             .reason = reason,
                             .at_exit = at_exit,
                             .time = time(NULL),
                             .free_mode = options.free_mode,
                             .backing = options.backing,
                             .slack = options.slack,
                             .count_leaks = count_leaks,
                             .device_count = count,
                             .devices = rows};
    callers_collect(&report);
    strncpy(report.program, program_invocation_short_name, sizeof(report.program) - 1);
    report_write(&report);
}

/* --- the thread ---------------------------------------------------------------------------------
 */

static bool is_ending(void)
{
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == STATE_ENDING;
}

/* False: the process ends, and its report is another thread's. */
static bool report_make(const char *reason)
{
    pthread_mutex_lock(&report_lock);
    bool here = !is_ending();
    if (here)
        report_make_locked(reason, false);
    pthread_mutex_unlock(&report_lock);
    return here;
}

static bool live_update(void)
{
    pthread_mutex_lock(&report_lock);
    bool here = !is_ending();
    if (here)
        live_write(rows, figures_take(false, false), begin_ns);
    pthread_mutex_unlock(&report_lock);
    return here;
}

/* Sleeps until `until_ns`, or until `asked` is no longer `seen`. */
static void sleep_until(uint64_t until_ns, uint32_t seen)
{
    uint64_t now = clock_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec wait = {.tv_sec = (time_t)(left / SECOND_NS),
                            .tv_nsec = (long)(left % SECOND_NS)};
    if (left > 0)
        syscall(SYS_futex, &asked, FUTEX_WAIT_PRIVATE, seen, until_ns == NEVER_NS ? NULL : &wait,
                NULL, 0);
}

/* When something that is done every period_ns is next due. */
static uint64_t next_after(uint64_t due_ns, uint64_t period_ns)
{
    uint64_t now = clock_ns();
    return due_ns + period_ns > now ? due_ns + period_ns : now + period_ns;
}

static void *reporter_run(void *arg)
{
    char on_signal[REASON_BYTES], on_time[REASON_BYTES], name[16];
    uint64_t every_ns = options.report_every * (uint64_t)SECOND_NS;
    uint64_t report_due = every_ns > 0 ? clock_ns() + every_ns : NEVER_NS;
    uint64_t live_due = options.live ? 0 : NEVER_NS;
    uint32_t done = 0;
    prctl(PR_SET_NAME, "vramalloc");
    snprintf(on_signal, sizeof(on_signal), "signal %s",
             signal_text(options.signal, name, sizeof(name)));
    snprintf(on_time, sizeof(on_time), "every %u s", options.report_every);
    for (bool here = true; here && !is_ending();) {
        uint32_t seen = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
        if (seen != done) {
            done = seen;
            here = report_make(on_signal);
            if (here)
                signals_reported(live_remove);
        }
        if (here && clock_ns() >= report_due) {
            here = report_make(on_time);
            report_due = next_after(report_due, every_ns);
        }
        if (here && clock_ns() >= live_due) {
            here = live_update();
            live_due = next_after(live_due, LIVE_PERIOD_MS * (uint64_t)1000000);
        }
        sleep_until(live_due < report_due ? live_due : report_due, seen);
    }
    return arg;
}

/* The thread is made with every signal blocked, and so has them all blocked. */
static bool thread_make(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, saved;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    int error = pthread_create(&thread, &attributes, reporter_run, NULL);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        log_line("no thread can be made (%s): no report before the exit, and no live view",
                 strerror(error));
    return error == 0;
}

/* --- the interface
 * -------------------------------------------------------------------------------- */

void reporter_begin(void)
{
    begin_ns = clock_ns();
    signals_take(options.signal);
}

void reporter_start(void)
{
    int none = STATE_NONE;
    if (__atomic_load_n(&state, __ATOMIC_RELAXED) != STATE_NONE ||
        (options.signal == 0 && options.report_every == 0 && !options.live) || !process_serves() ||
        !__atomic_compare_exchange_n(&state, &none, STATE_STARTING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    int saved_errno = errno, starting = STATE_STARTING;
    if (thread_make())
        __atomic_compare_exchange_n(&state, &starting, STATE_RUNS, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED);
    errno = saved_errno;
}

bool reporter_ask(void)
{
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_RUNS)
        return false;
    __atomic_fetch_add(&asked, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &asked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

void reporter_end(void)
{
    int saved_errno = errno;
    __atomic_store_n(&state, STATE_ENDING, __ATOMIC_RELEASE);
    if (lock_within(&report_lock, EXIT_PATIENCE_MS)) { /* and never given back */
        live_remove();
        report_make_locked("exit", true);
    } else {
        log_line("no report at exit: one that was begun before is still not written");
    }
    errno = saved_errno;
}
