/* lazy_fence.c - fences recorded when they are asked for. See lazy_fence.h.
 *
 * A stream that frees has a place in a table, found by its identity, with at most one open fence.
 * Frees join it; taking the block again drops it; so a stream that takes what it freed uses one
 * entry for ever and calls nothing. A free and the recording are ordered by the entry's word
 * (fence.c): whoever joined did so before the fence was closed, and the event is recorded after.
 *
 * Who asks for a stream's fence does so because blocks go to others; then the stream's next frees
 * record at once, so that each of these blocks is known to be free as early as it is.
 *
 * Fences are recorded inside the capture gate, and all that are open before a capture begins, with
 * the gate held exclusively; while one is in progress frees record at once. So no stream that is
 * recorded on captures or joins a capture. On the legacy stream a late record would make later work
 * of other streams wait for earlier work of others, which natively nothing does at that
 * moment: its fences are recorded by cuCtxRecordEvent, which orders nothing, and cover all of the
 * context's work. Since an event takes some microseconds to pass on an idle GPU, that is waited
 * for. Of other streams cuStreamQuery says at once that they are idle.
 */
#define _GNU_SOURCE
#include "lazy_fence.h"

#include <pthread.h>
#include <time.h>

#include "capture.h"
#include "driver.h"
#include "fence.h"
#include "trace.h"
#include "wait.h"

enum {
    STREAMS_MAX = 256, /* at a time; frees on others record at once */
    RECENT = 8,        /* streams that a thread remembers */
    EAGER_FREES = 64   /* that record at once after a fence was asked for */
};

#define IDLE_WAIT_NS 10000U
#define NAP_NS       20000L

struct lazy_stream {
    uint64_t id;     /* 0: the place is free. Atomic; what follows is set before it */
    CUstream handle; /* NULL: the legacy stream */
    CUcontext handle_of_context;
    const struct context *context;
    uint32_t key;   /* of the fences that it opens; another for each stream that has the place */
    uint32_t eager; /* so many more frees record at once. Atomic */
    uint64_t fence; /* open, or being recorded; 0: none. Atomic */
};

static struct lazy_stream streams[STREAMS_MAX];
static uint32_t keys_given;
static pthread_mutex_t lazy_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct lazy_stream *recent[RECENT]; /* by the identity they had */

/* --- the table -------------------------------------------------------------------------------- */

static struct lazy_stream *stream_find_locked(uint64_t id)
{
    for (int i = 0; i < STREAMS_MAX; i++)
        if (streams[i].id == id)
            return &streams[i];
    return NULL;
}

static struct lazy_stream *stream_add_locked(const struct context *context, CUstream stream,
                                             uint64_t id)
{
    struct lazy_stream *lazy = stream_find_locked(0);
    if (lazy == NULL)
        return NULL;
    lazy->handle = stream;
    lazy->handle_of_context = context->handle;
    lazy->context = context;
    __atomic_store_n(&lazy->key, ++keys_given, __ATOMIC_RELAXED);
    __atomic_store_n(&lazy->eager, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lazy->fence, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lazy->id, id, __ATOMIC_RELEASE);
    return lazy;
}

/* The stream's place. NULL: the table is full. */
static struct lazy_stream *stream_get(const struct context *context, CUstream stream, uint64_t id)
{
    struct lazy_stream **place = &recent[id % RECENT];
    if (*place != NULL && __atomic_load_n(&(*place)->id, __ATOMIC_ACQUIRE) == id)
        return *place;
    pthread_mutex_lock(&lazy_lock);
    struct lazy_stream *lazy = stream_find_locked(id);
    if (lazy == NULL)
        lazy = stream_add_locked(context, stream, id);
    pthread_mutex_unlock(&lazy_lock);
    *place = lazy;
    return lazy;
}

/* --- joining ---------------------------------------------------------------------------------- */

/* Names a stream by a handle that means it in every thread; NULL for the legacy stream. False:
 * there is none. */
static bool handle_lasts(CUstream *stream, bool ptsz)
{
    if (*stream == CU_STREAM_PER_THREAD || (*stream == NULL && ptsz))
        return false;
    if (*stream == CU_STREAM_LEGACY)
        *stream = NULL;
    return *stream != NULL || real_cuCtxRecordEvent != NULL;
}

