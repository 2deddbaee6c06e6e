/* wait.h - waiting for the GPU exactly as a native cudaFree does.
 *
 * What it leaves out: fences for frees that need not wait (fence.h).
 * Locks: none of ours is held across a wait except the capture gate (capture.h).
 */
#ifndef VRAMALLOC_SHIM_WAIT_H
#define VRAMALLOC_SHIM_WAIT_H

#include <cuda.h>
#include <stdbool.h>

#include "devices.h"

/* Waits until all work that a native cuMemFree of memory of `context` waits for has finished.
 * current: the context current to this thread, NULL for none; unchanged on return.
 * Returns what a native free would: CUDA_SUCCESS, or a pending asynchronous error, or the refusal
 * that a free meets during a capture. *later_out is true when nothing was waited for because that
 * was impossible without spoiling a capture (a full card): the block must wait for a later wait.
 * Cost on an idle GPU: one cuCtxSynchronize, 0.3 us; 2.5 us beside a capture, a green context or a
 * peer. */
CUresult wait_as_free(struct context *context, CUcontext current, bool *later_out);

/* Makes a context current for a moment. current: what is current now. wait_leave() undoes it. */
bool wait_enter(CUcontext context, CUcontext current);
void wait_leave(bool entered);

/* An error after which the context serves nothing until it is reset. */
bool wait_error_lasts(CUresult result);

#endif
