/* backing.h - the pool's only door to the outside: where memory comes from, and fences.
 *
 * The pool knows nothing of CUDA. Whoever creates a pool hands it one `struct backing`: functions
 * that get and return device memory, and that say whether earlier GPU work has finished. In the
 * preloaded library these call the driver (shim/backing_malloc.c); in the tests they are simulated.
 *
 * What it leaves out: caching, accounting and policy. Those are the pool's.
 *
 * Locks: every function is called with NO lock that an allocation or a free takes on its hot path.
 * `acquire` may be called with the pool's growth lock held; `release` and `fence_wait`, which may
 * wait for the GPU, are called with no lock at all. Functions may be called from any thread,
 * several at a time.
 */
#ifndef VRAMALLOC_POOL_BACKING_H
#define VRAMALLOC_POOL_BACKING_H

#include <stdint.h>

/* Segments start at, and are multiples of, this many bytes: what the driver maps at a time. */
#define BACKING_SEGMENT_ALIGN_BYTES ((uint64_t)2 << 20)

enum backing_status {
    BACKING_OK = 0,
    BACKING_NO_MEMORY, /* the device has no room for this size now; a smaller one may succeed */
    BACKING_FAILED     /* the device refuses for another reason (a fault, a lost context) */
};

enum backing_fence_state {
    BACKING_FENCE_PENDING = 0, /* work submitted before the fence may still run */
    BACKING_FENCE_PASSED,      /* all of it has finished */
    BACKING_FENCE_FAILED /* not known, and never will be (lost context): treat as never passed */
};

struct backing {
    void *self; /* handed to each function */

    /* Gets `bytes` of device memory (a multiple of BACKING_SEGMENT_ALIGN_BYTES, above 0).
     * BACKING_OK: *address_out is aligned to BACKING_SEGMENT_ALIGN_BYTES and the caller's alone.
     * Otherwise *address_out is untouched and nothing is held. Does not wait for the GPU. */
    enum backing_status (*acquire)(void *self, uint64_t bytes, uint64_t *address_out);

    /* Returns a whole acquisition. May wait for the GPU. On any status but BACKING_OK the memory
     * still belongs to the caller. */
    enum backing_status (*release)(void *self, uint64_t address, uint64_t bytes);

    /* How much of the device's memory is free now, and how much it has. Asked before growing, to
     * see whether memory is scarce. Does not wait for the GPU. May be NULL: it never is. */
    uint64_t (*room)(void *self, uint64_t *total_out);

    /* Where memory is made of parts that go back on their own. All three or none; then acquire and
     * release are not called. part_bytes: a multiple of BACKING_SEGMENT_ALIGN_BYTES; the last part
     * of an acquisition may be shorter. Statuses as above. They do not wait for the GPU.
     *
     * acquire_parts: `bytes` of device memory at consecutive addresses, in parts.
     * release_parts: returns whole parts of one acquisition; their addresses stay reserved for it.
     * retire: all parts of an acquisition of `bytes` went back; its addresses may serve others. */
    enum backing_status (*acquire_parts)(void *self, uint64_t bytes, uint64_t part_bytes,
                                         uint64_t *address_out);
    enum backing_status (*release_parts)(void *self, uint64_t address, uint64_t bytes,
                                         uint64_t part_bytes);
    void (*retire)(void *self, uint64_t address, uint64_t bytes);

    /* Asks, without waiting, whether a fence has passed. May be NULL where no fences are used. */
    enum backing_fence_state (*fence_poll)(void *self, uint64_t fence);

    /* Waits for a fence. Returns PASSED or FAILED. May be NULL where no fences are used. */
    enum backing_fence_state (*fence_wait)(void *self, uint64_t fence);

    /* Gives a fence back; it is not used again. May be NULL where no fences are used. */
    void (*fence_drop)(void *self, uint64_t fence);

    /* A request found no memory at hand: frees that the caller has begun and kept back should be
     * handed in now (pool_free_pend). Does not wait for the GPU. May be NULL. */
    void (*frees_due)(void *self);

    /* A clock in nanoseconds, never 0, for what the pool remembers of its past. Called with the
     * pool's lock held: it must be cheap, and need not be exact. May be NULL: nothing is
     * remembered. */
    uint64_t (*clock_ns)(void *self);
};

#endif
