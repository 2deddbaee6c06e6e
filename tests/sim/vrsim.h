/* vrsim.h - control of the simulated driver, beside its cu* functions.
 *
 * The same switches can be set from the environment, read when the library is loaded:
 *   VRSIM_DEVICES=n                  GPUs in the machine (1)
 *   VRSIM_CARD_BYTES=n               memory of each (139 GiB); K, M, G, T accepted
 *   VRSIM_CUINIT_RESULT=code         what cuInit answers (0)
 *   VRSIM_DRIVER_VERSION=n           13000; functions younger than this do not exist
 *   VRSIM_NO=name,name               exact ELF names that this driver lacks, for dlsym too
 *   VRSIM_FAIL=name:n=code,...       the n-th call answers code; n may be "*": every call
 *   VRSIM_PROC_THUNKS=1              cuGetProcAddress hands out other addresses than dlsym
 *   VRSIM_CALL_NS=n                  host time that a call takes (100)
 *   VRSIM_FREED_USE=1                use of freed memory is no hazard (the library looks at it)
 *   VRSIM_REAL_TIME=1                the virtual clock follows the real one; waits sleep
 *   VRSIM_COUNTS=path|fd             at exit: "name calls" for every function that was called; %p
 * in a path is the process id VRSIM_LOOKUPS=path               every cuGetProcAddress: "name
 * version flags -> symbol" VRSIM_HAZARDS_FATAL=1            a process with hazards ends with status
 * 86
 *
 * Every function may be called by any thread, also before cuInit. Times are nanoseconds of the
 * virtual clock. Functions are found by dlsym or by linking the simulator.
 */
#ifndef VRSIM_H
#define VRSIM_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* One range of memory that a simulated kernel touches. */
struct vrsim_range {
    CUdeviceptr address;
    size_t bytes;
    int write; /* 0: read */
};

/* A kernel of the given length on a stream. stream: as cuLaunchKernel takes it; the _ptsz flavour
 * takes NULL for the thread's own stream. Returns what cuLaunchKernel would. */
CUresult vrsim_launch(CUstream stream, uint64_t duration_ns, size_t count,
                      const struct vrsim_range *ranges);
CUresult vrsim_launch_ptsz(CUstream stream, uint64_t duration_ns, size_t count,
                           const struct vrsim_range *ranges);

/* A kernel that runs until *flag is not 0. */
CUresult vrsim_launch_spin(CUstream stream, volatile int *flag, size_t count,
                           const struct vrsim_range *ranges);

/* A kernel that ends with an error: the context is lost once it has run. */
CUresult vrsim_launch_fault(CUstream stream, uint64_t duration_ns, CUresult code);

/* The context is lost at once: calls that report asynchronous errors answer code until the context
 * is destroyed or reset. context NULL: the calling thread's. Unknown contexts are ignored. */
void vrsim_fault(CUcontext context, CUresult code);

/* The nth call from now on of an exact ELF name answers code and does nothing else; nth 0: every
 * call. code 0 takes the order back. Returns 0, or -1 when there is no such function. */
int vrsim_fail(const char *name, uint64_t nth, CUresult code);

/* Calls of that name wait at their entry, holding nothing, until it is unblocked. 0 or -1. */
int vrsim_block(const char *name);
int vrsim_unblock(const char *name);

/* From here on `tell` is called at the entry of every call, with its exact ELF name, and with NULL
 * before it returns, unless it was refused at once; no lock is held then. tell NULL: no longer. To
 * be set while no other thread makes calls. */
void vrsim_on_call(void (*tell)(const char *name));

/* From here on every call is said on stderr: the program knows that it makes none. */
void vrsim_forbid_calls(void);

/* Calls made so far (blocked ones included), and calls waiting in vrsim_block. */
uint64_t vrsim_calls(const char *name);
uint64_t vrsim_blocked(const char *name);

/* Sum of the calls of every function, and back to zero for all. */
uint64_t vrsim_calls_all(void);
void vrsim_calls_reset(void);

/* The virtual clock: read it, move it on. */
uint64_t vrsim_now(void);
void vrsim_advance(uint64_t ns);

/* Bytes of the card in use by anybody: 2 MiB blocks. */
uint64_t vrsim_card_used(CUdevice device);

/* What exists at present, whoever made it. */
struct vrsim_live {
    uint64_t device_blocks;  /* cuMemAlloc, arrays */
    uint64_t ordered_blocks; /* cuMemAllocAsync, and not freed */
    uint64_t managed_blocks, host_blocks, registered_blocks;
    uint64_t external_blocks, externals;      /* mapped, imported */
    uint64_t mappings, handles, reservations; /* cuMemMap, cuMemCreate, cuMemAddressReserve */
    uint64_t events;
};
void vrsim_live(struct vrsim_live *out);

/* The address of a function by its exact ELF name, past whatever stands before the driver. NULL:
 * none such. */
void *vrsim_function(const char *name);

/* A program's block begins (after a successful allocation) and ends (before the call that frees
 * it). The oracle knows no other blocks. The end returns 1 if a block ended, else 0; only then a
 * free that failed may be taken back. */
void vrsim_note_alloc(CUdeviceptr address, size_t bytes);
int vrsim_note_free(CUdeviceptr address);
void vrsim_note_free_failed(CUdeviceptr address);

/* The same for stream-ordered calls; on a stream that captures they note nothing. */
void vrsim_note_alloc_async(CUdeviceptr address, size_t bytes, CUstream stream);
int vrsim_note_free_async(CUdeviceptr address, CUstream stream);

/* Hazards seen so far; each was lines on stderr beginning "vrsim: hazard: ": what, how many bytes
 * and where; indented, the block or both operations, their streams by identity. */
uint64_t vrsim_hazards(void);
void vrsim_hazards_reset(void);

#endif
