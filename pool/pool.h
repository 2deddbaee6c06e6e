/* pool.h - the allocator: device memory in blocks, cut from segments that a backing provides.
 *
 * One `struct pool` serves one memory space (one CUDA context). Addresses are plain numbers: they
 * are never dereferenced, and all metadata lives on the host. The layers below this header:
 *
 *     pool.c        routes a request by size, keeps the ladder on a miss
 *     slab.c        small blocks: slots of one size class in a slab
 *     buddy.c       large blocks: runs of 512-byte pages, tail given back
 *     cache.c       blocks that a thread keeps for its next request, without a lock
 *     limbo.c       freed blocks that GPU work may still touch: by stream, by fence
 *     arena.c       segments from the backing: growth, budget, release
 *     page_map.c    address -> segment, O(1), lock-free to read
 *     history.c     when the peaks were, means, the worst moment
 *     together.c    levels of several pools, added up
 *     metadata.c    host memory for all of the above, from mmap
 *
 * What it leaves out: CUDA, I/O, getenv, signals, threads of its own.
 *
 * Life of a block:   alloc -> LIVE -free_begin-> RELEASING -free_finish-> free (or CACHED)
 *                                          |        \--free_pend--> PENDING -fence-> free
 *                                          \------free_cancel----> LIVE
 * A RELEASING block belongs to one thread, which may wait for the GPU without holding any lock; a
 * second free of it is refused. RELEASING and PENDING blocks are the limbo.
 *
 * Thread safety: every function may be called from any thread at any time; pool_destroy() lets
 * those who are inside end first. A broken rule that a cheap check finds in the metadata closes a
 * pool: addresses still lead to it, and every call answers POOL_CLOSED. A `struct pool` is never
 * unmapped, so a stale pointer is safe to use: its calls answer POOL_CLOSED.
 */
#ifndef VRAMALLOC_POOL_POOL_H
#define VRAMALLOC_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backing.h"
#include "stats.h"

#define POOL_PAGE_BYTES      ((uint64_t)512) /* the driver's own step for small blocks */
#define POOL_MIN_BLOCK_BYTES ((uint64_t)512)
#define POOL_MAX_BLOCK_BYTES ((uint64_t)1 << 52) /* larger requests are POOL_NO_MEMORY at once */
#define POOL_NO_STREAM       ((uint64_t)0)       /* the request is not ordered by a stream */

enum pool_status {
    POOL_OK = 0,
    POOL_NO_MEMORY,   /* held memory, the backing and the ladder cannot meet the request */
    POOL_NO_METADATA, /* the host has no memory for the pool's own records */
    POOL_NOT_OWNED,   /* the address is in no segment of any pool */
    POOL_NOT_LIVE,    /* the address is inside a pool but starts no live block */
    POOL_CLOSED,      /* the pool was destroyed, or its metadata was found broken: serves nothing */
    POOL_INVALID      /* an argument is out of range */
};

/* How a pool behaves. Zero in a field means the default named beside it. */
struct pool_config {
    uint64_t arena_bytes; /* first segment, acquired at the first allocation that it can serve;
                             default 32 MiB, less on a small
                             card; rounded up to 2 MiB; halved while the backing
                             refuses it; that much idle memory is always kept */
    uint64_t limit_bytes; /* never hold more than this from the backing; default none */
    uint32_t patience_us; /* how long a request waits for pending fences rather than hold more than
                             the slack allows; 0: not at all */
    uint32_t guard_bytes; /* each block is longer than asked for by this much at least */
    uint32_t slack_percent; /* idle memory is kept while all that is held stays under this share of
                               the highest live total, plus 64 MiB */
    bool uncached; /* threads keep no blocks for themselves: memory is used again soon, and tests
                      see where blocks lie and each record */
};

enum pool_block_state {
    POOL_BLOCK_FREE = 0,
    POOL_BLOCK_LIVE,
    POOL_BLOCK_RELEASING,
    POOL_BLOCK_PENDING,
    POOL_BLOCK_CACHED /* free, kept by the thread that freed it: to everyone else as FREE */
};

