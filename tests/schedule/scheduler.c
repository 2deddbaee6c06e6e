/* scheduler.c - see scheduler.h.
 *
 * Each thread has a semaphore; the one that runs posts another's and waits for its own. All state
 * is the running thread's alone, so there is no lock.
 *
 * pthread_create and the condition variables are defined here as well: those of the simulator,
 * which is another library, thereby become this program's. Its mutex stays the real one: it is
 * never held at a point.
 *
 * A thread ends when its destructors of thread-local data have run, since a part of the library is
 * in them: a destructor of ours puts itself off to a later round.
 *
 * Priorities with a few random changes: Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized
 * scheduler with probabilistic guarantees of finding bugs", 2010. Few preemptions, all of them:
 * Musuvathi, Qadeer, "Iterative context bounding for systematic testing", 2007.
 */
#define _GNU_SOURCE
#include "scheduler.h"

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_MAX = 200000, OWNED_MAX = 32 };

enum state { ABSENT, ABLE, WAITS, IDLE /* yields, sleeps or waits with a limit */, ENDED };

struct thread {
    enum state state;
    sem_t turn;
    pthread_t handle;
    const void *object; /* WAITS; IDLE with a limit: what may end it earlier */
    const char *where;  /* of the last point */
    const char *doing;
    bool woken; /* the object did, not the limit */
    uint64_t idle_since;
    int64_t priority;
    void *(*main)(void *);
    void *argument;
    int rounds; /* of destructors */
};

static struct {
    const struct schedule_plan *plan;
    struct schedule_trace *trace;
    struct thread thread[SCHEDULE_THREADS];
    uint32_t count;
    bool on;
    uint64_t random;
    uint32_t next_switch;
    int64_t lowest;
    uint64_t now_ns;
    uint64_t idle_turns; /* in a row */
    uint64_t idle_clock;
    void (*advance)(uint64_t);
    struct {
        const void *object;
        uint32_t thread;
    } owned[OWNED_MAX];
} run;

static __thread struct thread *self;
static pthread_key_t end_key;

static uint32_t roll(uint32_t below)
{
    run.random = run.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(run.random >> 33) % below;
}

static uint32_t number_of(const struct thread *thread)
{
    return (uint32_t)(thread - run.thread);
}

/* --- who may run, and who does ---------------------------------------------------------------- */

static uint32_t mask_of(enum state state)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < run.count; i++)
        if (run.thread[i].state == state)
            mask |= 1u << i;
    return mask;
}

static const char *state_word(const struct thread *thread)
{
    return thread->state == WAITS  ? "waits"
           : thread->state == IDLE ? "sleeps"
           : thread->state == ABLE ? "could run"
                                   : "has ended";
}

static int owner_of(const void *object)
{
    for (int i = 0; i < OWNED_MAX; i++)
        if (object != NULL && run.owned[i].object == object)
            return (int)run.owned[i].thread;
    return -1;
}

/* Says what each thread waits in, and ends the process. */
static void stuck(const char *what)
{
    char *to = run.trace->why, *end = to + sizeof(run.trace->why);
    to += snprintf(to, (size_t)(end - to), "%s", what);
    for (uint32_t i = 0; i < run.count && to < end; i++) {
        const struct thread *thread = &run.thread[i];
        int owner = owner_of(thread->object);
        to +=
            snprintf(to, (size_t)(end - to), "\n  thread %u %s in %s, at %s", i, state_word(thread),
                     thread->doing ? thread->doing : "-", thread->where ? thread->where : "-");
        if (thread->state == WAITS && owner >= 0 && to < end)
            to += snprintf(to, (size_t)(end - to), ", which thread %d holds", owner);
    }
    run.trace->stuck = true;
    _exit(0);
}

/* Those that only yield or sleep take turns, the longest idle first. */
static uint32_t idle_next(void)
{
    uint32_t best = SCHEDULE_THREADS;
    for (uint32_t i = 0; i < run.count; i++)
        if (run.thread[i].state == IDLE &&
            (best == SCHEDULE_THREADS || run.thread[i].idle_since < run.thread[best].idle_since))
            best = i;
    if (best == SCHEDULE_THREADS)
        stuck("deadlock:");
    if (++run.idle_turns > IDLE_MAX)
        stuck("nothing but sleeping:");
    return best;
}

static uint32_t member(uint32_t mask, uint32_t index)
{
    for (uint32_t i = 0;; i++)
        if ((mask >> i & 1) != 0 && index-- == 0)
            return i;
}

