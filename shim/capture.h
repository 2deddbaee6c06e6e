/* capture.h - which stream captures are in progress, and the gate that keeps our waits out of them.
 *
 * A cuCtxSynchronize or cuCtxRecordEvent made while any stream of the context captures spoils that
 * capture, from any thread and in any mode; one that is already waiting when a capture begins does
 * not. So waits enter the gate shared, and a capture begins with the gate held exclusively: then
 * either the wait sees the capture and takes another way, or the capture begins after the wait. A
 * native cudaFree that waits holds up the beginning of a capture in the same manner.
 *
 * One set and one gate for the process: a capture anywhere makes every free take the other way,
 * which is always right. A free that meets a capture at its beginning takes the other way as well,
 * so a stream of frees cannot keep a capture from beginning.
 *
 * Locks: the gate, held shared across a wait for the GPU (the only lock that may be) and
 * exclusively across cuStreamBeginCapture; set_lock, innermost. Nothing else is held when the gate
 * is entered.
 */
#ifndef VRAMALLOC_SHIM_CAPTURE_H
#define VRAMALLOC_SHIM_CAPTURE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* True while any capture is in progress. Exact inside the gate. Cost: one load. */
bool capture_in_progress(void);

/* Enters the gate to make a call that would spoil a capture. False: one is in progress, the gate
 * was not entered. */
bool capture_gate_enter(void);
void capture_gate_leave(void);

/* What a capture is filed under. id 0: not known, because the driver has none or because the stream
 * captures: cuStreamGetId on a capturing stream spoils the capture (measured). */
struct capture_key {
    uint64_t id;
    CUstream handle;
    CUcontext context; /* that the stream ends with; NULL: not known */
};

/* Around the real cuStreamBeginCapture. ptsz: the per-thread flavour of the call. begun: it
 * succeeded. The key is taken before, and handed to capture_begin_leave(). */
struct capture_key capture_begin_enter(CUstream stream, bool ptsz);
void capture_begin_leave(struct capture_key key, bool begun);

/* After the real cuStreamEndCapture: drops the capture unless the driver says it goes on. */
void capture_ended(CUstream stream, bool ptsz);

/* Around the real cuStreamDestroy; leave only if it succeeded. */
struct capture_key capture_destroy_enter(CUstream stream);
void capture_destroy_leave(struct capture_key key);

/* The context has ended, and its streams and captures with it. */
void capture_forget_context(CUcontext context);

/* Puts the calling thread into relaxed capture mode, so that an allocation of ours spoils no
 * capture of another thread, and back. */
void capture_relax(CUstreamCaptureMode *saved);
void capture_restore(CUstreamCaptureMode *saved);

/* A number that names the stream for good: cuStreamGetId where the driver has it, which tells apart
 * what the handles 0, 1 and 2 mean in each flavour and thread. 0: not known. */
uint64_t stream_id(CUstream stream, bool ptsz);

/* Whether the stream captures. Anything but a clear no is a yes. */
bool stream_may_capture(CUstream stream, bool ptsz);

#endif