/* What a pool knows about one block. */
struct pool_block {
    struct pool *pool;
    uint64_t address;         /* where the block starts, aligned to 512 */
    uint64_t requested_bytes; /* what was asked for */
    uint64_t block_bytes;     /* with rounding: >= requested_bytes */
    uint64_t serial;          /* unique in this process: a new one for each allocation; above 0 */
    uint64_t segment_address; /* the driver allocation that the block lies in */
    uint64_t segment_bytes;
    enum pool_block_state state;
    uint32_t tag; /* as given to pool_alloc() */
    void *record; /* private to the pool: finds the block again without a look-up */
    uint32_t slot;
};

struct pool;

/* Makes an empty pool; no memory is acquired yet.
 * config, backing: copied. Returns NULL when the host has no memory. Cost: one mmap. */
struct pool *pool_create(const struct pool_config *config, const struct backing *backing);

/* Ends a pool: no address belongs to it afterwards, every call answers POOL_CLOSED.
 * release_segments: true gives each segment to backing->release; false forgets them (the context
 * that owned the memory is gone). Pending fences are given to fence_drop either way. Statistics
 * stay readable. Waits for calls of other threads that work without the lock. Cost: one walk over
 * the segments and the limbo. */
void pool_destroy(struct pool *pool, bool release_segments);

/* From here on the pool's levels are part of `together`, which outlives the pool, until the pool
 * ends. Joining again, or when closed, changes nothing. Cost: one lock; afterwards a few atomic
 * additions for each block that comes or goes. */
void pool_join(struct pool *pool, struct pool_together *together);

/* Every later call answers POOL_CLOSED; nothing is given back before pool_destroy(). Cost: one
 * lock. */
void pool_close(struct pool *pool);

/* Allocates.
 * bytes: 1 .. POOL_MAX_BLOCK_BYTES. stream: the ordering stream's id, or POOL_NO_STREAM; a block
 * that this very stream freed (free_pend) may be handed out again before its fence has passed. tag:
 * kept with the block for the caller. POOL_OK: *address_out is a block of at least `bytes`, aligned
 * to 512, that no unfinished GPU work can touch except work that `stream` orders before.
 * POOL_NO_MEMORY, POOL_NO_METADATA, POOL_CLOSED or POOL_INVALID (bytes is 0): *address_out is 0.
 * May call backing->acquire, fence_poll; and, only when the alternative is failing, release and
 * fence_wait. Cost on a hit: no lock where the thread
 * keeps such a block, else one, O(log free runs); no system call, no backing call. */
enum pool_status pool_alloc(struct pool *pool, uint64_t bytes, uint64_t stream, uint32_t tag,
                            uint64_t *address_out);

/* Starts a free: LIVE -> RELEASING. The pool is found from the address.
 * POOL_OK: *block_out describes the block; the caller must end with exactly one of finish, pend or
 * cancel. POOL_NOT_OWNED: forward the free, it is not ours. POOL_NOT_LIVE: a double or interior
 * free, counted in invalid_frees. POOL_CLOSED: the pool is broken. On anything but POOL_OK
 * *block_out is all zero. Cost: O(1); no lock where the thread was handed this block, else one. */
enum pool_status pool_free_begin(uint64_t address, struct pool_block *block_out);

/* The GPU is known to be done with the block: it is free for anyone. Cost: no lock where the
 * thread keeps the block, else one, O(log free runs). Returns the bytes of idle segments that
 * pool_trim(pool, UINT64_MAX) would release now. */
uint64_t pool_free_finish(const struct pool_block *block);

/* As pool_free_finish(), for a block that another process may still have mapped: its memory is
 * nobody's any more. If no other block is in its segment, that is given back to the backing at
 * once; else the block stays in limbo for good. Waits for the GPU if the backing does. Cost: a
 * release. */
void pool_free_retire(const struct pool_block *block);

/* The GPU is done with the block when `fence` has passed; `stream` may reuse it at once.
 * stream: an id above 0, or POOL_NO_STREAM for nobody. fence: the pool owns it from here and gives
 * it to fence_drop. Fences of one stream pass about in the order in which they are handed in: none
 * is taken to have passed because another has, but a later one is not asked before an earlier one
 * has passed. Cost: one lock, O(1). */
void pool_free_pend(const struct pool_block *block, uint64_t stream, uint64_t fence);

