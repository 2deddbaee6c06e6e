/* differential.h - what the parts of the differential test share: the log, names for addresses,
 * the driver's functions, the subjects.
 *
 * A line of the log is "subject, scope: text". It holds no address, no time, and nothing else that
 * differs between two runs of the same program without the library.
 */
#ifndef VRAMALLOC_TESTS_DIFFERENTIAL_H
#define VRAMALLOC_TESTS_DIFFERENTIAL_H

#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef WITH_RUNTIME
#    include "../runtime/cuda_runtime_min.h"
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* --- the driver's functions: linked, or looked up; NULL where there is none --- */
struct driver {
#define FUNCTION(name) __typeof__(name) *name;
#include "functions.def"
#undef FUNCTION
};
extern struct driver d;
#define HAS(name) (d.name != NULL)
void driver_bind(void);

/* Initialises the driver and makes the first device's primary context current, as the program's
 * kind does it: by the runtime, or by hand. */
void context_make(void);

/* --- the log --- */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void scope(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A driver call and its result. */
#define DR(call)                                                                                   \
    __extension__({                                                                                \
        CUresult result_ = (call);                                                                 \
        say("%s -> %d", #call, (int)result_);                                                      \
        result_;                                                                                   \
    })

/* A runtime call, its result, and the last error: peeked, taken, peeked again. */
#define RT(call)                                                                                   \
    __extension__({                                                                                \
        cudaError_t result_ = (call);                                                              \
        int peeked_ = (int)cudaPeekAtLastError(), taken_ = (int)cudaGetLastError();                \
        say("%s -> %d, last %d %d %d", #call, (int)result_, peeked_, taken_,                       \
            (int)cudaPeekAtLastError());                                                           \
        result_;                                                                                   \
    })

/* Ends the subject if a call fails that it cannot do without. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        int must_ = (int)(call);                                                                   \
        if (must_ != 0) {                                                                          \
            say("needed %s, it gave %d", #call, must_);                                            \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

/* --- names for addresses --- */
#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))
void block_named(const char *name, CUdeviceptr address, size_t bytes);
void block_ended(CUdeviceptr address);

/* "A+12", "freed A+12", "NULL" or "elsewhere"; the text lives until the eighth next call. */
const char *where(CUdeviceptr address);

/* A block of device memory that must be had. */
CUdeviceptr block_make(const char *name, size_t bytes);

/* Foreign memory: what the address of each kind of memory is like. */
struct foreign {
    const char *kind;
    CUdeviceptr address;
    size_t bytes;
};
enum { FOREIGN_MAX = 12 };

/* Fills the list with a block of every kind but ordinary device memory. Returns how many. */
int foreign_make(struct foreign list[FOREIGN_MAX]);

/* Runs a function in a thread of its own, to its end. */
void in_thread(void *(*function)(void *), void *argument);

/* Runs this program again: arguments, and whether LD_PRELOAD is left out. Its lines are logged. */
void in_child(bool plain, const char *what, const char *argument, const char *more);

/* --- the subjects --- */
struct subject {
    const char *name;
    void (*run)(void);
};
#ifdef WITH_RUNTIME
void runtime_allocate(void);
void runtime_names(void);
void runtime_pointers(void);
void runtime_copies(void);
void runtime_ends(void);
void runtime_unified(void);
void runtime_errors(void);
void runtime_async(void);
void runtime_pool(void);
void runtime_capture(void);
void runtime_threads(void);
void runtime_ipc(void);
void runtime_reset(void);
void runtime_devices(void);
void runtime_fault(void);
void runtime_callback(void);
void runtime_fork(void);
void runtime_ipc_child(const char *handle, const char *more);
#endif
void driver_allocate(void);
void driver_ranges(void);
void driver_attributes(void);
void driver_handles(void);
void driver_advice(void);
void driver_copies(void);
void driver_ends(void);
void driver_beyond(void);
void driver_unified(void);
void driver_textures(void);
void driver_async(void);
void driver_pool(void);
void driver_capture(void);
void driver_threads(void);
void driver_contexts(void);
void driver_primary(void);
void driver_peers(void);
void driver_fault(void);
void driver_ipc(void);
void driver_numbers(void);
void driver_ipc_child(const char *handle, const char *more);

/* A kernel on the context that ends with an illegal address. False: none can be had here. */
bool fault_make(void);

#endif
