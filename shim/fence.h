/* fence.h - fences: numbers that stand for "all this GPU work has finished".
 *
 * A fence is an event of the driver, kept for reuse per context; or the promise of the next wait of
 * a free. The pool asks for them through backing.h.
 *
 * Lock: fence_lock guards the table of events; innermost, never held across a driver call.
 */
#ifndef VRAMALLOC_SHIM_FENCE_H
#define VRAMALLOC_SHIM_FENCE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "../pool/backing.h"
#include "devices.h"

/* A fence after all work submitted so far to `stream` of `context`, which is current.
 * CUDA_SUCCESS: *fence_out is owned by the caller. Else the driver's error. Cost: 0.3 us. */
CUresult fence_after_stream(struct context *context, CUstream stream, bool ptsz,
                            uint64_t *fence_out);

#ifdef VRAMALLOC_PLANT_LATE_FENCE
/* Records the event, when the block is listed already. */
void fence_record_late(uint64_t fence, CUstream stream, bool ptsz);
#endif

/* A fence after all work submitted so far to `context`, which is current. False where the driver
 * has no cuCtxRecordEvent, a capture runs, or it fails: wait instead. Cost: 0.2 us. */
bool fence_after_context(struct context *context, uint64_t *fence_out);

/* --- for lazy_fence.c: an open fence is one whose event is not recorded yet ----------------------
 */

struct lazy_stream;

/* Makes an open fence, held by the caller, that others join by `key`. False: no event. The context
 * is current. */
bool fence_open(const struct context *context, struct lazy_stream *lazy, uint32_t key,
                uint64_t *fence_out);

/* One more block waits for this fence. False: it is not open, or another one by now. fence: may
 * have been dropped meanwhile. */
bool fence_join(uint64_t fence, uint32_t key);

/* From here on nobody joins, and the caller holds it until fence_closed(). False: another thread
 * was first. held_out: whether anybody else held it. */
bool fence_close(uint64_t fence, uint32_t key, CUevent *event_out, bool *held_out);

/* It is open, or being recorded. The caller holds it. */
bool fence_unrecorded(uint64_t fence);

enum fence_outcome {
    FENCE_RECORDED,
    FENCE_PASSED, /* no record was needed */
    FENCE_NEVER,
    FENCE_AS_BEFORE /* open again */
};
void fence_closed(uint64_t fence, enum fence_outcome outcome);

/* Makes a fence of an event, not yet handed in, be held by so many blocks: each drops it once. */
void fence_share(uint64_t fence, uint32_t holders);

/* A fence that passes when a wait_as_free() that begins after this call has succeeded. */
uint64_t fence_after_next_wait(struct context *context);

/* As backing.h says; self is the context. */
enum backing_fence_state fence_poll(void *self, uint64_t fence);
enum backing_fence_state fence_wait(void *self, uint64_t fence);
void fence_drop(void *self, uint64_t fence);

/* The context is gone, and its events with it. */
void fence_forget_context(const struct context *context);

#endif
