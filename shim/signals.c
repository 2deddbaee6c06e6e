/* signals.c - the handler of VRAMALLOC_SIGNAL. See signals.h. */
#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "process.h"
#include "reporter.h"
#include "signal_name.h"

/* What the thread owes the program for a signal that ends one. */
enum { OWED_NOTHING, OWED_CLAIMED, OWED_SIGNAL, OWED_PASSAGE };

static int taken;      /* its number; like `ends` and `program` set before the handler is */
static bool ends;      /* as signals.def says */
static int owed;       /* atomic */
static siginfo_t told; /* of the signal that is owed; valid from OWED_SIGNAL on */
static struct sigaction program; /* what the program had asked for */
static bool program_called;      /* its handler was, and asked for one call alone (SA_RESETHAND) */

static bool has_handler(void)
{
    return program.sa_handler != SIG_IGN && program.sa_handler != SIG_DFL &&
           !((program.sa_flags & (int)SA_RESETHAND) != 0 &&
             __atomic_load_n(&program_called, __ATOMIC_RELAXED));
}

static bool is_ignored(void)
{
    return program.sa_handler == SIG_IGN;
}

/* What the program would have seen of the signal without us. Of one that ends it: ends as soon as
 * the handler returns, since the signal is blocked until then. */
static void program_serve(int number, siginfo_t *info, void *context)
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    if (has_handler()) {
        __atomic_store_n(&program_called, true, __ATOMIC_RELAXED);
        if ((program.sa_flags & SA_SIGINFO) != 0)
            program.sa_sigaction(number, info, context);
        else
            program.sa_handler(number);
    } else if (ends && !is_ignored()) {
        sigaction(number, &by_default, NULL);
        raise(number);
    }
}

static bool owed_change(int from, int to)
{
    return __atomic_compare_exchange_n(&owed, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Leaves a signal that ends programs to the thread. False: it is to be let through, as *info, which
 * is what was told the first time if this is the second. */
static bool hand_over(siginfo_t *info)
{
    if (owed_change(OWED_PASSAGE, OWED_CLAIMED)) {
        *info = told;
        __atomic_store_n(&owed, OWED_NOTHING, __ATOMIC_RELEASE);
        return false;
    }
    if (!owed_change(OWED_NOTHING, OWED_CLAIMED))
        return false;
    told = *info;
    __atomic_store_n(&owed, OWED_SIGNAL, __ATOMIC_RELEASE);
    if (reporter_ask())
        return true;
    __atomic_store_n(&owed, OWED_NOTHING, __ATOMIC_RELEASE);
    return false;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    bool serves = process_serves();
    bool later = serves && ends && hand_over(info);
    if (serves && !ends)
        reporter_ask();
    if (!later)
        program_serve(number, info, context);
    errno = saved_errno;
}

void signals_take(int number)
{
    struct sigaction ours = {.sa_sigaction = on_signal};
    if (number == 0 || sigaction(number, NULL, &program) != 0)
        return;
    ends = signal_ends(number);
    if (has_handler()) {
        ours.sa_mask = program.sa_mask;
        ours.sa_flags = program.sa_flags & ~(int)SA_RESETHAND;
    } else {
        sigemptyset(&ours.sa_mask);
        ours.sa_flags = SA_RESTART;
    }
    ours.sa_flags |= SA_SIGINFO | SA_ONSTACK;
    taken = number;
    sigaction(number, &ours, NULL);
}

/* Whether the program has taken the signal back from us. */
static bool is_still_ours(void)
{
    struct sigaction now;
    return sigaction(taken, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
           now.sa_sigaction == on_signal;
}

/* Ends the process as the signal would have. Returns only if another thread changed that. */
static void process_die(void (*before_end)(void))
{
    static const struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t one;
    before_end();
    sigaction(taken, &by_default, NULL);
    sigemptyset(&one);
    sigaddset(&one, taken);
    raise(taken);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    pthread_sigmask(SIG_BLOCK, &one, NULL);
}

void signals_reported(void (*before_end)(void))
{
    if (__atomic_load_n(&owed, __ATOMIC_ACQUIRE) != OWED_SIGNAL)
        return;
    if (is_ignored() && is_still_ours()) {
        __atomic_store_n(&owed, OWED_NOTHING, __ATOMIC_RELEASE);
    } else if (!has_handler() && is_still_ours()) {
        __atomic_store_n(&owed, OWED_NOTHING, __ATOMIC_RELEASE);
        process_die(before_end);
    } else {
        __atomic_store_n(&owed, OWED_PASSAGE, __ATOMIC_RELEASE);
        kill(getpid(), taken);
    }
}
