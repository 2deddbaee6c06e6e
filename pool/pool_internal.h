/* pool_internal.h - the records of a pool, shared by the files of pool/.
 *
 * Geometry:
 *
 *     segment   [ run | run | run ............ ]   from the backing, multiple of 2 MiB
 *     run       whole 512-byte pages: free, one large block, a slab, or a gap
 *     slab      [ slot | slot | ... | tail ]        slots of one size class
 *
 * A segment's page table points to the run at the run's first and last page only (boundary tags),
 * so that host memory is touched there alone. A bitmap of two levels marks where runs start, so
 * that an interior address is found by scanning words backwards.
 *
 * Locks, outermost first: pool.growth (the ladder), pool.lock (everything below). Functions of the
 * inner files are called with pool.lock held unless they say otherwise.
 */
#ifndef VRAMALLOC_POOL_INTERNAL_H
#define VRAMALLOC_POOL_INTERNAL_H

#include <pthread.h>

#include "lock.h"
#include "metadata.h"
#include "page_map.h"
#include "pool.h"
#include "size_class.h"

#define POOL_LARGE_BYTES                                                                           \
    ((uint64_t)32 << 20) /* blocks above this get segments of their own size                       \
                          */
#define POOL_MEDIUM_BYTES   ((uint64_t)1 << 20) /* above this the driver takes whole 2 MiB */
#define POOL_KEPT_BYTES_MAX ((uint64_t)1 << 20) /* larger ones a lone thread alone keeps */
#define POOL_SLOT_NONE      UINT32_MAX          /* pool_block.slot of a block that is a whole run */

/* Read and written with __atomic, relaxed, where a thread may do so without the lock (cache.c). Two
 * make a cache line. */
struct block_info {
    _Alignas(
        32) uint64_t word; /* serial << BLOCK_STATE_BITS | enum pool_block_state; 0: never used */
    uint64_t requested_bytes; /* valid unless free or cached */
    uint32_t tag;
};

enum {
    BLOCK_STATE_BITS = 3,
    POOL_CACHE_PLACES = 8 /* pools of which a thread may keep blocks at once */
};

static inline uint64_t block_word(uint64_t serial, enum pool_block_state state)
{
    return serial << BLOCK_STATE_BITS | state;
}

static inline uint64_t block_word_get(const struct block_info *info)
{
    return __atomic_load_n(&info->word, __ATOMIC_RELAXED);
}

static inline enum pool_block_state block_state_of(uint64_t word)
{
    return (enum pool_block_state)(word & (((uint64_t)1 << BLOCK_STATE_BITS) - 1));
}

/* The block's serial number stays. */
static inline void block_state_set(struct block_info *info, enum pool_block_state state)
{
    uint64_t serial = block_word_get(info) >> BLOCK_STATE_BITS;
    __atomic_store_n(&info->word, block_word(serial, state), __ATOMIC_RELAXED);
}

static inline void block_info_set(struct block_info *info, uint64_t word, uint64_t requested_bytes,
                                  uint32_t tag)
{
    __atomic_store_n(&info->requested_bytes, requested_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&info->tag, tag, __ATOMIC_RELAXED);
    __atomic_store_n(&info->word, word, __ATOMIC_RELAXED);
}

/* RUN_GAP: addresses without memory, which was given back (parts.c); RUN_LEAVING: it is being. */
enum run_kind { RUN_FREE = 0, RUN_BLOCK, RUN_SLAB, RUN_LEAVING, RUN_GAP };

struct run {
    struct segment *segment;
    uint64_t first_page; /* in the segment */
    uint64_t pages;
    enum run_kind kind;
    struct block_info block; /* RUN_BLOCK */
    struct slab *slab;       /* RUN_SLAB */
    struct run *left;        /* RUN_FREE: the order's tree */
    struct run *right;
    uint64_t priority;
};

/* Which index a segment's free runs are filed in. */
enum domain { DOMAIN_SHARED = 0, DOMAIN_LARGE, DOMAIN_COUNT };

