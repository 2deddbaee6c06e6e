/* capture.c - the set of captures in progress. See capture.h.
 *
 * The set is keyed by stream identity, so a stream's end takes its capture along and nothing can
 * leak as a counter would. If the set is full, captures are taken to be in progress from then on:
 * slower, never wrong.
 */
#define _GNU_SOURCE
#include "capture.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "../pool/asymmetric.h"
#include "driver.h"
#include "lazy_fence.h"
#include "process.h"

enum { CAPTURES_MAX = 256, PLACES = 256 };

/* The gate: waits say that they are inside before they look whether a capture begins or runs; a
 * beginning capture says so before it looks for waits. There is a fence between the two on either
 * side, so one of them sees the other. A thread has a place of its own to say it, which no other
 * thread writes; the beginning pays for the fence (asymmetric.h), or where that does not work a
 * wait pays with a locked instruction. The threads that come after PLACES have been given away
 * share a counter. */
static struct {
    _Alignas(64) uint32_t inside;
} gate_places[PLACES];
static uint32_t gate_places_given;
static uint32_t gate_shared_waits;
static __thread uint32_t gate_place; /* from 1; 0: not known yet; above PLACES: none */
static uint32_t gate_beginning;      /* captures that are beginning at this moment */
static pthread_mutex_t gate_turn = PTHREAD_MUTEX_INITIALIZER; /* one capture begins at a time */
static pthread_mutex_t set_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture_key capturing[CAPTURES_MAX]; /* packed from 0 */
static int capturing_count;
static bool overflowed;

bool capture_in_progress(void)
{
    return __atomic_load_n(&capturing_count, __ATOMIC_ACQUIRE) > 0 ||
           __atomic_load_n(&overflowed, __ATOMIC_RELAXED);
}