static uint32_t highest(uint32_t able)
{
    uint32_t best = SCHEDULE_THREADS;
    for (uint32_t i = 0; i < run.count; i++)
        if ((able >> i & 1) != 0 &&
            (best == SCHEDULE_THREADS || run.thread[i].priority > run.thread[best].priority))
            best = i;
    return best;
}

/* The thread that goes on, of those that are able; the one that runs, if it is among them. */
static uint32_t follow(uint32_t able, uint32_t now)
{
    for (uint32_t i = 0; i < run.count; i++)
        if ((able >> (now + i) % run.count & 1) != 0)
            return (now + i) % run.count;
    return now;
}

static bool switch_due(uint32_t step)
{
    const struct schedule_plan *plan = run.plan;
    while (run.next_switch < plan->switch_count && plan->switches[run.next_switch].step < step)
        run.next_switch++;
    return run.next_switch < plan->switch_count && plan->switches[run.next_switch].step == step;
}

/* A sleep may end at any time, but is chosen only on purpose. */
static uint32_t choose(uint32_t able, uint32_t idle, uint32_t now, uint32_t step)
{
    const struct schedule_plan *plan = run.plan;
    bool due = switch_due(step);
    if (plan->kind == PLAN_SWITCHES) {
        uint32_t wanted = due ? plan->switches[run.next_switch].thread : SCHEDULE_THREADS;
        return due && ((able | idle) >> wanted & 1) != 0 ? wanted : follow(able, now);
    }
    if (plan->kind == PLAN_WALK) {
        if ((able >> now & 1) != 0 && roll(plan->rarity) != 0)
            return now;
        uint32_t any = roll(4) == 0 ? able | idle : able;
        return member(any, roll((uint32_t)__builtin_popcount(any)));
    }
    if (due)
        run.thread[now].priority = --run.lowest;
    return highest(due ? able | (idle & ~(1u << now)) : able);
}

static void step_note(const char *where, uint32_t chosen, uint32_t able, uint32_t idle)
{
    struct schedule_trace *trace = run.trace;
    if (trace->step_count < SCHEDULE_STEPS)
        trace->steps[trace->step_count] = (struct schedule_step){.where = where,
                                                                 .before = (uint8_t)number_of(self),
                                                                 .chosen = (uint8_t)chosen,
                                                                 .able = (uint8_t)able,
                                                                 .idle = (uint8_t)idle};
    trace->step_count++;
}

/* The running thread decides who goes on. */
static uint32_t decide(const char *where)
{
    uint32_t able = mask_of(ABLE), idle = mask_of(IDLE), chosen;
    if (able != 0) {
        chosen = choose(able, idle, number_of(self), run.trace->step_count);
        run.idle_turns = 0;
        step_note(where, chosen, able, idle);
    } else {
        chosen = idle_next();
    }
    run.thread[chosen].state = ABLE;
    return chosen;
}

static void hand_over(uint32_t chosen)
{
    struct thread *mine = self;
    if (chosen == number_of(mine))
        return;
    sem_post(&run.thread[chosen].turn);
    while (sem_wait(&mine->turn) != 0) {
    }
}

static bool alone(void)
{
    return !run.on || self == NULL;
}

/* --- points ----------------------------------------------------------------------------------- */

void schedule_point(enum schedule_class class, const char *where)
{
    if (alone() || class > run.plan->finest)
        return;
    int saved_errno = errno;
    self->where = where;
    hand_over(decide(where));
    errno = saved_errno;
}

static void rest(enum state state, const void *object, const char *where)
{
    int saved_errno = errno;
    self->state = state;
    self->object = object;
    self->where = where;
    self->woken = false;
    self->idle_since = ++run.idle_clock;
    hand_over(decide(where));
    self->object = NULL;
    errno = saved_errno;
}

void schedule_wait(const void *object, const char *where)
{
    if (!alone())
        rest(WAITS, object, where);
}

void schedule_wake(const void *object)
{
    for (int i = 0; i < OWNED_MAX; i++)
        if (run.owned[i].object == object)
            run.owned[i].object = NULL;
    for (uint32_t i = 0; i < run.count; i++) {
        struct thread *thread = &run.thread[i];
        if ((thread->state == WAITS || thread->state == IDLE) && thread->object == object) {
            thread->state = ABLE;
            thread->woken = true;
        }
    }
}

void schedule_owns(const void *object)
{
    for (int i = 0; !alone() && i < OWNED_MAX; i++) {
        if (run.owned[i].object == NULL) {
            run.owned[i].object = object;
            run.owned[i].thread = number_of(self);
            return;
        }
    }
}