struct segment {
    struct pool *pool; /* constant for the life of the record */
    uint64_t address;
    uint64_t bytes; /* 0: the record is not in use */
    uint64_t pages;
    uint64_t part_pages; /* memory can go back in parts of so many pages; 0: only as a whole */
    uint64_t gap_pages;  /* that are not backed, or about to lose their memory */
    uint64_t lost_pages; /* of these, those whose memory is gone for good */
    enum domain domain;
    struct run **page_run; /* one entry a page; valid at the ends of runs */
    uint64_t *run_starts;  /* one bit a page */
    uint64_t *start_words; /* one bit a word of run_starts: it is not 0 */
    struct segment *next;  /* in use: the pool's list, newest first; else the spare records */
    struct segment *previous;
    struct segment *idle_next; /* the pool's list of idle segments, longest idle first */
    struct segment *idle_previous;
};

struct slab {
    struct run *run;
    struct slab *next; /* partial list of the class; valid while listed */
    struct slab *previous;
    uint32_t class_index;
    uint32_t used;  /* slots not free */
    uint32_t first; /* no word of free_slots before this one has a bit */
    bool listed;
    uint64_t free_slots[2];                 /* one bit a slot, set: free */
    _Alignas(64) struct block_info slots[]; /* size_class.slots of them */
};

struct slab_class {
    struct slab *partial; /* slabs with a free slot, most recently filled first */
    struct slab *empty;   /* at most one, not in the partial list */
};

/* A freed block that waits for a fence. */
struct pending {
    struct limbo_stream *stream;
    struct pending *next; /* in the order of the frees */
    struct pending *previous;
    struct pending *bucket_next; /* blocks of one stream and about one size, newest first */
    struct pending *bucket_previous;
    uint64_t fence;
    struct pool_block block;
    bool polled;   /* a collector asks the fence without the lock: it ends fence and record */
    bool detached; /* the block was reused meanwhile */
    bool passed;   /* meanwhile all work was found to have ended */
};

struct limbo_stream {
    uint64_t id;
    struct limbo_stream *next; /* streams with the same hash */
    struct limbo_stream *all;  /* every stream */
    struct pending *oldest;
    struct pending *newest;
    uint64_t blocks; /* in the list */
};

enum { LIMBO_STREAM_BUCKETS = 64, LIMBO_SIZE_BUCKETS = 2048 };

struct limbo {
    struct limbo_stream *streams[LIMBO_STREAM_BUCKETS];
    struct limbo_stream *all;
    struct pending *sizes[LIMBO_SIZE_BUCKETS];
    bool collecting;
};

struct run_index {
    struct run *tree[DOMAIN_COUNT][POOL_STATS_ORDERS]; /* by order; sorted by pages, then address */
    uint64_t filled[DOMAIN_COUNT];                     /* bit i: tree[..][i] is not empty */
};

/* A segment that was given back and got again at once: see arena.c. */
struct returning {
    uint64_t bytes;    /* of the segment given back last */
    uint64_t at_frees; /* that the pool had seen then */
    uint32_t times;    /* in turn that one of this length was asked for soon after */
};

