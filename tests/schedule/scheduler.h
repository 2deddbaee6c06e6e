/* scheduler.h - runs the threads of a test one at a time and decides at every point who goes on.
 *
 * A run is told by a plan: the same plan, program and library give the same run. Threads that wait
 * for a lock, a condition or another thread cannot be chosen; those that yield or sleep are chosen
 * when no other can run or the plan says so, and a sleep moves the clocks instead of taking time.
 *
 * What it leaves out: threads that nobody announced, and waits of any other kind: a thread that
 * sleeps in the kernel holds up the run until the watchdog ends it.
 *
 * Every function may be called by any thread, announced or not; without an announced thread points
 * do nothing.
 */
#ifndef VRAMALLOC_SCHEDULE_SCHEDULER_H
#define VRAMALLOC_SCHEDULE_SCHEDULER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum schedule_class { SCHEDULE_COARSE, SCHEDULE_FINE };

/* --- what points.h calls ----------------------------------------------------------------------
 * where: a constant text, kept. object: what is waited for, by its address. */

void schedule_point(enum schedule_class class, const char *where);
void schedule_wait(const void *object, const char *where); /* until the next schedule_wake of it */
void schedule_wake(const void *object);
void schedule_owns(const void *object); /* for the report of a deadlock */
int schedule_mutex_lock(pthread_mutex_t *mutex, const char *where);
int schedule_mutex_trylock(pthread_mutex_t *mutex, const char *where);
int schedule_mutex_unlock(pthread_mutex_t *mutex, const char *where);
int schedule_yield(uint64_t ns, const char *where);
int schedule_sleep(const struct timespec *nap, const char *where);
int schedule_clock(clockid_t clock, struct timespec *now);

/* --- the run ---------------------------------------------------------------------------------- */

enum { SCHEDULE_THREADS = 8, SCHEDULE_STEPS = 1 << 16, SCHEDULE_SWITCHES = 64 };

enum schedule_kind {
    PLAN_SWITCHES, /* the running thread goes on, but for the switches listed */
    PLAN_WALK,     /* at every point another one with a chance of 1 in `rarity` */
    PLAN_PRIORITY  /* the highest priority runs; it falls to the lowest at `switch_count` steps */
};

struct schedule_switch {
    uint32_t step;
    uint32_t thread;
};

struct schedule_plan {
    enum schedule_kind kind;
    enum schedule_class finest; /* FINE: atomic accesses are points, too */
    uint64_t seed;
    uint32_t rarity;
    uint32_t switch_count;
    struct schedule_switch switches[SCHEDULE_SWITCHES]; /* in order of steps; PRIORITY: no thread */
};

/* One decision: who could have gone on, and who did. */
struct schedule_step {
    const char *where;
    uint8_t before; /* the thread that ran */
    uint8_t chosen;
    uint8_t able; /* bit t: thread t could run. Without the thread that ran: no preemption */
    uint8_t idle; /* bit t: thread t sleeps or yields, and could be woken */
};

/* What is left of a run, in memory that outlives its process. */
struct schedule_trace {
    uint32_t step_count; /* may exceed SCHEDULE_STEPS; the rest is not kept */
    struct schedule_step steps[SCHEDULE_STEPS];
    bool stuck; /* a deadlock, or nothing but sleeping for long; `why` tells what each waits in */
    char why[2048];
};

/* Announces the calling thread as thread 0. */
void schedule_start(const struct schedule_plan *plan, struct schedule_trace *trace);

/* What to call when time passes: it moves the simulator's clock. NULL: nothing. */
void schedule_on_sleep(void (*advance)(uint64_t ns));

/* What the calling thread is doing, for a deadlock's report. */
void schedule_says(const char *doing);

/* Waits for a thread made by pthread_create since schedule_start; it becomes thread 1, 2, ... in
 * that order. */
void schedule_join(pthread_t thread);

/* From here on points do nothing: the caller is alone. */
void schedule_stop(void);

#endif