int schedule_mutex_lock(pthread_mutex_t *mutex, const char *where)
{
    schedule_point(SCHEDULE_COARSE, where);
    if (alone())
        return pthread_mutex_lock(mutex);
    while (pthread_mutex_trylock(mutex) != 0)
        schedule_wait(mutex, where);
    schedule_owns(mutex);
    return 0;
}

int schedule_mutex_trylock(pthread_mutex_t *mutex, const char *where)
{
    schedule_point(SCHEDULE_COARSE, where);
    int result = pthread_mutex_trylock(mutex);
    if (result == 0)
        schedule_owns(mutex);
    return result;
}

int schedule_mutex_unlock(pthread_mutex_t *mutex, const char *where)
{
    int result = pthread_mutex_unlock(mutex);
    schedule_wake(mutex);
    schedule_point(SCHEDULE_COARSE, where);
    return result;
}

static void pass(uint64_t ns)
{
    run.now_ns += ns;
    if (run.advance != NULL)
        run.advance(ns);
}

int schedule_yield(uint64_t ns, const char *where)
{
    pass(ns);
    if (!alone())
        rest(IDLE, NULL, where);
    return 0;
}

int schedule_sleep(const struct timespec *nap, const char *where)
{
    return schedule_yield((uint64_t)nap->tv_sec * 1000000000u + (uint64_t)nap->tv_nsec, where);
}

int schedule_clock(clockid_t clock, struct timespec *now)
{
    (void)clock;
    run.now_ns += 1000;
    now->tv_sec = (time_t)(run.now_ns / 1000000000u) + 1;
    now->tv_nsec = (long)(run.now_ns % 1000000000u);
    return 0;
}

/* --- the simulator's waits
 * ------------------------------------------------------------------------ */

static int condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, enum state state)
{
    pthread_mutex_unlock(mutex);
    if (!alone())
        rest(state, condition, "waits in the driver");
    pthread_mutex_lock(mutex);
    return state == IDLE && (self == NULL || !self->woken) ? ETIMEDOUT : 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return condition_wait(condition, mutex, WAITS);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    (void)until;
    return condition_wait(condition, mutex, IDLE);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    schedule_wake(condition);
    return 0;
}

/* --- threads
 * -------------------------------------------------------------------------------------- */

static void thread_ended(void *argument)
{
    struct thread *thread = argument;
    if (++thread->rounds < 3) {
        pthread_setspecific(end_key, thread);
        return;
    }
    if (!run.on)
        return;
    thread->state = ENDED;
    schedule_wake(thread);
    uint32_t chosen = decide("ends");
    self = NULL;
    sem_post(&run.thread[chosen].turn);
}

static void *thread_begun(void *argument)
{
    struct thread *thread = argument;
    while (sem_wait(&thread->turn) != 0) {
    }
    self = thread;
    pthread_setspecific(end_key, thread);
    return thread->main(thread->argument);
}

static struct thread *thread_add(void)
{
    if (run.count == SCHEDULE_THREADS)
        abort();
    struct thread *thread = &run.thread[run.count++];
    sem_init(&thread->turn, 0, 0);
    thread->state = ABLE;
    thread->priority = run.plan->kind == PLAN_PRIORITY ? (int64_t)roll(1 << 20) : 0;
    return thread;
}

int pthread_create(pthread_t *handle, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (alone())
        return real(handle, attributes, start, argument);
    struct thread *thread = thread_add();
    thread->main = start;
    thread->argument = argument;
    int result = real(handle, attributes, thread_begun, thread);
    if (result != 0)
        abort();
    thread->handle = *handle;
    return 0;
}

void schedule_join(pthread_t handle)
{
    for (uint32_t i = 0; i < run.count; i++)
        while (i > 0 && pthread_equal(run.thread[i].handle, handle) && run.thread[i].state != ENDED)
            schedule_wait(&run.thread[i], "joins a thread");
    pthread_join(handle, NULL);
}

void schedule_start(const struct schedule_plan *plan, struct schedule_trace *trace)
{
    run.plan = plan;
    run.trace = trace;
    run.random = plan->seed * 2862933555777941757u + 3037000493u;
    trace->step_count = 0;
    trace->stuck = false;
    trace->why[0] = '\0';
    pthread_key_create(&end_key, thread_ended);
    self = thread_add();
    run.on = true;
}

void schedule_on_sleep(void (*advance)(uint64_t ns))
{
    run.advance = advance;
}

void schedule_says(const char *doing)
{
    if (self != NULL)
        self->doing = doing;
}

void schedule_stop(void)
{
    run.on = false;
}