struct pool {
    struct lock lock;
    pthread_mutex_t growth;
    bool closed;        /* serves nothing: destroyed, or broken */
    bool ended;         /* destroyed */
    const char *broken; /* the rule that was found broken, in words; NULL: none */
    struct pool_config config;
    struct backing backing;
    struct metadata metadata;
    struct metadata run_records;     /* memory of a run only ever holds runs, and that of a slab */
    struct metadata slab_records;    /* slabs, until the pool ends: see cache.c */
    struct metadata segment_records; /* never ended: see arena.c */
    struct segment *segments;
    struct segment *spare_segments;
    struct segment *idle_oldest;
    struct segment *idle_newest;
    bool arena_asked;           /* the backing was asked for the first segment */
    bool arena_is_default;      /* its size was not asked for */
    bool scarce;                /* see arena.c; as of the last growth */
    uint64_t segment_max_bytes; /* of one that is not a block's own */
    struct returning returning;
    struct run_index index;
    struct slab_class classes[SIZE_CLASS_COUNT];
    uint32_t empty_slabs;
    struct limbo limbo;
    uint64_t last_serial;
    bool caching;             /* threads may keep blocks: see cache.c. Atomic */
    uint64_t cache_run_bytes; /* of runs that a thread may keep. Atomic */
    uint64_t over_bytes;      /* see over_find() in cache.c. Atomic */
    uint32_t cache_yields;    /* see caches_yield() */
    struct cache *lone;       /* of the only thread that asks; NULL: not known. Atomic */
    const void *lone_thread;  /* that took the lock last, and how often in turn */
    uint32_t lone_turns;
    uint32_t cache_place;     /* which of a thread's caches is this pool's */
    uint64_t releasing_bytes; /* taken out of the map, not yet given back; the limit counts them */
    uint32_t releases;        /* in flight */
    bool pinned;              /* no release may begin: see pool_visit_backed() */
    uint64_t collected;       /* blocks whose fence was found to have passed */
    uint64_t collected_at_lost_patience; /* the same when a wait for fences was last in vain */
    uint32_t unlocked; /* threads that work without the lock and come back to it */
    struct pool_stats stats;
    struct pool_history history;
    uint64_t observed_live_bytes;   /* as of history.last_ns */
    struct pool_together *together; /* NULL: the pool is alone */
    struct pool_together told;      /* the part of `together` that is this pool's */
};

/* --- together.c ---------------------------------------------------------------------------- */

void together_tell(struct pool *pool);

/* The pool ends: its levels are nobody's. */
void together_leave(struct pool *pool);

/* A level changed. The lock is held. */
static inline void levels_changed(struct pool *pool)
{
    if (__builtin_expect(pool->together != NULL, 0))
        together_tell(pool);
}

/* --- history.c ------------------------------------------------------------------------------- */

/* Looks at the levels. Called before the held memory changes. */
void history_observe(struct pool *pool);

/* A level reached its peak. */
void history_peak_live(struct pool *pool);
void history_peak_backed(struct pool *pool);

/* The pool must grow for a request, or refuses it. */
void history_fragmented(struct pool *pool, uint64_t asked_bytes);

/* --- cache.c -------------------------------------------------------------------------------
 *
 * Without the lock: */

/* A block of this size that the calling thread keeps. class_index: -1 for a run of `pages`. */
bool cache_alloc(struct pool *pool, uint64_t bytes, int class_index, uint64_t pages, uint32_t tag,
                 uint64_t *address_out);

/* The block at `address`, if the calling thread handed it out: LIVE -> RELEASING. False: nothing
 * changed, look for it under the lock. */
bool cache_free_begin(struct pool *pool, uint64_t address, struct pool_block *block_out);

/* Keeps a RELEASING block. False: nothing changed. */
bool cache_free_finish(const struct pool_block *block);

/* Gives the calling thread a cache for this pool, if it may have one. */
void cache_bind(struct pool *pool);

/* With the lock held: */

/* A thread's turn begins: counts what it did without the lock, and renews its serial numbers. */
void cache_fold(struct pool *pool);

/* Notes a block that the calling thread was handed, so that its free finds it. */
void cache_note(struct pool *pool, struct run *run, uint32_t slot, uint64_t address);

/* Keeps a block that is in no list, limbo or statistic, if there is room and the budget allows. */
bool cache_keep(struct pool *pool, const struct pool_block *block);

/* Takes some more free slots of a class for the calling thread, if it keeps none. */
void cache_refill(struct pool *pool, int class_index);

/* It looks for a run: gives back the large ones it keeps. */
void cache_yield_large(struct pool *pool);

/* The calling thread could not keep this block: gives back a part of what it keeps of its kind. */
void cache_spill(struct pool *pool, const struct pool_block *block);

/* Keeps the other threads out of their caches until caches_resume(). */
void caches_stop(struct pool *pool);
void caches_resume(struct pool *pool);

