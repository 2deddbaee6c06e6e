/* work.c - operations on streams, what orders them, and the virtual clock.
 *
 * An operation starts when it was submitted and all its predecessors have ended: the newest one of
 * its stream; for the legacy stream all blocking streams, and for these the legacy one; the event
 * that was waited for. Its end is start + length, a spinning kernel's when its flag is seen set, a
 * host function's when the worker thread has run it. While that is not known the operation is
 * unresolved and kept in a list in order of submission, so one pass over the list resolves all that
 * can be.
 *
 * The host's clock moves by every call, by waits (to the end waited for) and by vrsim_advance.
 * Each operation carries a vector clock: what is ordered before its end. The host has one too, of
 * everything it has seen finished; work submitted later is ordered after that.
 *
 * A host function runs on one worker thread when its turn has come on the clock, when somebody
 * waits for it, or, since a real GPU needs no calls to make progress, after the process was idle
 * for 2 ms.
 *
 * Lock: sim.lock, released in op_wait and while a host function runs.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLL_NS = 50000, IDLE_NS = 2000000 };

static struct op *unresolved, **unresolved_end = &unresolved;

/* --- vector clocks ------------------------------------------------------------------------------
 */

static void vclock_grow(struct vclock *clock, uint32_t length)
{
    if (length <= clock->length)
        return;
    clock->seen = realloc(clock->seen, length * sizeof(*clock->seen));
    memset(clock->seen + clock->length, 0, (length - clock->length) * sizeof(*clock->seen));
    clock->length = length;
}

void vclock_raise(struct vclock *clock, uint32_t slot, uint64_t seq)
{
    vclock_grow(clock, slot + 1);
    if (clock->seen[slot] < seq)
        clock->seen[slot] = seq;
}

void vclock_merge(struct vclock *into, const struct vclock *other)
{
    vclock_grow(into, other->length);
    for (uint32_t i = 0; i < other->length; i++)
        if (into->seen[i] < other->seen[i])
            into->seen[i] = other->seen[i];
}

bool vclock_covers(const struct vclock *clock, uint32_t slot, uint64_t seq)
{
    return slot < clock->length && clock->seen[slot] >= seq;
}

/* --- slots: a stream's place in the vector clocks
 * ------------------------------------------------- */

struct slot_use {
    bool taken;
    uint64_t seq; /* of the newest operation */
};

static struct slot_use *slot_uses;
static uint32_t slot_use_count;

/* A slot can serve a new stream once the host has seen all work of the old one. */
uint32_t work_slot_take(void)
{
    for (uint32_t i = 0; i < slot_use_count; i++) {
        struct slot_use *use = &slot_uses[i];
        if (!use->taken && (use->seq == 0 || vclock_covers(&sim.host_clock, i, use->seq))) {
            use->taken = true;
            return i;
        }
    }
    slot_uses = realloc(slot_uses, (slot_use_count + 1) * sizeof(*slot_uses));
    slot_uses[slot_use_count] = (struct slot_use){true, 0};
    return slot_use_count++;
}

void work_slot_give(uint32_t slot)
{
    slot_uses[slot].taken = false;
}

/* --- operations
 * ------------------------------------------------------------------------------------ */

void op_keep(struct op *op)
{
    op->refs++;
}

static void op_drop_deps(struct op *op)
{
    for (size_t i = 0; i < op->dep_count; i++)
        op_release(op->deps[i]);
    free(op->deps);
    op->deps = NULL;
    op->dep_count = 0;
}

void op_release(struct op *op)
{
    if (op == NULL || --op->refs > 0)
        return;
    op_drop_deps(op);
    free(op->clock.seen);
    free(op);
}

static void op_depend(struct op *op, struct op *on)
{
    if (on == NULL)
        return;
    vclock_merge(&op->clock, &on->clock);
    if (on->resolved && on->end_ns <= op->submit_ns)
        return;
    op->deps = realloc(op->deps, (op->dep_count + 1) * sizeof(struct op *));
    op->deps[op->dep_count++] = on;
    op_keep(on);
}

/* When all predecessors have ended; false while that is not known. */
static bool op_ready(const struct op *op, uint64_t *ready_ns)
{
    *ready_ns = op->submit_ns;
    for (size_t i = 0; i < op->dep_count; i++) {
        if (!op->deps[i]->resolved)
            return false;
        if (op->deps[i]->end_ns > *ready_ns)
            *ready_ns = op->deps[i]->end_ns;
    }
    return true;
}

static void op_resolve(struct op *op, uint64_t end_ns)
{
    op->end_ns = end_ns;
    op->resolved = true;
    op_drop_deps(op);
}