static uint32_t place_take(void)
{
    uint32_t given = __atomic_load_n(&gate_places_given, __ATOMIC_RELAXED);
    while (given < PLACES &&
           !__atomic_compare_exchange_n(&gate_places_given, &given, given + 1, true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    return given + 1;
}

bool capture_gate_enter(void)
{
    if (gate_place == 0)
        gate_place = place_take();
    uint32_t *inside = &gate_places[(gate_place - 1) % PLACES].inside;
    if (gate_place > PLACES) {
        __atomic_fetch_add(&gate_shared_waits, 1, __ATOMIC_SEQ_CST);
    } else if (asymmetric_ready()) {
        __atomic_store_n(inside, 1, __ATOMIC_RELAXED);
        asymmetric_fence_light();
    } else { /* an exchange: a store that later loads cannot overtake */
        __atomic_exchange_n(inside, 1, __ATOMIC_SEQ_CST);
    }
    if (!__atomic_load_n(&gate_beginning, __ATOMIC_SEQ_CST) && !capture_in_progress())
        return true;
    capture_gate_leave();
    return false;
}

void capture_gate_leave(void)
{
    if (gate_place <= PLACES)
        __atomic_store_n(&gate_places[gate_place - 1].inside, 0, __ATOMIC_RELEASE);
    else
        __atomic_fetch_sub(&gate_shared_waits, 1, __ATOMIC_RELEASE);
}

static bool gate_empty(void)
{
    uint32_t given = __atomic_load_n(&gate_places_given, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < given; i++)
        if (__atomic_load_n(&gate_places[i].inside, __ATOMIC_SEQ_CST) != 0)
            return false;
    return __atomic_load_n(&gate_shared_waits, __ATOMIC_SEQ_CST) == 0;
}

/* Waits until no wait of ours is inside: as long as a native free would hold up the beginning of a
 * capture. New ones see that a capture is beginning and stay out. */
static void gate_close(void)
{
    struct timespec nap = {.tv_nsec = 20000};
    pthread_mutex_lock(&gate_turn);
    __atomic_store_n(&gate_beginning, 1, __ATOMIC_SEQ_CST);
    if (asymmetric_ready())
        asymmetric_fence_heavy();
    for (int turns = 0; !gate_empty(); turns++) {
        if (turns < 100)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
}

static void gate_open(void)
{
    __atomic_store_n(&gate_beginning, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&gate_turn);
}

uint64_t stream_id(CUstream stream, bool ptsz)
{
    unsigned long long id = 0;
    CUresult (*get)(CUstream, unsigned long long *) =
        ptsz ? real_cuStreamGetId_ptsz : real_cuStreamGetId;
#ifdef VRAMALLOC_PLANT_STREAM_HANDLE
    return (uint64_t)(uintptr_t)stream + 1;
#endif
    if (get == NULL || get(stream, &id) != CUDA_SUCCESS)
        return 0;
    return (uint64_t)id + 1; /* ids begin at 0 */
}

bool stream_may_capture(CUstream stream, bool ptsz)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
        ptsz ? real_cuStreamIsCapturing_ptsz : real_cuStreamIsCapturing;
    if (ask == NULL) /* drivers before 10.0, which have no graphs that allocate */
        return capture_in_progress();
    return ask(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A stream that captures already is never asked for its identity. */
static struct capture_key key_of(CUstream stream, bool ptsz)
{
    bool may_ask = !capture_in_progress() || !stream_may_capture(stream, ptsz);
    return (struct capture_key){.id = may_ask ? stream_id(stream, ptsz) : 0, .handle = stream};
}

/* By identity where both have one, else by handle (drivers before 12.0 have none). */
static bool key_matches(const struct capture_key *a, const struct capture_key *b)
{
    return a->id != 0 && b->id != 0 ? a->id == b->id : a->handle == b->handle;
}

static void set_add(struct capture_key key)
{
    pthread_mutex_lock(&set_lock);
    if (capturing_count < CAPTURES_MAX) {
        capturing[capturing_count] = key;
        __atomic_store_n(&capturing_count, capturing_count + 1, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(&overflowed, true, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&set_lock);
}

static void set_remove(struct capture_key key)
{
    pthread_mutex_lock(&set_lock);
    for (int i = 0; i < capturing_count; i++) {
        if (key_matches(&capturing[i], &key)) {
            capturing[i] = capturing[capturing_count - 1];
            __atomic_store_n(&capturing_count, capturing_count - 1, __ATOMIC_RELEASE);
            break;
        }
    }
    pthread_mutex_unlock(&set_lock);
}

/* The context of a stream: of a default one the current, and of one that may not be asked. */
static CUcontext context_of_stream(CUstream stream, bool may_ask)
{
    CUcontext context = NULL;
    if (may_ask && stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD &&
        real_cuStreamGetCtx != NULL && real_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS)
        return context;
    return real_cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

void capture_forget_context(CUcontext context)
{
    pthread_mutex_lock(&set_lock);
    for (int i = capturing_count - 1; i >= 0; i--) {
        if (capturing[i].context != context || context == NULL)
            continue;
        capturing[i] = capturing[capturing_count - 1];
        __atomic_store_n(&capturing_count, capturing_count - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&set_lock);
}

struct capture_key capture_begin_enter(CUstream stream, bool ptsz)
{
    if (!process_serves())
        return (struct capture_key){.handle = stream};
    struct capture_key key = key_of(stream, ptsz);
    key.context = context_of_stream(stream, key.id != 0);
    gate_close();
    lazy_fences_before_capture();
    return key;
}

void capture_begin_leave(struct capture_key key, bool begun)
{
    if (!process_serves())
        return;
    if (begun)
        set_add(key);
    gate_open();
}

void capture_ended(CUstream stream, bool ptsz)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult (*ask)(CUstream, CUstreamCaptureStatus *) =
        ptsz ? real_cuStreamIsCapturing_ptsz : real_cuStreamIsCapturing;
    if (!capture_in_progress() || !process_serves())
        return;
    bool goes_on = ask != NULL && ask(stream, &status) == CUDA_SUCCESS &&
                   status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!goes_on)
        set_remove((struct capture_key){.id = stream_id(stream, ptsz), .handle = stream});
}

struct capture_key capture_destroy_enter(CUstream stream)
{
    return key_of(stream, false);
}

void capture_destroy_leave(struct capture_key key)
{
    if (capture_in_progress() && process_serves())
        set_remove(key);
}

void capture_relax(CUstreamCaptureMode *saved)
{
    *saved = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (real_cuThreadExchangeStreamCaptureMode != NULL)
        real_cuThreadExchangeStreamCaptureMode(saved);
}

void capture_restore(CUstreamCaptureMode *saved)
{
    if (real_cuThreadExchangeStreamCaptureMode != NULL)
        real_cuThreadExchangeStreamCaptureMode(saved);
}