/* Between the two: counts what all threads did; and proves what they keep. */
void caches_fold(struct pool *pool);
bool caches_check(struct pool *pool, uint64_t *blocks_out, uint64_t *bytes_out);

/* Gives back what all threads keep, and counts what they did. Returns the blocks. */
uint64_t caches_flush(struct pool *pool);

/* More is held than should be: gives back what the calling thread keeps, and now and then what all
 * do. */
void caches_yield(struct pool *pool);

/* Decides whether threads may keep blocks, when what is held changed, or memory became scarce; if
 * they no longer may, gives back what they do. */
void caches_decide(struct pool *pool);

/* The pool ends, or closes: no thread has a cache for it any more. */
void caches_leave(struct pool *pool);

/* --- buddy.c ------------------------------------------------------------------------------- */

/* The smallest free run of at least `pages` and at most `pages_max`, cut to `pages`; it is in no
 * index and has kind RUN_BLOCK. NULL when there is none, or the host has no memory for the tail's
 * record. */
struct run *buddy_take(struct pool *pool, enum domain domain, uint64_t pages, uint64_t pages_max);

/* The same from the smallest free run of at least `hole_min` (>= pages), at most `hole_max`. */
struct run *buddy_take_from(struct pool *pool, enum domain domain, uint64_t pages,
                            uint64_t hole_min, uint64_t hole_max);

/* Frees a run: merges it with free neighbours. */
void buddy_give(struct pool *pool, struct run *run);

/* Takes `pages` from `first_page` on, which lie in a free run, out of the index (RUN_BLOCK). NULL:
 * the host has no memory, and nothing changed. */
struct run *buddy_carve(struct pool *pool, struct run *run, uint64_t first_page, uint64_t pages);

/* A domain's free runs of at least `pages`, the longest first, until `stop` is true for one, which
 * is returned. At most 64 are looked at. */
struct run *buddy_search(struct pool *pool, enum domain domain, uint64_t pages,
                         bool (*stop)(const struct run *run));

/* Takes a segment that is one gap out of the tables. */
void buddy_segment_end(struct pool *pool, struct segment *segment);

/* Makes a gap one with the gaps beside it. */
void buddy_gap_merge(struct pool *pool, struct run *gap);

/* Cuts a run in use to `pages`, fewer than it has. Returns the rest, in use as well (RUN_BLOCK);
 * NULL: the host has no memory, and nothing changed. */
struct run *buddy_split(struct pool *pool, struct run *run, uint64_t pages);

/* A new segment is one free run. False: the host has no memory. */
bool buddy_segment_add(struct pool *pool, struct segment *segment);

/* Whether a run that is no free one is all that is in its segment. */
bool buddy_segment_alone(const struct segment *segment, const struct run *run);

/* The segment's one free run, if nothing else is in it; else NULL. */
struct run *buddy_segment_idle(const struct segment *segment);

/* Takes an idle segment's run out of the index, and back. */
void buddy_segment_detach(struct pool *pool, struct segment *segment);
void buddy_segment_attach(struct pool *pool, struct segment *segment);

/* The run that contains a page. */
struct run *buddy_run_at(const struct segment *segment, uint64_t page);

/* The longest free run of a domain, in pages. */
uint64_t buddy_longest(const struct pool *pool, enum domain domain);

/* The same of both domains, in bytes. */
uint64_t buddy_largest_bytes(const struct pool *pool);

/* Calls `visit` for every free run. */
void buddy_visit_free(const struct pool *pool, void (*visit)(void *arg, const struct run *run),
                      void *arg);

/* Counts the free runs by order into the statistics. */
void buddy_count(const struct pool *pool, struct pool_stats *stats);

/* --- slab.c ---------------------------------------------------------------------------------- */

/* A free slot of the class. False: no slab has one, and no run could be had (relaxed: from
 * anywhere). */
bool slab_take(struct pool *pool, int class_index, bool relaxed, struct slab **slab_out,
               uint32_t *slot_out);
void slab_give(struct pool *pool, struct slab *slab, uint32_t slot);