static bool records_at_once(struct lazy_stream *lazy)
{
    uint32_t eager = __atomic_load_n(&lazy->eager, __ATOMIC_RELAXED);
    if (eager > 0)
        __atomic_store_n(&lazy->eager, eager - 1, __ATOMIC_RELAXED);
    return eager > 0;
}

static bool open_another(const struct context *context, struct lazy_stream *lazy,
                         uint64_t *fence_out)
{
    uint64_t none = 0;
    CUevent event;
    bool held;
    if (!fence_open(context, lazy, lazy->key, fence_out))
        return false;
    if (__atomic_compare_exchange_n(&lazy->fence, &none, *fence_out, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return true;
    if (fence_close(*fence_out, lazy->key, &event, &held)) /* another thread was quicker */
        fence_closed(*fence_out, FENCE_NEVER);
    fence_drop(NULL, *fence_out);
    return false;
}

/* Inside the gate: no fence is closed for a capture's sake meanwhile. */
static bool stream_join(const struct context *context, struct lazy_stream *lazy,
                        uint64_t *fence_out)
{
    uint64_t fence = __atomic_load_n(&lazy->fence, __ATOMIC_ACQUIRE);
    if (records_at_once(lazy))
        return false;
    if (fence == 0)
        return open_another(context, lazy, fence_out);
    *fence_out = fence;
    return fence_join(fence, lazy->key);
}

bool lazy_fence_join(struct context *context, CUstream stream, bool ptsz, uint64_t id,
                     uint64_t *fence_out)
{
    if (!handle_lasts(&stream, ptsz) ||
        __atomic_load_n(&context->device->green_made, __ATOMIC_RELAXED) || !capture_gate_enter())
        return false;
    struct lazy_stream *lazy = stream_get(context, stream, id);
    bool joined = lazy != NULL && stream_join(context, lazy, fence_out);
    capture_gate_leave();
    return joined;
}

/* --- recording -------------------------------------------------------------------------------- */

/* With the stream's context current. */
static enum fence_outcome event_record(const struct lazy_stream *lazy, CUevent event)
{
    CUresult result;
    if (lazy->handle == NULL)
        result = real_cuCtxRecordEvent(lazy->handle_of_context, event);
    else if (real_cuStreamQuery != NULL && real_cuStreamQuery(lazy->handle) == CUDA_SUCCESS)
        return FENCE_PASSED;
    else
        result = real_cuEventRecord(event, lazy->handle);
    return result == CUDA_SUCCESS ? FENCE_RECORDED : FENCE_AS_BEFORE;
}

static enum fence_outcome record_entered(const struct lazy_stream *lazy, CUevent event)
{
    CUcontext current = NULL, context = lazy->handle_of_context;
    if (real_cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return FENCE_AS_BEFORE;
    bool entered = wait_enter(context, current);
    enum fence_outcome outcome =
        entered || current == context ? event_record(lazy, event) : FENCE_AS_BEFORE;
    wait_leave(entered);
    return outcome;
}

enum settled {
    SETTLED,           /* the fence is not open any more */
    SETTLED_BY_OTHERS, /* or is about to be */
    SETTLED_NOT        /* the driver refused */
};

enum settle {
    SETTLE_IF_IT_CAN, /* else it stays open */
    SETTLE_NOW,       /* it cannot be recorded later */
    SETTLE_AS_LOST    /* nothing is recorded any more */
};

/* Inside the gate, or with the gate held exclusively, but for SETTLE_AS_LOST. wait_out: whether the
 * event may pass at any moment. */
static enum settled fence_settle(struct lazy_stream *lazy, uint64_t fence, enum settle how,
                                 bool *wait_out)
{
    CUevent event;
    bool held;
    /* an open fence with this key is of the stream that has this place, which stays until then */
    if (!fence_close(fence, __atomic_load_n(&lazy->key, __ATOMIC_RELAXED), &event, &held))
        return SETTLED_BY_OTHERS;
    bool record = held && how != SETTLE_AS_LOST;
    enum fence_outcome outcome = record ? record_entered(lazy, event) : FENCE_NEVER;
    if (outcome == FENCE_AS_BEFORE && how == SETTLE_NOW)
        outcome = FENCE_NEVER;
    *wait_out = outcome == FENCE_RECORDED && lazy->handle == NULL;
    if (outcome == FENCE_RECORDED && trace_wanted())
        trace_fence(trace_stream(lazy->handle, false), context_number(lazy->context));
    if (outcome != FENCE_AS_BEFORE)
        __atomic_store_n(&lazy->fence, 0, __ATOMIC_RELEASE); /* the place may end from here on */
    fence_closed(fence, outcome);
    return outcome == FENCE_AS_BEFORE ? SETTLED_NOT : SETTLED;
}

bool lazy_fence_record(struct lazy_stream *lazy, uint64_t fence, uint64_t *worth_ns_out)
{
    bool wait = false;
    if (!capture_gate_enter())
        return false;
    __atomic_store_n(&lazy->eager, EAGER_FREES, __ATOMIC_RELAXED);
    enum settled settled = fence_settle(lazy, fence, SETTLE_IF_IT_CAN, &wait);
    capture_gate_leave();
    *worth_ns_out = wait ? IDLE_WAIT_NS : 0;
    return settled == SETTLED;
}

static void nap(void)
{
    struct timespec time = {.tv_nsec = NAP_NS};
    nanosleep(&time, NULL);
}

bool lazy_fence_record_soon(struct lazy_stream *lazy, uint64_t fence)
{
    bool wait;
    while (fence_unrecorded(fence)) {
        if (capture_gate_enter()) {
            enum settled settled = fence_settle(lazy, fence, SETTLE_IF_IT_CAN, &wait);
            capture_gate_leave();
            if (settled != SETTLED_BY_OTHERS)
                return settled == SETTLED;
        } else if (capture_in_progress() && fence_unrecorded(fence)) {
            return false; /* the driver refused when the capture began */
        }
        nap();
    }
    return true;
}

/* --- before it is too late -------------------------------------------------------------------- */

void lazy_fences_before_capture(void)
{
    bool wait;
    for (int i = 0; i < STREAMS_MAX; i++) {
        uint64_t fence = __atomic_load_n(&streams[i].fence, __ATOMIC_ACQUIRE);
        if (fence != 0)
            fence_settle(&streams[i], fence, SETTLE_IF_IT_CAN, &wait);
    }
}

/* Gives a place back, and waits for the thread that records there at this moment. */
static void stream_end(struct lazy_stream *lazy, bool record)
{
    uint64_t fence;
    bool wait;
    while ((fence = __atomic_load_n(&lazy->fence, __ATOMIC_ACQUIRE)) != 0) {
        if (record && capture_gate_enter()) {
            fence_settle(lazy, fence, SETTLE_NOW, &wait);
            capture_gate_leave();
        } else if (!record || capture_in_progress()) {
            fence_settle(lazy, fence, SETTLE_AS_LOST,
                         &wait); /* the driver refused before a capture */
        }
        if (__atomic_load_n(&lazy->fence, __ATOMIC_ACQUIRE) != 0)
            nap();
    }
    pthread_mutex_lock(&lazy_lock);
    __atomic_store_n(&lazy->id, 0, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lazy_lock);
}

void lazy_fence_stream_ends(CUstream stream)
{
    struct lazy_stream *lazy = NULL;
    pthread_mutex_lock(&lazy_lock);
    for (int i = 0; i < STREAMS_MAX && lazy == NULL; i++)
        if (streams[i].id != 0 && streams[i].handle == stream)
            lazy = &streams[i];
    pthread_mutex_unlock(&lazy_lock);
    if (lazy != NULL && stream != NULL)
        stream_end(lazy, true);
}

void lazy_fences_context_ends(const struct context *context)
{
    for (int i = 0; i < STREAMS_MAX; i++) {
        pthread_mutex_lock(&lazy_lock);
        bool ends = streams[i].id != 0 && streams[i].context == context;
        pthread_mutex_unlock(&lazy_lock);
        if (ends)
            stream_end(&streams[i], false);
    }
}
