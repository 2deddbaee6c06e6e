/* devices.h - the GPUs and contexts of the process: a pool for each context, counters for each GPU.
 *
 * A context is known by its handle until it is destroyed or reset; contexts_drop() then ends its
 * pool before the driver can hand out the same handle or addresses again. Slots are static and
 * reused, so a stale pointer is safe to read: its pool answers POOL_CLOSED.
 *
 * What it leaves out: serving calls (hooks_*.c), waiting (wait.c), adding figures up (figures.c).
 *
 * Locks: registry_lock for making and dropping contexts. No driver call is made under it, and of
 * other locks only those of pools, and the trace's, are taken under it. visit_lock, outside it: a
 * context is not dropped while another one's call looks after its frees.
 */
#ifndef VRAMALLOC_SHIM_DEVICES_H
#define VRAMALLOC_SHIM_DEVICES_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../pool/pool.h"
#include "process.h"
#include "report.h"

/* The pool's tag of a block, in bits; above them its origin (origins.h). */
enum block_tag {
    TAG_ORDINARY = 0,
    TAG_STREAM_ORDERED = 1, /* a stream-ordered call allocated it */
    TAG_SYNC_MEMOPS = 2,    /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is on */
    TAG_EXPORTED = 4        /* another process may have it mapped */
};

#define DEVICES_MAX 64 /* GPUs a process can see; later ones are forwarded to the driver */

struct device {
    bool known; /* the fields below are set; never cleared again */
    CUdevice handle;
    char name[96];
    uint64_t total_bytes;
    CUmemoryPool default_pool; /* NULL where the driver has none */
    struct counters counters;  /* read and written with __atomic, relaxed */
    bool async_to_driver;      /* the program configured a memory pool: stream-ordered calls are
                                  the driver's from then on */
    CUcontext primary;         /* the primary context, once it was retained */
    bool green_made;           /* a green context was ever made */
    bool peer_enabled;         /* another device's contexts were ever let at this one's memory */
    uint64_t peers;            /* bit i: device i's contexts were */
    uint64_t contexts_served;  /* contexts that ever had a pool */
    struct pool_stats retired; /* statistics of pools whose context is gone */
    struct pool_history retired_history;
    struct pool_together together; /* levels and peaks of all its pools, once there were two */
    struct latency latency;        /* read and written with __atomic, relaxed */
    uint32_t refused_frees_noted;
    struct {
        bool ready;
        struct refused_free free;
    } refused_frees[REFUSED_FREES_MAX];
};

struct context {
    CUcontext handle;   /* NULL: the slot is free */
    CUcontext dropping; /* the handle while the context is being dropped: no new pool for it. Under
                           registry_lock */
    struct device *device;
    struct pool *pool;
    bool vmm;     /* its memory is backing_vmm.c's, which outlives the context */
    bool faulted; /* a wait returned an error that lasts: allocate natively until the driver can
                     again */
    CUdeviceptr barrier_spare; /* wait.c: 0 when there is none; exchanged atomically */
    bool barrier_neighbour;    /* wait.c */
    size_t pitch_unit;         /* hooks_memory.c: rounding of rows; 0 when not known yet */
    CUstream debug_stream;     /* debug.c; NULL until it is needed */
    struct deferred *deferred; /* deferred.c: frees kept back; NULL where frees wait */
    uint32_t waits_needed;     /* fence.c: newest number that a fence waits for; waits_ended: newest
                                  reached */
    uint32_t waits_ended;
    /* stream_use.c: */
    uint64_t async_bytes; /* of live stream-ordered blocks, as the driver's pool would count them */
    uint64_t async_high_bytes;     /* the most, since the program last reset it */
    uint64_t async_reserved_bytes; /* the same, for what would be reserved for them */
    uint64_t async_kept_bytes;     /* the most, since the program last trimmed the pool */
};

/* The context current to this thread, with its pool; made on first sight. *current_out is the
 * handle, NULL when none is current or the driver cannot say (not initialised, shut down, host
 * callback). NULL: forward the call. Cost: cuCtxGetCurrent and a thread-local compare. */
struct context *context_current(CUcontext *current_out);

/* The same for a thread whose current context is known to be `current` (not NULL). */
struct context *context_of(CUcontext current);

/* The context whose pool this is; NULL when it was dropped meanwhile, or is being dropped.
 * likely: tried first; may be NULL. */
struct context *context_of_pool(const struct pool *pool, struct context *likely);

/* The device's contexts, one a call, in no order; NULL: no more. slot: 0 at first. A context may be
 * dropped at any time: its pool is safe to call, its handle is not. */
struct context *device_context(const struct device *device, int *slot);

/* Around the end of a context: nothing of its pool is served from begin on; end, called when it was
 * destroyed or reset, gives the slot back. Begin returns NULL for NULL and unknown handles, which
 * end ignores. */
struct context *contexts_drop_begin(CUcontext handle);
void contexts_drop_end(struct context *context);

/* The program destroyed a context: some thread may have it current still. Atomic. */
extern bool context_was_destroyed;

/* The number of a context in traces, from 1. latest: of the one that this thread last used, 0 where
 * there was none. */
uint16_t context_number(const struct context *context);
uint16_t context_number_latest(void);

/* For backing.h's room; self is the context, which is current. Counts the call. */
uint64_t context_room(void *self, uint64_t *total_out);

/* The registry's lock: who holds it sees no context made or dropped. Never across a driver call. */
pthread_mutex_t *devices_lock(void);

/* For backing.h's clock_ns. */
uint64_t context_clock_ns(void *self);

/* Gives the idle memory of all pools of the device back to the driver, for a request that it
 * refused: the alternative is failing. Waits for the GPU if the backing does. True: something was
 * given back, so the driver is worth another try. */
bool device_idle_release(struct device *device);

/* What the device's other pools would give back for this context's sake. */
uint64_t device_idle_elsewhere(const struct context *context);

/* Device `peer`'s contexts may touch memory of this device from now on. Called by one thread at a
 * time. On anything but CUDA_SUCCESS the driver refused, and they may not. */
CUresult device_peer_add(struct device *device, CUdevice peer);

/* The device record for a driver handle; NULL when there are too many. Cost: three driver queries
 * the first time. */
struct device *device_of(CUdevice handle);

/* A free of this address was refused: for the report. Cost: as pool_find(). */
void device_refused_free_note(struct device *device, CUdeviceptr address);

/* The record of a device that was seen before; NULL otherwise. */
struct device *device_known(CUdevice handle);

/* The device of the current context; else the first known one; else NULL. For counting only. */
struct device *device_for_counting(void);

/* True when a context's own synchronise may not reach all work that a native free waits for: green
 * contexts, and peers. (A second ordinary context is not waited for natively either; measured.) */
bool device_reached_from_outside(const struct device *device);

/* Adds to a counter of a device; device may be NULL. */
#define DEVICE_COUNT(device, counter, amount)                                                      \
    ((void)((device) != NULL ? __atomic_fetch_add(&(device)->counters.counter, (uint64_t)(amount), \
                                                  __ATOMIC_RELAXED)                                \
                             : 0))

#endif