/* Gives empty slabs back to the runs. */
void slab_flush(struct pool *pool);

/* The slot that contains a byte of the slab; slots or more: the tail. */
uint32_t slab_slot_at(const struct slab *slab, uint64_t offset_bytes);

/* --- limbo.c --------------------------------------------------------------------------------- */

/* Files a block. False: the host has no memory. */
bool limbo_add(struct pool *pool, const struct pool_block *block, uint64_t stream, uint64_t fence);

/* A pending block that `stream` freed, cut to exactly this size; it is out of limbo, but for the
 * statistics of its slot or run. *fence_out must be dropped without the lock if *drop_out. */
bool limbo_reuse(struct pool *pool, uint64_t stream, uint64_t block_bytes,
                 struct pool_block *block_out, uint64_t *fence_out, bool *drop_out);

/* Waits for every fence that is pending and frees the blocks behind those that passed. Called with
 * no lock. Returns the number of blocks freed. */
uint64_t limbo_wait(struct pool *pool);

/* Drops every fence. Nobody else is inside; called with no lock. */
void limbo_end(struct pool *pool);

/* --- arena.c --------------------------------------------------------------------------------- */

/* Memory that was acquired but could not be used, since the host has none for its records. */
struct arena_unused {
    uint64_t address;
    uint64_t bytes; /* 0: none */
    uint64_t part_bytes;
};

/* Looks how much memory the device has, to grow by `bytes`: sets pool.scarce and segment_max_bytes.
 * Asks the backing; called with pool.growth held and pool.lock not held. */
void arena_look(struct pool *pool, uint64_t bytes);

/* Acquires a segment that can hold `bytes`. Called with pool.growth held and pool.lock not held.
 * exact: no more than needed. False: *unused_out goes to arena_discard(). */
bool arena_grow(struct pool *pool, uint64_t bytes, bool exact, struct arena_unused *unused_out);

/* Gives unused memory back, if any. Called with no lock. */
void arena_discard(struct pool *pool, const struct arena_unused *unused);

/* A segment became idle, or is no longer. */
void arena_idle_add(struct pool *pool, struct segment *segment);
void arena_idle_remove(struct pool *pool, struct segment *segment);

/* Releases idle segments until at most keep_bytes of idle memory is left, or at least want_bytes
 * were released. Called with no lock. Returns the bytes released. */
uint64_t arena_release(struct pool *pool, uint64_t keep_bytes, uint64_t want_bytes);

/* What is held beyond what the slack allows, so that as much of it as is idle is to be given back.
 */
uint64_t arena_over_budget_locked(const struct pool *pool);

/* Whether `bytes` more may be held without another look for memory that is there already: pending
 * frees, holes, parts. */
bool arena_may_grow_locked(const struct pool *pool, uint64_t bytes);

/* Idle bytes over what the slack allows. */
uint64_t arena_excess_locked(const struct pool *pool);

/* Gives an idle segment back. Returns its bytes; 0: the backing did not take it. The lock is held
 * on entry and on return, not in between. */
uint64_t arena_segment_release(struct pool *pool, struct segment *segment);

/* Forgets every segment, giving each back first if so wanted. Nobody else is inside. */
void arena_end(struct pool *pool, bool release_segments);

/* A record is done with, and so are its tables. */
void arena_segment_drop(struct pool *pool, struct segment *segment);
void arena_segment_unlist(struct pool *pool, struct segment *segment);

/* --- parts.c --------------------------------------------------------------------------------- */

/* The parts of a segment of `bytes`. scarce: as small as they can be. 0: the backing has none. */
uint64_t parts_bytes_for(const struct pool *pool, uint64_t bytes, bool scarce);

/* Gives back whole parts of free runs, want_bytes or a little more, or as much as there is. The
 * lock is held on entry and on return, not in between. Returns the bytes. */
uint64_t parts_release(struct pool *pool, uint64_t want_bytes);

/* What parts_release() could give back. Walks all free runs. */
uint64_t parts_releasable_bytes(const struct pool *pool);

