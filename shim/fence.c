/* fence.c - fences over events of the driver. See fence.h.
 *
 * A fence number is odd for "the next wait" (the wait's number in the upper bits) and even for an
 * event (its index + 1). Entries live in chunks that are mapped on demand and never unmapped; each
 * keeps its event for the context that made it, since an event belongs to a context.
 *
 * An open fence is one whose event is not recorded yet (lazy_fence.c). Who holds an entry, whether
 * it is open and for whom are one word, so that a holder joins with one compare-and-swap, and none
 * joins once it is closed. An open entry stays when nobody holds it.
 */
#define _GNU_SOURCE
#include "fence.h"

#include <pthread.h>
#include <sys/mman.h>

#include "capture.h"
#include "clock.h"
#include "debug.h"
#include "driver.h"
#include "lazy_fence.h"
#include "trace.h"
#include "wait.h"

enum { CHUNK_ENTRIES = 4096, CHUNKS_MAX = 1024 };

struct entry {
    CUevent event;               /* NULL: none made yet */
    const struct context *owner; /* the context the event belongs to; NULL: none */
    uint32_t next;               /* index + 1 of the next free entry */
    bool passed;                 /* was found to have passed; valid while held */
    bool failed;                 /* will never be recorded */
    struct lazy_stream *lazy;    /* that it is to be recorded for; NULL: it is. Atomic */
    uint64_t holders;            /* the key of who opened it, HOLDERS_OPEN, and how many blocks wait
                                    for this fence; neither open nor held: the entry is free */
};

#define HOLDERS_KEY_SHIFT 32
#define HOLDERS_OPEN      ((uint64_t)1 << 31)

static struct entry *chunks[CHUNKS_MAX];
static uint32_t entry_count;
static uint32_t free_first; /* index + 1 */
static pthread_mutex_t fence_lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *entry_at(uint32_t index)
{
    return &__atomic_load_n(&chunks[index / CHUNK_ENTRIES],
                            __ATOMIC_ACQUIRE)[index % CHUNK_ENTRIES];
}