/* Host functions are resolved by the worker. */
static void op_try(struct op *op)
{
    uint64_t ready_ns;
    if (op->resolved || op->kind == OP_HOST || !op_ready(op, &ready_ns))
        return;
    if (op->kind != OP_SPIN)
        op_resolve(op, ready_ns + op->duration_ns);
    else if (__atomic_load_n(op->flag, __ATOMIC_ACQUIRE) != 0)
        op_resolve(op, ready_ns > sim.host_ns ? ready_ns : sim.host_ns);
}

static void op_fault(const struct op *op)
{
    struct context *context = op->context;
    if (op->fault != CUDA_SUCCESS && context->id == op->context_id &&
        context->fault == CUDA_SUCCESS)
        context->fault = op->fault;
}

static void clock_follow(void)
{
    static uint64_t start_ns;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    if (start_ns == 0)
        start_ns = now_ns;
    if (sim.host_ns < now_ns - start_ns)
        sim.host_ns = now_ns - start_ns;
}

void work_pump(void)
{
    if (sim.real_time)
        clock_follow();
    struct op **link = &unresolved;
    while (*link != NULL) {
        struct op *op = *link;
        op_try(op);
        if (!op->resolved || (op->fault != CUDA_SUCCESS && op->end_ns > sim.host_ns)) {
            link = &op->next;
            continue;
        }
        op_fault(op);
        *link = op->next;
        op_release(op);
    }
    unresolved_end = link;
}

/* --- the worker for host functions
 * ------------------------------------------------------------------- */

static bool worker_started;

static void wait_changed(uint64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&sim.changed, &sim.lock, &until);
}

/* The oldest host function whose predecessors' ends are known. */
static struct op *host_next(uint64_t *ready_ns, bool *any)
{
    *any = false;
    for (struct op *op = unresolved; op != NULL; op = op->next) {
        *any = *any || (op->kind == OP_HOST && !op->resolved);
        if (op->kind == OP_HOST && !op->resolved && op_ready(op, ready_ns))
            return op;
    }
    return NULL;
}

static void host_run(struct op *op, uint64_t ready_ns)
{
    if (sim.host_ns < ready_ns)
        sim.host_ns = ready_ns;
    op_keep(op);
    op->running = true;
    pthread_mutex_unlock(&sim.lock);
    sim_in_callback = true;
    op->host(op->host_a, op->host_b);
    sim_in_callback = false;
    pthread_mutex_lock(&sim.lock);
    op_resolve(op, ready_ns > sim.host_ns ? ready_ns : sim.host_ns);
    work_pump();
    op_release(op);
    pthread_cond_broadcast(&sim.changed);
}

/* One turn; idle: the clock has not moved since the last one. */
static void worker_turn(bool idle)
{
    uint64_t ready_ns = 0;
    bool any;
    work_pump();
    struct op *op = host_next(&ready_ns, &any);
    if (op != NULL && (op->wanted || ready_ns <= sim.host_ns || idle))
        host_run(op, ready_ns);
    else if (any)
        wait_changed(IDLE_NS);
    else
        pthread_cond_wait(&sim.changed, &sim.lock);
}

static void *worker_main(void *unused)
{
    (void)unused;
    uint64_t seen_ns = 0;
    pthread_mutex_lock(&sim.lock);
    for (;;) {
        bool idle = seen_ns == sim.host_ns;
        seen_ns = sim.host_ns;
        worker_turn(idle);
    }
    return NULL;
}

static void worker_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    if (worker_started)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    worker_started = pthread_create(&thread, NULL, worker_main, NULL) == 0;
    if (worker_started)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The worker does not exist in the child, nor does the work. */
void work_after_fork(void)
{
    worker_started = false;
    unresolved = NULL;
    unresolved_end = &unresolved;
}

/* --- submission
 * ------------------------------------------------------------------------------------- */

static struct op *op_new(struct stream *stream, const struct work *work)
{
    struct op *op = calloc(1, sizeof(*op));
    op->refs = 1;
    op->kind = work->kind;
    op->copies = work->copies;
    op->context = stream->context;
    op->context_id = stream->context->id;
    op->stream_id = stream->id;
    op->slot = stream->slot;
    op->seq = ++slot_uses[stream->slot].seq;
    op->submit_ns = sim.host_ns;
    op->duration_ns = work->duration_ns;
    op->flag = work->flag;
    op->fault = work->fault;
    op->host = work->host;
    op->host_a = work->host_a;
    op->host_b = work->host_b;
    vclock_merge(&op->clock, &sim.host_clock);
    vclock_raise(&op->clock, op->slot, op->seq);
    return op;
}

static bool stream_blocks(const struct stream *stream)
{
    return stream->kind != STREAM_USER || !(stream->flags & CU_STREAM_NON_BLOCKING);
}