/* Addresses under which there is memory. */
struct backed_range {
    uint64_t address;
    uint64_t bytes;
};

/* The next such range of a segment, from *page on: 0 at first, then where the last one ended.
 * False: there is none. */
bool parts_range_next(const struct segment *segment, uint64_t *page,
                      struct backed_range *range_out);

/* Gives back all parts of a segment, and its addresses. Nobody else is inside. */
void parts_release_segment(struct pool *pool, struct segment *segment);

/* --- pool.c ---------------------------------------------------------------------------------- */

/* Closes the pool, which serves nothing from here on. Returns false. */
bool pool_break(struct pool *pool, const char *words);

/* A cheap rule about the metadata. False: it is broken, and the pool closed. */
static inline bool pool_holds(struct pool *pool, bool rule, const char *words)
{
    return __builtin_expect(rule, 1) || pool_break(pool, words);
}

/* Waits until somebody who worked without the lock has ended. The lock is held, and let go
 * meanwhile. */
void pool_settled_wait(struct pool *pool);

/* Waits until memory may go back to the backing. False: the pool is closed. The lock is held, and
 * let go meanwhile. */
bool pool_may_release(struct pool *pool);

/* Ends such work, counted in pool.unlocked. */
void pool_settled_tell(struct pool *pool);

static inline uint64_t run_address(const struct run *run)
{
    return run->segment->address + run->first_page * POOL_PAGE_BYTES;
}

static inline struct block_info *block_info_of(struct run *run, uint32_t slot)
{
    return slot == POOL_SLOT_NONE ? &run->block : &run->slab->slots[slot];
}

static inline uint64_t block_bytes_of(const struct run *run, uint32_t slot)
{
    return slot == POOL_SLOT_NONE ? run->pages * POOL_PAGE_BYTES
                                  : size_class_get((int)run->slab->class_index).slot_bytes;
}

/* block_bytes: of each of the run's blocks. */
static inline uint64_t block_address_of(const struct run *run, uint32_t slot, uint64_t block_bytes)
{
    return run_address(run) + (slot == POOL_SLOT_NONE ? 0 : slot * block_bytes);
}

/* Frees a block that is in no list, limbo or statistic: a cached one, or one that was counted out.
 */
void pool_block_drop_locked(struct pool *pool, struct run *run, uint32_t slot);

/* Describes the block of a run, or of a slot. Inline, since each free does it. */
static inline void pool_block_describe(struct run *run, uint32_t slot, struct pool_block *block)
{
    const struct block_info *info = block_info_of(run, slot);
    const struct segment *segment = run->segment;
    uint64_t word = block_word_get(info), block_bytes = block_bytes_of(run, slot);
    *block = (struct pool_block){.pool = segment->pool,
                                 .address = block_address_of(run, slot, block_bytes),
                                 .requested_bytes =
                                     __atomic_load_n(&info->requested_bytes, __ATOMIC_RELAXED),
                                 .block_bytes = block_bytes,
                                 .serial = word >> BLOCK_STATE_BITS,
                                 .segment_address = segment->part_pages == 0 ? segment->address : 0,
                                 .segment_bytes = segment->bytes,
                                 .state = block_state_of(word),
                                 .tag = __atomic_load_n(&info->tag, __ATOMIC_RELAXED),
                                 .record = run,
                                 .slot = slot};
}

/* Frees a block for anyone: it is RELEASING or PENDING. */
void pool_block_free_locked(struct pool *pool, const struct pool_block *block);

/* The same for a block whose fence has passed; the calling thread may keep it. */
void pool_block_pass_locked(struct pool *pool, const struct pool_block *block);

static inline uint64_t pool_round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* What the driver would take for a block beyond what the pool does. */
static inline uint64_t driver_extra_bytes(uint64_t block_bytes)
{
    return block_bytes <= POOL_MEDIUM_BYTES
               ? 0
               : pool_round_up(block_bytes, BACKING_SEGMENT_ALIGN_BYTES) - block_bytes;
}

#endif
