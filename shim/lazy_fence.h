/* lazy_fence.h - fences of stream-ordered frees whose event is recorded when somebody asks for it.
 *
 * What a stream frees it may take again without a fence. So a free only joins its stream's open
 * fence, without a call to the driver, and the event is recorded when another request wants to know
 * whether the fence has passed. Recorded later on the same stream it covers more work than it
 * must, which is right. It has to be recorded before that becomes impossible: before the stream is
 * destroyed, and before a capture begins, which the stream might join.
 *
 * What it leaves out: the default streams of threads, which no other thread can name (their frees
 * record at once), and streams destroyed through a function that was looked up past the hooks.
 *
 * Lock: lazy_lock for the table of streams, innermost, never held across a driver call. Whoever
 * closes a fence records it, alone; the end of its stream or context waits for that.
 */
#ifndef VRAMALLOC_SHIM_LAZY_FENCE_H
#define VRAMALLOC_SHIM_LAZY_FENCE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "devices.h"

struct lazy_stream;

/* A fence after all work submitted so far to `stream`, whose identity is `id`, of `context`, which
 * is current. True: *fence_out is owned by the caller. False: record one (fence_after_stream()).
 * Cost: no driver call but for the first fence of a stream. */
bool lazy_fence_join(struct context *context, CUstream stream, bool ptsz, uint64_t id,
                     uint64_t *fence_out);

/* Somebody asks for this fence, and holds it: records its event. False: not now, ask again. soon:
 * waits for whoever is at it; false: it cannot be had. worth_ns_out: for how long it pays to ask
 * for the event at once, since the GPU may be idle. */
bool lazy_fence_record(struct lazy_stream *lazy, uint64_t fence, uint64_t *worth_ns_out);
bool lazy_fence_record_soon(struct lazy_stream *lazy, uint64_t fence);

/* A capture is about to begin; the gate is held exclusively. */
void lazy_fences_before_capture(void);

/* The stream, or the context, is about to end, or has: nothing is recorded on it any more. */
void lazy_fence_stream_ends(CUstream stream);
void lazy_fences_context_ends(const struct context *context);

#endif
