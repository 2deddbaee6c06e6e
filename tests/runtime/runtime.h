/* runtime.h - the inside of the stand-in runtime.
 *
 * Every entry point does three things: runtime_enter() (bind, initialise, make a context current),
 * the driver call, runtime_leave() (remember the error).
 *
 * Lock: runtime_bind() runs once under a lock of its own; the flags of retained devices are
 * atomics.
 */
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "cuda_runtime_min.h"

#define RUNTIME_API __attribute__((visibility("default")))

enum { RUNTIME_DEVICES_MAX = 64 };

/* cuda.h gives these names other meanings; the table means the exact ones. */
#undef cuMemcpy
#undef cuMemcpyAsync
#undef cuMemsetD8Async
#undef cuMemAllocAsync
#undef cuMemAllocFromPoolAsync
#undef cuMemFreeAsync
#undef cuStreamSynchronize
#undef cuStreamQuery
#undef cuStreamWaitEvent
#undef cuStreamAddCallback
#undef cuLaunchHostFunc
#undef cuStreamEndCapture
#undef cuStreamIsCapturing
#undef cuGraphLaunch
#undef cuEventRecord
#undef cuCtxSynchronize
#undef cuCtxGetDevice
#undef cuEventElapsedTime
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset

/* The driver's functions; one that it lacks answers cudaErrorCallRequiresNewerDriver. */
struct driver {
    CUresult (*cuInit)(unsigned int);
#define DRIVER(name, version, elf, params)                                CUresult(*elf) params;
#define STREAM(name, version, elf, thread_version, thread_suffix, params) CUresult(*elf[2]) params;
#include "driver.def"
#undef DRIVER
#undef STREAM
    /* the hazard oracle's, where the driver is the simulated one */
    void (*note_alloc)(CUdeviceptr, size_t);
    int (*note_free)(CUdeviceptr);
    void (*note_free_failed)(CUdeviceptr);
    void (*note_alloc_async)(CUdeviceptr, size_t, CUstream);
    int (*note_free_async)(CUdeviceptr, CUstream);
};

extern struct driver driver;

/* Finds the driver and its functions, once. False: there is none. */
bool runtime_bind(void);

/* Binds and calls cuInit. */
cudaError_t runtime_start(void);

/* Starts, and makes the thread's device current unless some context already is. */
cudaError_t runtime_enter(void);

/* Remembers an error as the thread's last one. Returns it. */
cudaError_t runtime_leave(cudaError_t error);

/* The device was reset and not used since. */
bool runtime_device_is_reset(void);

cudaError_t error_of(CUresult result);

#endif