static bool chunk_map(uint32_t chunk)
{
    if (chunk >= CHUNKS_MAX)
        return false;
    void *memory = mmap(NULL, CHUNK_ENTRIES * sizeof(struct entry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    __atomic_store_n(&chunks[chunk], (struct entry *)memory, __ATOMIC_RELEASE);
    return true;
}

/* Takes a free entry: one of this context's with its event, or a blank one. The scan is bounded, so
 * that many contexts cannot make it slow. */
static bool entry_take_locked(const struct context *context, uint32_t *index_out)
{
    uint32_t *link = &free_first;
    for (int tries = 0; *link != 0 && tries < 16; tries++) {
        struct entry *entry = entry_at(*link - 1);
        if (entry->owner == context || entry->owner == NULL) {
            *index_out = *link - 1;
            *link = entry->next;
            return true;
        }
        link = &entry->next;
    }
    if (entry_count % CHUNK_ENTRIES == 0 && !chunk_map(entry_count / CHUNK_ENTRIES))
        return false;
    *index_out = entry_count++;
    return true;
}

static void entry_return(uint32_t index)
{
    struct entry *entry = entry_at(index);
    pthread_mutex_lock(&fence_lock);
    entry->next = free_first;
    free_first = index + 1;
    pthread_mutex_unlock(&fence_lock);
}

/* A free entry as it is when one holder has it. */
static struct entry entry_held(const struct entry *entry)
{
    return (struct entry){.event = entry->event, .owner = entry->owner, .holders = 1};
}

/* An event of this context, not in use. The context is current. */
static bool event_take(const struct context *context, uint32_t *index_out)
{
    pthread_mutex_lock(&fence_lock);
    bool taken = entry_take_locked(context, index_out);
    if (taken) /* nobody else knows of it */
        *entry_at(*index_out) = entry_held(entry_at(*index_out));
    pthread_mutex_unlock(&fence_lock);
    if (!taken)
        return false;
    struct entry *entry = entry_at(*index_out);
    if (entry->owner == context)
        return true;
    CUstreamCaptureMode mode;
    CUevent event = NULL;
    capture_relax(&mode);
    bool made = real_cuEventCreate != NULL &&
                real_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    capture_restore(&mode);
    if (!made) {
        entry_return(*index_out);
        return false;
    }
    pthread_mutex_lock(&fence_lock); /* fence_forget_context() looks at all entries */
    entry->event = event;
    entry->owner = context;
    pthread_mutex_unlock(&fence_lock);
    return true;
}

static uint64_t event_fence(uint32_t index)
{
    return ((uint64_t)index + 1) << 1;
}

static uint32_t fence_index(uint64_t fence)
{
    return (uint32_t)(fence >> 1) - 1;
}

CUresult fence_after_stream(struct context *context, CUstream stream, bool ptsz,
                            uint64_t *fence_out)
{
    uint32_t index;
    CUresult (*record)(CUevent, CUstream) = ptsz ? real_cuEventRecord_ptsz : real_cuEventRecord;
    if (record == NULL || !event_take(context, &index))
        return CUDA_ERROR_NOT_SUPPORTED;
#ifdef VRAMALLOC_PLANT_LATE_FENCE
    *fence_out = event_fence(index);
    return CUDA_SUCCESS;
#endif
    CUresult result = record(entry_at(index)->event, stream);
    if (result == CUDA_SUCCESS) {
        *fence_out = event_fence(index);
        if (trace_wanted())
            trace_fence(trace_stream(stream, ptsz), context_number(context));
    } else {
        entry_return(index);
    }
    return result;
}

#ifdef VRAMALLOC_PLANT_LATE_FENCE
#    include <sched.h>
void fence_record_late(uint64_t fence, CUstream stream, bool ptsz)
{
    sched_yield(); /* the fault needs another thread's turn here */
    (ptsz ? real_cuEventRecord_ptsz : real_cuEventRecord)(entry_at(fence_index(fence))->event,
                                                          stream);
}
#endif

bool fence_after_context(struct context *context, uint64_t *fence_out)
{
    uint32_t index;
    if (real_cuCtxRecordEvent == NULL || device_reached_from_outside(context->device) ||
        !event_take(context, &index))
        return false;
    bool recorded = false;
    if (capture_gate_enter()) {
        recorded = real_cuCtxRecordEvent(context->handle, entry_at(index)->event) == CUDA_SUCCESS;
        capture_gate_leave();
    }
#ifdef VRAMALLOC_PLANT_ONE_STREAM /* of the streams that the fence is for it carries one */
    recorded = real_cuEventRecord(entry_at(index)->event, CU_STREAM_LEGACY) == CUDA_SUCCESS;
#endif
    if (recorded) {
        *fence_out = event_fence(index);
        if (trace_wanted())
            trace_fence(TRACE_STREAM_NONE, context_number(context));
    } else {
        entry_return(index);
    }
    return recorded;
}

void fence_share(uint64_t fence, uint32_t holders)
{
    __atomic_store_n(&entry_at(fence_index(fence))->holders, holders, __ATOMIC_RELEASE);
}

/* --- open fences ------------------------------------------------------------------------------ */

bool fence_open(const struct context *context, struct lazy_stream *lazy, uint32_t key,
                uint64_t *fence_out)
{
    uint32_t index;
    if (!event_take(context, &index))
        return false;
    struct entry *entry = entry_at(index);
    __atomic_store_n(&entry->lazy, lazy, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->holders, (uint64_t)key << HOLDERS_KEY_SHIFT | HOLDERS_OPEN | 1,
                     __ATOMIC_RELEASE);
    *fence_out = event_fence(index);
    return true;
}

bool fence_join(uint64_t fence, uint32_t key)
{
    struct entry *entry = entry_at(fence_index(fence));
    uint64_t word = __atomic_load_n(&entry->holders, __ATOMIC_ACQUIRE);
    while (word >> HOLDERS_KEY_SHIFT == key && (word & HOLDERS_OPEN) != 0)
        if (__atomic_compare_exchange_n(&entry->holders, &word, word + 1, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return true;
    return false;
}

bool fence_unrecorded(uint64_t fence)
{
    return __atomic_load_n(&entry_at(fence_index(fence))->lazy, __ATOMIC_ACQUIRE) != NULL;
}

bool fence_close(uint64_t fence, uint32_t key, CUevent *event_out, bool *held_out)
{
    struct entry *entry = entry_at(fence_index(fence));
    uint64_t word = __atomic_load_n(&entry->holders, __ATOMIC_ACQUIRE);
    do {
        if (word >> HOLDERS_KEY_SHIFT != key || (word & HOLDERS_OPEN) == 0)
            return false;
    } while (!__atomic_compare_exchange_n(&entry->holders, &word, word - HOLDERS_OPEN + 1, true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    *event_out = entry->event;
    *held_out = (word & (HOLDERS_OPEN - 1)) != 0;
    return true;
}

void fence_closed(uint64_t fence, enum fence_outcome outcome)
{
    struct entry *entry = entry_at(fence_index(fence));
    if (outcome == FENCE_AS_BEFORE) {
        __atomic_add_fetch(&entry->holders, HOLDERS_OPEN - 1, __ATOMIC_RELEASE);
        return;
    }
    if (outcome == FENCE_PASSED)
        __atomic_store_n(&entry->passed, true, __ATOMIC_RELAXED);
    if (outcome == FENCE_NEVER)
        __atomic_store_n(&entry->failed, true, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->lazy, NULL, __ATOMIC_RELEASE);
    fence_drop(NULL, fence);
}

/* --- asking ----------------------------------------------------------------------------------- */

uint64_t fence_after_next_wait(struct context *context)
{
    uint32_t needed = __atomic_add_fetch(&context->waits_needed, 1, __ATOMIC_SEQ_CST);
    return ((uint64_t)needed << 1) | 1;
}

/* A wait of a free has ended that began late enough for this fence. */
static bool wait_has_ended(const struct context *context, uint64_t fence)
{
    uint32_t needed = (uint32_t)(fence >> 1);
    return (int32_t)(__atomic_load_n(&context->waits_ended, __ATOMIC_ACQUIRE) - needed) >= 0;
}

static enum backing_fence_state state_of(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return BACKING_FENCE_PASSED;
    bool capture_error = result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_NOT_PERMITTED || capture_error
               ? BACKING_FENCE_PENDING
               : BACKING_FENCE_FAILED;
}

/* Asks or waits for an event in relaxed mode: both would spoil another thread's global capture. */
static enum backing_fence_state event_ask(uint64_t fence, CUresult (*ask)(CUevent))
{
    CUstreamCaptureMode mode;
    const struct entry *entry = entry_at(fence_index(fence));
    if (ask == NULL || __atomic_load_n(&entry->failed, __ATOMIC_RELAXED))
        return BACKING_FENCE_FAILED;
    capture_relax(&mode);
    CUresult result = ask(entry->event);
    capture_restore(&mode);
    return state_of(result);
}

/* The fence of a wait. */
static bool wait_passed(struct context *context, uint64_t fence)
{
    bool passed = wait_has_ended(context, fence);
    if (passed)
        debug_put_off_passed(context, fence);
    return passed;
}

/* Again and again for so long. */
static enum backing_fence_state event_ask_for(uint64_t fence, uint64_t worth_ns)
{
    uint64_t until_ns = worth_ns > 0 ? clock_ns() + worth_ns : 0;
    enum backing_fence_state state;
    do
        state = event_ask(fence, real_cuEventQuery);
    while (state == BACKING_FENCE_PENDING && worth_ns > 0 && clock_ns() < until_ns);
    return state;
}

enum backing_fence_state fence_poll(void *self, uint64_t fence)
{
#ifdef VRAMALLOC_PLANT_NO_FENCE /* make planted: this one tests/gpu/canary.cu must find as well */
    return BACKING_FENCE_PASSED;
#endif
    if ((fence & 1) != 0)
        return wait_passed(self, fence) ? BACKING_FENCE_PASSED : BACKING_FENCE_PENDING;
    struct entry *entry = entry_at(fence_index(fence));
    struct lazy_stream *lazy = __atomic_load_n(&entry->lazy, __ATOMIC_ACQUIRE);
    uint64_t worth_ns = 0;
    if (lazy != NULL && !lazy_fence_record(lazy, fence, &worth_ns))
        return BACKING_FENCE_PENDING;
    if (__atomic_load_n(&entry->passed, __ATOMIC_RELAXED))
        return BACKING_FENCE_PASSED;
    enum backing_fence_state state = event_ask_for(fence, worth_ns);
    if (state == BACKING_FENCE_PASSED)
        __atomic_store_n(&entry->passed, true, __ATOMIC_RELAXED);
    return state;
}

enum backing_fence_state fence_wait(void *self, uint64_t fence)
{
    struct context *context = self;
    if ((fence & 1) != 0) {
        bool later = false;
        if (!wait_has_ended(context, fence))
            wait_as_free(context, context->handle, &later);
        return wait_passed(context, fence) ? BACKING_FENCE_PASSED : BACKING_FENCE_FAILED;
    }
    struct entry *entry = entry_at(fence_index(fence));
    struct lazy_stream *lazy = __atomic_load_n(&entry->lazy, __ATOMIC_ACQUIRE);
    if (lazy != NULL && !lazy_fence_record_soon(lazy, fence))
        return BACKING_FENCE_FAILED;
    if (__atomic_load_n(&entry->passed, __ATOMIC_RELAXED))
        return BACKING_FENCE_PASSED;
    uint64_t begin_ns = trace_recent();
    enum backing_fence_state state = event_ask(fence, real_cuEventSynchronize);
    if (begin_ns != 0)
        trace_wait(begin_ns, state != BACKING_FENCE_PASSED, context_number(context));
    return state;
}

void fence_drop(void *self, uint64_t fence)
{
    if ((fence & 1) != 0)
        debug_put_off_forget(self, fence);
    else if ((uint32_t)__atomic_sub_fetch(&entry_at(fence_index(fence))->holders, 1,
                                          __ATOMIC_ACQ_REL) == 0)
        entry_return(fence_index(fence));
}

void fence_forget_context(const struct context *context)
{
    pthread_mutex_lock(&fence_lock);
    for (uint32_t i = 0; i < entry_count; i++) {
        struct entry *entry = entry_at(i);
        if (entry->owner == context) {
            entry->owner = NULL;
            entry->event = NULL;
        }
    }
    pthread_mutex_unlock(&fence_lock);
}