/* As pool_free_pend() for `count` blocks of one pool, 1 or more, behind one fence. fence_drop is
 * given the fence once for each of them. Cost: one lock, O(count). */
void pool_free_pend_all(const struct pool_block *blocks, uint32_t count, uint64_t stream,
                        uint64_t fence);

/* The free did not happen (the driver refused it): RELEASING -> LIVE. Cost: one lock. */
void pool_free_cancel(const struct pool_block *block);

/* Describes the block that contains `address` (anywhere inside a live or limbo block).
 * POOL_OK; or POOL_NOT_OWNED, POOL_NOT_LIVE (inside a pool, but in free memory) or POOL_CLOSED
 * (inside a broken pool), and *block_out is all zero. Cost: one lock; a large block is found by
 * scanning a bitmap of run starts. */
enum pool_status pool_find(uint64_t address, struct pool_block *block_out);

/* Replaces the tag of the live block around `address`. POOL_OK, or as pool_find(). Cost: as
 * pool_find(). */
enum pool_status pool_retag(uint64_t address, uint32_t tag);

/* True when `address` lies in a segment of some pool. Lock-free, O(1), async-signal-safe. */
bool pool_owns(uint64_t address);

/* Releases wholly idle segments, the longest idle first, until at most `keep_bytes` of idle memory
 * is held. Waits for the GPU if the backing does: call it only where the native call waits, or to
 * avoid failing. keep_bytes: UINT64_MAX means what slack_percent allows. Returns the bytes
 * released. */
uint64_t pool_trim(struct pool *pool, uint64_t keep_bytes);

/* Asks pending fences, without waiting, and frees the blocks behind those that have passed.
 * Returns the number of blocks freed. */
uint64_t pool_collect(struct pool *pool);

/* All work of the device is known to have finished: every PENDING block whose fence was recorded
 * before the call is free (one that another thread asks about at this moment, when it has its
 * answer). Returns the number of blocks freed. */
uint64_t pool_collect_all(struct pool *pool);

/* A stream has ended: blocks it freed are no longer reusable by its id before their fence. */
void pool_forget_stream(struct pool *pool, uint64_t stream);

/* Copies the statistics; equations hold within the copy. Also on a destroyed pool.
 * Waits at most about 100 ms for the lock, then reads without it (a report at exit must not hang).
 */
void pool_stats_read(struct pool *pool, struct pool_stats *stats_out);

/* Looks at the levels once more, for the means. Cost: one lock. */
void pool_observe(struct pool *pool);

/* What the pool remembers of its past, up to now; of a destroyed pool, up to its end. Waits for the
 * lock as pool_stats_read() does. */
void pool_history_read(struct pool *pool, struct pool_history *history_out);

/* What the pool adds to the free memory that the driver tells of: its free runs, or less where nine
 * tenths of the sum could not be had in one piece.
 * device_free_bytes: as the driver says. Cost: one lock; with memory in parts a walk over the free
 * runs. */
uint64_t pool_available_bytes(struct pool *pool, uint64_t device_free_bytes);

/* What pool_trim(pool, 0) would give back to the driver. Cost: one lock; with memory in parts a
 * walk over the free runs. */
uint64_t pool_releasable_bytes(struct pool *pool);

/* Calls `visit` for each live block, in address order within a segment. The lock is held: `visit`
 * must not call the pool. Waits for the lock as pool_stats_read() does; false: it was not to be
 * had, and nothing was visited. */
bool pool_visit_live(struct pool *pool, void (*visit)(void *arg, const struct pool_block *block),
                     void *arg);

/* Calls `visit` for each range of addresses under which the pool has memory. `visit` may take its
 * time, but must not call the pool: no memory comes or goes meanwhile, and who wants that waits;
 * hits go on. When the pool is closed meanwhile the visit ends early. */
void pool_visit_backed(struct pool *pool,
                       void (*visit)(void *arg, uint64_t address, uint64_t bytes), void *arg);

/* Walks everything and proves every invariant. Takes the lock, so others wait meanwhile.
 * Returns true; or false with the broken rule in words in why[0 .. why_bytes). Cost: O(metadata).
 */
bool pool_check(struct pool *pool, char *why, size_t why_bytes);

#endif