static void op_depend_legacy(struct op *op, const struct stream *stream)
{
    if (!stream_blocks(stream))
        return;
    for (struct stream *other = stream->context->streams; other != NULL; other = other->next) {
        bool either_legacy = stream->kind == STREAM_LEGACY || other->kind == STREAM_LEGACY;
        if (other->alive && other != stream && either_legacy && stream_blocks(other))
            op_depend(op, other->tail);
    }
}

static void op_enlist(struct op *op)
{
    op_keep(op);
    *unresolved_end = op;
    unresolved_end = &op->next;
    if (op->kind == OP_HOST)
        worker_start();
    pthread_cond_broadcast(&sim.changed);
}

/* *out, if asked for, is a reference of the caller's. */
CUresult work_submit_op(struct stream *stream, const struct work *work, struct op **out)
{
    struct op *op = op_new(stream, work);
    op_depend(op, stream->tail);
    op_depend(op, work->after);
    op_depend_legacy(op, stream);
    op_release(stream->tail);
    stream->tail = op;
    oracle_check(op, work->range_count, work->ranges);
    if (work->move != NULL)
        work->move(work);
    op_try(op);
    if (!op->resolved || op->fault != CUDA_SUCCESS)
        op_enlist(op);
    if (out != NULL) {
        op_keep(op);
        *out = op;
    }
    return CUDA_SUCCESS;
}

CUresult work_submit(struct stream *stream, const struct work *work)
{
    CUresult result = capture_check_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture == NULL)
        return work_submit_op(stream, work, NULL);
    graph_add(stream->capture->graph, work);
    stream->captured_ops++;
    stream->capture_open = true;
    return CUDA_SUCCESS;
}

/* An operation of no stream, after the work of streams that are gone. */
static struct op *join_begin(struct context *context)
{
    struct op *op = calloc(1, sizeof(*op));
    op->refs = 1;
    op->kind = OP_EMPTY;
    op->context = context;
    op->context_id = context->id;
    op->submit_ns = sim.host_ns;
    vclock_merge(&op->clock, &sim.host_clock);
    op_depend(op, context->left);
    return op;
}

static void join_end(struct op *op)
{
    op_try(op);
    if (!op->resolved)
        op_enlist(op);
}

/* It ends when everything submitted to the context so far has ended. */
struct op *work_join(struct context *context)
{
    struct op *op = join_begin(context);
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        op_depend(op, stream->tail);
    join_end(op);
    return op;
}

/* What waits for all of the context waits for this work as well. (The legacy stream does not.) */
void work_left(struct stream *stream)
{
    struct context *context = stream->context;
    struct op *op = join_begin(context);
    op_depend(op, stream->tail);
    join_end(op);
    op_release(context->left);
    context->left = op;
}

/* --- waiting
 * ----------------------------------------------------------------------------------------- */

bool op_done(struct op *op)
{
    if (op == NULL)
        return true;
    work_pump();
    if (!op->resolved || op->end_ns > sim.host_ns)
        return false;
    vclock_merge(&sim.host_clock, &op->clock);
    return true;
}

static void op_want(struct op *op)
{
    if (op->wanted)
        return;
    op->wanted = true;
    for (size_t i = 0; i < op->dep_count; i++)
        op_want(op->deps[i]);
}

static void clock_reach(uint64_t ns)
{
    while (sim.real_time && sim.host_ns < ns) {
        uint64_t left_ns = ns - sim.host_ns;
        wait_changed(left_ns < POLL_NS ? left_ns : POLL_NS);
        clock_follow();
    }
    if (sim.host_ns < ns)
        sim.host_ns = ns;
}

void op_wait(struct op *op)
{
    if (op == NULL)
        return;
    op_keep(op);
    op_want(op);
    work_pump();
    while (!op->resolved) {
        pthread_cond_broadcast(&sim.changed);
        wait_changed(POLL_NS);
        work_pump();
    }
    if (sim.on_call != NULL && op->end_ns > sim.host_ns)
        wait_changed(POLL_NS); /* who decides about threads sees that this one waits */
    clock_reach(op->end_ns);
    work_pump();
    vclock_merge(&sim.host_clock, &op->clock);
    op_release(op);
}

CUresult work_wait_context(struct context *context)
{
    struct op *all = work_join(context);
    op_wait(all);
    op_release(all);
    return context->fault;
}

/* What a native free waits for: everything on the device, and (not measured) the contexts of other
 * devices that may use its memory. */
void work_wait_device(int device)
{
    for (struct context *context = sim.contexts; context != NULL; context = context->next)
        if (context->alive && (context->device == device || (context->peers >> device & 1) != 0))
            work_wait_context(context);
}
