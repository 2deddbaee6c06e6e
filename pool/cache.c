/* cache.c - what each thread keeps of a pool for its next requests, without a lock.
 *
 * A thread has a cache a pool: slots by size class (a magazine each), runs of up to 1 MiB by their
 * exact length, some larger ones while it is the only thread that asks, and notes of the blocks it
 * was handed, by address. A request that finds a block here, the beginning of a free that finds its
 * note, and its end where there is room touch nothing that other threads write: no lock, no shared
 * counter. What was done is counted here and added to the pool's statistics when the thread next
 * takes the lock, or when somebody looks.
 *
 * Whoever has to know, or needs the memory (the ladder before it grows, pool_check(), every reader
 * of statistics), stops the other threads' caches under pool.lock: it sets `claimed`, makes every
 * thread pass a fence (asymmetric.h), and waits for `busy` to be clear, some twenty instructions
 * away. The thread itself sets `busy`, then looks at `claimed`, and goes the locked way if it is
 * set. With pool.lock held a thread may use its own cache as it is, since claiming needs that lock;
 * while busy it must not take a lock. A signal handler that interrupts the thread while it is busy
 * finds `busy` set and goes the locked way.
 *
 * A note leads to a block's record without a look-up. The block may have been freed by another
 * thread since, and its record may stand for another block or none; so the free's beginning is one
 * compare-and-swap of serial number and state, and memory of runs and slabs never becomes anything
 * else while the pool lives.
 *
 * The lone thread is the one whose last LONE_TURNS turns under the lock no other thread's came
 * between. Its larger runs go back when another thread takes the lock, when it looks for
 * a run under the lock itself (the choice among holes is then the same as if it kept none; without
 * that, blocks of many sizes needed half as much again), and wherever all that is kept does. So the
 * levels, which large blocks move most, stay exact.
 *
 * Nothing is kept (pool.caching is false) where memory is scarce and where several pools add up
 * their levels. Where what is held exceeds what the slack allows, a free that takes the lock gives
 * back what its thread keeps, and one in 64 what all threads keep, so that a segment does not stay
 * for the sake of a few kept blocks. The levels' highest values are exact for one thread; with more
 * they may be off by what each of their caches can hold of small blocks, about 5 MiB.
 *
 * Source of the ideas: Bonwick and Adams, "Magazines and Vmem" (USENIX 2001), for magazines; the
 * kernel's sys_membarrier for the fence. What it leaves out: requests that a stream orders, and the
 * beginning of frees that wait for the GPU; a thread that finds such a block's fence passed may
 * keep it. Locks: `spare_lock` for the list of caches no thread owns, never taken together with
 * another; else see above.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "asymmetric.h"
#include "pool_internal.h"

enum {
    NOTES_BITS = 8,
    NOTES = 1 << NOTES_BITS,
    SLOTS_MAX = 16,     /* of a class */
    SLOTS_TOGETHER = 4, /* whose records should be one thread's, since processors move two cache
                           lines at a time between them */
    RUN_SETS_BITS = 5,
    RUN_SETS = 1 << RUN_SETS_BITS,
    RUN_WAYS = 4,
    RUN_LARGE = RUN_SETS, /* the set of the larger ones */
    LONE_TURNS = 32,
    WAIT_NAPS_MAX = 1000,
    YIELDS = 64
};

#define SLOTS_BYTES     ((uint64_t)32 << 10) /* of a class that a thread may keep, 4 slots at least */
#define RUN_BYTES_MAX   ((uint64_t)4 << 20)
#define RUN_BYTES_SHARE 32 /* of what the pool holds */
#define WAIT_NAP_NS     100000L
#define SERIALS         ((uint64_t)4096) /* taken at a time */

/* What every free passes is inlined, though the compiler would leave it out of line where there is
 * more than one caller: 4 of the 23 ns of a pair. */
#define HOT __attribute__((always_inline))

struct kept {
    uint64_t address;
    struct run *run;
    uint32_t slot;
};

struct magazine {
    uint32_t count;
    struct kept block[SLOTS_MAX];
};

struct run_set {
    struct kept block[RUN_WAYS];
    uint64_t pages[RUN_WAYS]; /* 0: none */
};

struct note {
    uint64_t address; /* 0: none */
    uint64_t word;    /* LIVE */
    struct block_info *info;
    struct run *run;
    uint32_t slot;
};

/* How far a level went since it was last added to the statistics, and the most that was. */
struct change {
    int64_t now;
    int64_t high;
};

struct class_change {
    uint64_t allocations;
    int64_t slots_live;
    int64_t slots_limbo;
    int64_t requested_bytes;
};

struct changes {
    bool any;
    uint32_t classes; /* bit i: class[i] is not zero */
    uint64_t allocations;
    uint64_t frees;
    uint64_t requested_bytes;
    struct change live_blocks;
    struct change live_requested_bytes;
    struct change live_block_bytes;
    int64_t driver_extra_bytes; /* of large blocks: see driver_extra_bytes() */
    int64_t limbo_blocks;
    struct change limbo_bytes;
    struct class_change class[SIZE_CLASS_COUNT];
};

struct cache {
    _Alignas(64) uint32_t busy; /* the thread is at it */
    uint32_t claimed;           /* somebody else wants to be */
    struct pool *pool;          /* NULL: none. Changes with that pool's lock held, or from NULL */
    uint64_t blocks;            /* that are kept; others may read it */
    uint64_t run_bytes;         /* of runs that are kept, without the larger ones */
    uint64_t serial;            /* the last one given; up to serial_end are this cache's */
    uint64_t serial_end;
    struct changes changes;
    bool stopped; /* by who claimed it: the thread is known to stay out */
    struct cache *next;
    struct cache *next_spare;
    struct magazine slots[SIZE_CLASS_COUNT];
    struct run_set runs[RUN_SETS + 1];
    struct note notes[NOTES];
};

static struct cache *all_caches; /* grows only */
static struct cache *spare_caches;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* its destructor ends a thread's caches */
static bool key_made;
static __thread struct cache *mine[POOL_CACHE_PLACES];

static struct cache *cache_of(const struct pool *pool)
{
    struct cache *cache = mine[pool->cache_place];
    return cache != NULL && __atomic_load_n(&cache->pool, __ATOMIC_RELAXED) == pool ? cache : NULL;
}

/* The calling thread's cache, with the pool's lock held; NULL: none, or this is a signal handler
 * amid its use. */
static struct cache *cache_own(const struct pool *pool)
{
    struct cache *cache = cache_of(pool);
    return cache != NULL && __atomic_load_n(&cache->busy, __ATOMIC_RELAXED) == 0 ? cache : NULL;
}

static bool cache_enter(struct cache *cache)
{
    if (__atomic_load_n(&cache->busy, __ATOMIC_RELAXED) != 0)
        return false;
    __atomic_store_n(&cache->busy, 1, __ATOMIC_RELAXED);
    asymmetric_fence_light();
    if (__builtin_expect(__atomic_load_n(&cache->claimed, __ATOMIC_ACQUIRE) == 0, 1))
        return true;
    __atomic_store_n(&cache->busy, 0, __ATOMIC_RELEASE);
    return false;
}

static void cache_leave(struct cache *cache)
{
    __atomic_store_n(&cache->busy, 0, __ATOMIC_RELEASE);
}

static bool caching(const struct pool *pool)
{
    return __atomic_load_n(&pool->caching, __ATOMIC_RELAXED);
}

/* The thread is the lone one, which may keep larger runs. */
static bool lone(const struct cache *cache)
{
    return __atomic_load_n(&cache->pool->lone, __ATOMIC_RELAXED) == cache;
}

/* --- counting --------------------------------------------------------------------------------- */

static void change_by(struct change *change, int64_t by)
{
    change->now += by;
    if (change->now > change->high)
        change->high = change->now;
}

static struct class_change *class_change_of(struct cache *cache, int class_index)
{
    cache->changes.classes |= (uint32_t)1 << class_index;
    return &cache->changes.class[class_index];
}

static void count_alloc(struct cache *cache, int class_index, uint64_t requested_bytes,
                        uint64_t block_bytes)
{
    struct changes *changes = &cache->changes;
    changes->any = true;
    changes->allocations++;
    changes->requested_bytes += requested_bytes;
    change_by(&changes->live_blocks, 1);
    change_by(&changes->live_requested_bytes, (int64_t)requested_bytes);
    change_by(&changes->live_block_bytes, (int64_t)block_bytes);
    if (class_index >= 0) {
        struct class_change *class = class_change_of(cache, class_index);
        class->allocations++;
        class->slots_live++;
        class->requested_bytes += (int64_t)requested_bytes;
    } else {
        changes->driver_extra_bytes += (int64_t)driver_extra_bytes(block_bytes);
    }
}

static void count_free_begin(struct cache *cache, int class_index, uint64_t requested_bytes,
                             uint64_t block_bytes)
{
    struct changes *changes = &cache->changes;
    changes->any = true;
    changes->live_blocks.now--;
    changes->live_requested_bytes.now -= (int64_t)requested_bytes;
    changes->live_block_bytes.now -= (int64_t)block_bytes;
    changes->limbo_blocks++;
    change_by(&changes->limbo_bytes, (int64_t)block_bytes);
    if (class_index >= 0) {
        struct class_change *class = class_change_of(cache, class_index);
        class->slots_live--;
        class->slots_limbo++;
        class->requested_bytes -= (int64_t)requested_bytes;
    } else {
        changes->driver_extra_bytes -= (int64_t)driver_extra_bytes(block_bytes);
    }
}

static void count_free_finish(struct cache *cache, int class_index, uint64_t block_bytes)
{
    struct changes *changes = &cache->changes;
    changes->any = true;
    changes->frees++;
    changes->limbo_blocks--;
    changes->limbo_bytes.now -= (int64_t)block_bytes;
    if (class_index >= 0)
        class_change_of(cache, class_index)->slots_limbo--;
}

static void level_fold(uint64_t *level, uint64_t *peak, struct change *change)
{
    int64_t high = (int64_t)*level + change->high;
    if (high > (int64_t)*peak)
        *peak = (uint64_t)high;
    *level += (uint64_t)change->now;
    *change = (struct change){0};
}

static void classes_fold(struct pool_stats *stats, struct changes *changes)
{
    for (uint32_t bits = changes->classes; bits != 0; bits &= bits - 1) {
        int i = __builtin_ctz(bits);
        struct class_change *class = &changes->class[i];
        stats->classes[i].allocations += class->allocations;
        stats->classes[i].slots_live += (uint64_t) class->slots_live;
        stats->classes[i].slots_limbo += (uint64_t) class->slots_limbo;
        stats->classes[i].requested_bytes += (uint64_t) class->requested_bytes;
        *class = (struct class_change){0};
    }
    changes->classes = 0;
}

/* The most is not known exactly where large blocks came and went: taken to be the most of both
 * parts together. */
static void driver_fold(struct pool *pool, struct changes *changes)
{
    struct pool_stats *stats = &pool->stats;
    struct change change = {.now = changes->live_block_bytes.now + changes->driver_extra_bytes,
                            .high = changes->live_block_bytes.high};
    if (changes->driver_extra_bytes > 0)
        change.high += changes->driver_extra_bytes;
    level_fold(&stats->driver_live_bytes, &stats->peak_driver_live_bytes, &change);
    changes->driver_extra_bytes = 0;
}

static void changes_fold(struct pool *pool, struct changes *changes)
{
    struct pool_stats *stats = &pool->stats;
    if (!changes->any)
        return;
    stats->allocations += changes->allocations;
    stats->frees += changes->frees;
    stats->requested_bytes += changes->requested_bytes;
    stats->internal_waste_bytes +=
        (uint64_t)(changes->live_block_bytes.now - changes->live_requested_bytes.now);
    stats->limbo_blocks += (uint64_t)changes->limbo_blocks;
    level_fold(&stats->live_blocks, &stats->peak_live_blocks, &changes->live_blocks);
    level_fold(&stats->live_requested_bytes, &stats->peak_live_requested_bytes,
               &changes->live_requested_bytes);
    driver_fold(pool, changes);
    uint64_t peak_bytes = stats->peak_live_block_bytes;
    level_fold(&stats->live_block_bytes, &stats->peak_live_block_bytes, &changes->live_block_bytes);
    if (stats->peak_live_block_bytes != peak_bytes)
        history_peak_live(pool);
    level_fold(&stats->limbo_bytes, &stats->peak_limbo_bytes, &changes->limbo_bytes);
    classes_fold(stats, changes);
    changes->allocations = changes->frees = changes->requested_bytes = 0;
    changes->limbo_blocks = 0;
    changes->any = false;
    levels_changed(pool);
}

/* --- notes ---------------------------------------------------------------------------------------
 */

static struct note *note_at(struct cache *cache, uint64_t address)
{
    uint64_t hash = address / POOL_PAGE_BYTES * UINT64_C(0x9E3779B97F4A7C15);
    return &cache->notes[hash >> (64 - NOTES_BITS)];
}

static void note_set(struct cache *cache, const struct kept *kept, uint64_t word)
{
    *note_at(cache, kept->address) = (struct note){.address = kept->address,
                                                   .word = word,
                                                   .info = block_info_of(kept->run, kept->slot),
                                                   .run = kept->run,
                                                   .slot = kept->slot};
}

void cache_note(struct pool *pool, struct run *run, uint32_t slot, uint64_t address)
{
    struct cache *cache = cache_own(pool);
    struct kept handed = {address, run, slot};
    if (cache != NULL && (block_bytes_of(run, slot) <= POOL_KEPT_BYTES_MAX || lone(cache)))
        note_set(cache, &handed, block_word_get(block_info_of(run, slot)));
}

/* --- what is kept --------------------------------------------------------------------------------
 */

static uint32_t slots_max(int class_index)
{
    uint32_t slots = (uint32_t)(SLOTS_BYTES / size_class_get(class_index).slot_bytes);
    return slots < SLOTS_MAX ? slots : SLOTS_MAX;
}

static bool large(uint64_t pages)
{
    return pages > POOL_KEPT_BYTES_MAX / POOL_PAGE_BYTES;
}

/* What a run adds to cache.run_bytes. */
static uint64_t run_counted(uint64_t pages)
{
    return large(pages) ? 0 : pages * POOL_PAGE_BYTES;
}

static struct run_set *run_set_of(struct cache *cache, uint64_t pages)
{
    if (large(pages))
        return &cache->runs[RUN_LARGE];
    uint64_t hash = pages * UINT64_C(0x9E3779B97F4A7C15);
    return &cache->runs[hash >> (64 - RUN_SETS_BITS)];
}

static void blocks_by(struct cache *cache, uint64_t by)
{
    __atomic_store_n(&cache->blocks, cache->blocks + by, __ATOMIC_RELAXED);
}

static bool slot_pop(struct cache *cache, int class_index, struct kept *kept_out)
{
    struct magazine *magazine = &cache->slots[class_index];
    if (magazine->count == 0)
        return false;
    *kept_out = magazine->block[--magazine->count];
    return true;
}

static inline HOT bool slot_push(struct cache *cache, int class_index, const struct kept *kept)
{
    struct magazine *magazine = &cache->slots[class_index];
    if (magazine->count >= slots_max(class_index))
        return false;
    magazine->block[magazine->count++] = *kept;
    return true;
}

static bool run_pop(struct cache *cache, uint64_t pages, struct kept *kept_out)
{
    struct run_set *set = run_set_of(cache, pages);
    for (int way = 0; way < RUN_WAYS; way++) {
        if (set->pages[way] != pages)
            continue;
        *kept_out = set->block[way];
        set->pages[way] = 0;
        cache->run_bytes -= run_counted(pages);
        return true;
    }
    return false;
}

/* Whether nothing would go back to the driver if the lone thread freed a large run: see
 * over_find(). Above POOL_LARGE_BYTES it has a segment to itself. */
static bool large_fits(const struct cache *cache, uint64_t bytes)
{
    uint64_t over_bytes = __atomic_load_n(&cache->pool->over_bytes, __ATOMIC_RELAXED);
    return lone(cache) && (over_bytes == 0 || (bytes > POOL_LARGE_BYTES && bytes > over_bytes));
}

static bool run_fits(const struct cache *cache, uint64_t pages)
{
    uint64_t bytes_max = __atomic_load_n(&cache->pool->cache_run_bytes, __ATOMIC_RELAXED);
    uint64_t bytes = pages * POOL_PAGE_BYTES;
    return large(pages) ? large_fits(cache, bytes) : cache->run_bytes + bytes <= bytes_max;
}

static inline HOT bool run_push(struct cache *cache, uint64_t pages, const struct kept *kept)
{
    if (!run_fits(cache, pages))
        return false;
    struct run_set *set = run_set_of(cache, pages);
    for (int way = 0; way < RUN_WAYS; way++) {
        if (set->pages[way] != 0)
            continue;
        set->block[way] = *kept;
        set->pages[way] = pages;
        cache->run_bytes += run_counted(pages);
        return true;
    }
    return false;
}

static int class_of(const struct run *run, uint32_t slot)
{
    return slot == POOL_SLOT_NONE ? -1 : (int)run->slab->class_index;
}

/* Keeps a free block. class_index: -1 for a run. False: there is no room. */
static inline HOT bool kept_push(struct cache *cache, int class_index, const struct kept *kept)
{
    if (class_index >= 0 ? !slot_push(cache, class_index, kept)
                         : !run_push(cache, kept->run->pages, kept))
        return false;
    block_state_set(block_info_of(kept->run, kept->slot), POOL_BLOCK_CACHED);
    blocks_by(cache, 1);
    return true;
}

/* --- without the lock ----------------------------------------------------------------------------
 */

bool cache_alloc(struct pool *pool, uint64_t bytes, int class_index, uint64_t pages, uint32_t tag,
                 uint64_t *address_out)
{
    struct cache *cache = cache_of(pool);
    struct kept kept;
    if (cache == NULL || !cache_enter(cache))
        return false;
    bool taken =
        caching(pool) && cache->serial < cache->serial_end &&
        (class_index >= 0 ? slot_pop(cache, class_index, &kept) : run_pop(cache, pages, &kept));
    if (taken) {
        uint64_t word = block_word(++cache->serial, POOL_BLOCK_LIVE);
        uint64_t block_bytes =
            class_index >= 0 ? size_class_get(class_index).slot_bytes : pages * POOL_PAGE_BYTES;
        block_info_set(block_info_of(kept.run, kept.slot), word, bytes, tag);
        blocks_by(cache, UINT64_MAX);
        count_alloc(cache, class_index, bytes, block_bytes);
        note_set(cache, &kept, word);
        *address_out = kept.address;
    }
    cache_leave(cache);
    return taken;
}

bool cache_free_begin(struct pool *pool, uint64_t address, struct pool_block *block_out)
{
    struct cache *cache = cache_of(pool);
    if (cache == NULL || !cache_enter(cache))
        return false;
    struct note *note = note_at(cache, address);
    bool begun = false;
    if (note->address == address && caching(pool)) {
        uint64_t word = note->word;
        uint64_t releasing = block_word(word >> BLOCK_STATE_BITS, POOL_BLOCK_RELEASING);
        begun = __atomic_compare_exchange_n(&note->info->word, &word, releasing, false,
                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
        if (begun) {
            pool_block_describe(note->run, note->slot, block_out);
            count_free_begin(cache, class_of(note->run, note->slot), block_out->requested_bytes,
                             block_out->block_bytes);
        }
        note->address = 0;
    }
    cache_leave(cache);
    return begun;
}

bool cache_free_finish(const struct pool_block *block)
{
    struct pool *pool = block->pool;
    struct cache *cache = cache_of(pool);
    struct run *run = block->record;
    if (cache == NULL || !cache_enter(cache))
        return false;
    bool kept = false;
    uint64_t releasing = block_word(block->serial, POOL_BLOCK_RELEASING);
    if (caching(pool) && block_word_get(block_info_of(run, block->slot)) == releasing) {
        int class_index = class_of(run, block->slot);
        struct kept entry = {block->address, run, block->slot};
        kept = kept_push(cache, class_index, &entry);
        if (kept)
            count_free_finish(cache, class_index, block->block_bytes);
    }
    cache_leave(cache);
    return kept;
}

/* --- with the lock, the thread's own -------------------------------------------------------------
 */

bool cache_keep(struct pool *pool, const struct pool_block *block)
{
    struct cache *cache = cache_own(pool);
    struct kept kept = {block->address, block->record, block->slot};
    return cache != NULL && caching(pool) && arena_may_grow_locked(pool, 0) &&
           block->block_bytes <= POOL_KEPT_BYTES_MAX &&
           kept_push(cache, class_of(kept.run, kept.slot), &kept);
}

void cache_refill(struct pool *pool, int class_index)
{
    struct cache *cache = cache_own(pool);
    if (cache == NULL || !caching(pool))
        return;
    if (cache->slots[class_index].count > 0)
        return;
    struct slab *slab;
    struct kept kept = {0};
    uint32_t half = slots_max(class_index) / 2;
    for (uint32_t i = 0; i < half || (i < 2 * half && (kept.slot + 1) % SLOTS_TOGETHER != 0); i++) {
        if (pool->classes[class_index].partial == NULL ||
            !slab_take(pool, class_index, false, &slab, &kept.slot))
            break;
        kept.run = slab->run;
        kept.address =
            block_address_of(kept.run, kept.slot, size_class_get(class_index).slot_bytes);
        kept_push(cache, class_index, &kept);
    }
}

/* Gives the oldest slots of a class back until `keep` are left. Returns how many. */
static uint64_t magazine_drain(struct pool *pool, struct cache *cache, int class_index,
                               uint32_t keep)
{
    struct magazine *magazine = &cache->slots[class_index];
    if (magazine->count <= keep)
        return 0;
    uint32_t drained = magazine->count - keep;
    for (uint32_t i = 0; i < drained; i++)
        pool_block_drop_locked(pool, magazine->block[i].run, magazine->block[i].slot);
    for (uint32_t i = 0; i < keep; i++)
        magazine->block[i] = magazine->block[drained + i];
    magazine->count = keep;
    blocks_by(cache, -(uint64_t)drained);
    return drained;
}

static uint64_t run_set_drain(struct pool *pool, struct cache *cache, struct run_set *set)
{
    uint64_t drained = 0;
    for (int way = 0; way < RUN_WAYS; way++) {
        if (set->pages[way] == 0)
            continue;
        pool_block_drop_locked(pool, set->block[way].run, POOL_SLOT_NONE);
        cache->run_bytes -= run_counted(set->pages[way]);
        set->pages[way] = 0;
        drained++;
    }
    blocks_by(cache, -drained);
    return drained;
}

static uint64_t run_sets_drain(struct pool *pool, struct cache *cache)
{
    uint64_t drained = 0;
    for (int i = 0; i < RUN_SETS && cache->run_bytes > 0; i++)
        drained += run_set_drain(pool, cache, &cache->runs[i]);
    return drained;
}

static uint64_t cache_drain(struct pool *pool, struct cache *cache)
{
    uint64_t drained = run_sets_drain(pool, cache);
    drained += run_set_drain(pool, cache, &cache->runs[RUN_LARGE]);
    for (int i = 0; i < SIZE_CLASS_COUNT && cache->blocks > 0; i++)
        drained += magazine_drain(pool, cache, i, 0);
    return drained;
}

void cache_spill(struct pool *pool, const struct pool_block *block)
{
    struct cache *cache = cache_own(pool);
    if (cache == NULL || !caching(pool))
        return;
    int class_index = class_of(block->record, block->slot);
    if (block->block_bytes > POOL_KEPT_BYTES_MAX)
        run_set_drain(pool, cache, &cache->runs[RUN_LARGE]);
    else if (class_index < 0)
        run_sets_drain(pool, cache);
    else if (cache->slots[class_index].count >= slots_max(class_index))
        magazine_drain(pool, cache, class_index, slots_max(class_index) / 2);
}

void cache_yield_large(struct pool *pool)
{
    struct cache *cache = pool->lone;
    if (cache != NULL && cache == cache_own(pool))
        run_set_drain(pool, cache, &cache->runs[RUN_LARGE]);
}

/* --- with the lock, everybody's ------------------------------------------------------------------
 */

static struct cache *caches_first(void)
{
    return __atomic_load_n(&all_caches, __ATOMIC_ACQUIRE);
}

static bool serves(const struct cache *cache, const struct pool *pool)
{
    return __atomic_load_n(&cache->pool, __ATOMIC_RELAXED) == pool;
}

/* The first of a pool's caches from `cache` on. */
static struct cache *serving(struct cache *cache, const struct pool *pool)
{
    while (cache != NULL && !serves(cache, pool))
        cache = cache->next;
    return cache;
}

#define EACH_CACHE(c, pool)                                                                        \
    struct cache *c = serving(caches_first(), pool);                                               \
    c != NULL;                                                                                     \
    c = serving((c)->next, pool)

/* Waits until the thread is out. False: it does not come out (it was stopped amid its use). */
static bool busy_wait(const struct cache *cache)
{
    struct timespec nap = {.tv_nsec = WAIT_NAP_NS};
    for (int naps = 0; naps < WAIT_NAPS_MAX; naps++) {
        for (int turns = 0; turns < 100; turns++)
            if (__atomic_load_n(&cache->busy, __ATOMIC_ACQUIRE) == 0)
                return true;
        if (naps < 10)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    return false;
}

void caches_stop(struct pool *pool)
{
    const struct cache *own = cache_of(pool);
    bool any = false;
    for (EACH_CACHE(c, pool)) {
        c->stopped = c == own && __atomic_load_n(&c->busy, __ATOMIC_RELAXED) == 0;
        if (c != own) {
            __atomic_store_n(&c->claimed, 1, __ATOMIC_RELAXED);
            any = true;
        }
    }
    if (!any)
        return;
    asymmetric_fence_heavy();
    for (EACH_CACHE(c, pool))
        if (c != own)
            c->stopped = busy_wait(c);
}

void caches_resume(struct pool *pool)
{
    for (EACH_CACHE(c, pool)) {
        c->stopped = false;
        __atomic_store_n(&c->claimed, 0, __ATOMIC_RELEASE);
    }
}

void caches_fold(struct pool *pool)
{
    for (EACH_CACHE(c, pool))
        if (c->stopped)
            changes_fold(pool, &c->changes);
}

/* Whether a block is what its keeper takes it for. */
static bool kept_check(const struct kept *kept, uint64_t *blocks, uint64_t *bytes)
{
    struct pool_block block;
    if (kept->run->kind != (kept->slot == POOL_SLOT_NONE ? RUN_BLOCK : RUN_SLAB))
        return false;
    pool_block_describe(kept->run, kept->slot, &block);
    *blocks += 1;
    *bytes += block.block_bytes;
    return block.state == POOL_BLOCK_CACHED && block.address == kept->address;
}

static bool cache_check(const struct cache *cache, uint64_t *blocks, uint64_t *bytes)
{
    uint64_t before = *blocks, run_bytes = 0;
    bool right = true;
    for (int i = 0; i < RUN_SETS + 1; i++) {
        for (int way = 0; way < RUN_WAYS; way++) {
            const struct run_set *set = &cache->runs[i];
            if (set->pages[way] == 0)
                continue;
            right = right && kept_check(&set->block[way], blocks, bytes) &&
                    set->block[way].run->pages == set->pages[way] &&
                    large(set->pages[way]) == (i == RUN_LARGE);
            run_bytes += run_counted(set->pages[way]);
        }
    }
    for (int i = 0; i < SIZE_CLASS_COUNT; i++)
        for (uint32_t j = 0; j < cache->slots[i].count; j++)
            right = right && kept_check(&cache->slots[i].block[j], blocks, bytes);
    return right && run_bytes == cache->run_bytes && *blocks - before == cache->blocks;
}

bool caches_check(struct pool *pool, uint64_t *blocks_out, uint64_t *bytes_out)
{
    bool right = true;
    *blocks_out = *bytes_out = 0;
    for (EACH_CACHE(c, pool))
        if (c->stopped)
            right = cache_check(c, blocks_out, bytes_out) && right;
    return right;
}

uint64_t caches_flush(struct pool *pool)
{
    uint64_t drained = 0;
    caches_stop(pool);
    for (EACH_CACHE(c, pool)) {
        if (!c->stopped)
            continue;
        changes_fold(pool, &c->changes);
        drained += cache_drain(pool, c);
    }
    caches_resume(pool);
    return drained;
}

/* --- the lone thread, with the lock
 * ---------------------------------------------------------------
 */

/* What is held beyond the budget, and would go back if a segment no longer than that became idle.
 * UINT64_MAX: some is idle already, or memory goes back in parts, which a kept block might pin. */
static void over_find(struct pool *pool)
{
    bool keeps_none = arena_excess_locked(pool) > 0 ||
                      (pool->backing.acquire_parts != NULL && !arena_may_grow_locked(pool, 0));
    uint64_t over_bytes = keeps_none ? UINT64_MAX : arena_over_budget_locked(pool);
    if (pool->over_bytes != over_bytes)
        __atomic_store_n(&pool->over_bytes, over_bytes, __ATOMIC_RELAXED);
}

static void large_notes_drop(struct cache *cache)
{
    for (int i = 0; i < NOTES; i++) {
        struct note *note = &cache->notes[i];
        if (note->address != 0 && note->slot == POOL_SLOT_NONE && large(note->run->pages))
            note->address = 0;
    }
}

static void lone_end(struct pool *pool)
{
    struct cache *cache = pool->lone;
    if (cache == NULL)
        return;
    caches_stop(pool);
    __atomic_store_n(&pool->lone, NULL, __ATOMIC_RELAXED);
    if (cache->stopped) {
        changes_fold(pool, &cache->changes);
        run_set_drain(pool, cache, &cache->runs[RUN_LARGE]);
        large_notes_drop(cache);
    }
    caches_resume(pool);
}

/* Whether the calling thread, whose turn it is, is still the lone one, or is so from now on. */
static void lone_find(struct pool *pool, struct cache *cache)
{
    if (__builtin_expect(pool->lone_thread != mine, 0)) {
        pool->lone_thread = mine;
        pool->lone_turns = 0;
        lone_end(pool);
    } else if (pool->lone == NULL && cache != NULL && ++pool->lone_turns >= LONE_TURNS) {
        __atomic_store_n(&pool->lone, cache, __ATOMIC_RELAXED);
    }
}

void cache_fold(struct pool *pool)
{
    struct cache *cache = cache_own(pool);
    lone_find(pool, cache);
    if (cache == NULL)
        return;
    changes_fold(pool, &cache->changes);
    if (pool->lone == cache)
        over_find(pool);
    if (cache->serial == cache->serial_end) {
        cache->serial = pool->last_serial;
        pool->last_serial += SERIALS;
        cache->serial_end = pool->last_serial;
    }
}

void caches_decide(struct pool *pool)
{
    bool wanted = !pool->closed && !pool->config.uncached && !pool->scarce &&
                  pool->together == NULL && asymmetric_ready();
    uint64_t run_bytes = pool->stats.backed_bytes / RUN_BYTES_SHARE;
    run_bytes = run_bytes < RUN_BYTES_MAX ? run_bytes : RUN_BYTES_MAX;
    if (pool->cache_run_bytes != run_bytes)
        __atomic_store_n(&pool->cache_run_bytes, run_bytes, __ATOMIC_RELAXED);
    over_find(pool);
    if (wanted == pool->caching)
        return;
    __atomic_store_n(&pool->caching, wanted, __ATOMIC_RELAXED);
    if (!wanted)
        caches_flush(pool);
}

void caches_yield(struct pool *pool)
{
    struct cache *own = cache_own(pool);
    if (own != NULL)
        cache_drain(pool, own);
    if (++pool->cache_yields % YIELDS == 0)
        caches_flush(pool);
}

/* Nobody's, and empty: what it kept went back, or is gone with its pool. */
static void cache_reset(struct cache *cache)
{
    memset(cache->slots, 0, sizeof(cache->slots));
    memset(cache->runs, 0, sizeof(cache->runs));
    memset(cache->notes, 0, sizeof(cache->notes));
    cache->blocks = cache->run_bytes = cache->serial = cache->serial_end = 0;
    __atomic_store_n(&cache->pool, NULL, __ATOMIC_RELAXED);
    cache->stopped = false;
    __atomic_store_n(&cache->claimed, 0, __ATOMIC_RELEASE);
}

void caches_leave(struct pool *pool)
{
    __atomic_store_n(&pool->caching, false, __ATOMIC_RELAXED);
    caches_stop(pool);
    caches_fold(pool);
    pool->lone = NULL;
    for (EACH_CACHE(c, pool)) {
        if (!c->stopped)
            continue;
        cache_reset(c);
    }
    caches_resume(pool);
}

/* --- threads -----------------------------------------------------------------------------------
 */

/* A cache that no thread owns, or a new one. NULL: the host has no memory, or another thread looks
 * for one at this moment (which after a fork is so for ever). */
static struct cache *cache_get(void)
{
    if (pthread_mutex_trylock(&spare_lock) != 0)
        return NULL;
    struct cache *cache = spare_caches;
    if (cache != NULL)
        spare_caches = cache->next_spare;
    pthread_mutex_unlock(&spare_lock);
    if (cache != NULL)
        return cache;
    cache = metadata_map(sizeof(*cache));
    if (cache == NULL)
        return NULL;
    cache->next = caches_first();
    while (!__atomic_compare_exchange_n(&all_caches, &cache->next, cache, true, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
    }
    return cache;
}

static void cache_return(struct cache *cache)
{
    pthread_mutex_lock(&spare_lock);
    cache->next_spare = spare_caches;
    spare_caches = cache;
    pthread_mutex_unlock(&spare_lock);
}

/* Gives back what the thread keeps of its pool. Where the thread was ended amid its use (by an
 * asynchronous cancellation), the blocks are lost rather than handed out twice. */
static void cache_end(struct cache *cache)
{
    struct pool *pool = __atomic_load_n(&cache->pool, __ATOMIC_RELAXED);
    if (pool == NULL)
        return;
    lock_take(&pool->lock);
    if (serves(cache, pool) && !pool->closed &&
        __atomic_load_n(&cache->busy, __ATOMIC_RELAXED) == 0) {
        if (pool->lone == cache)
            __atomic_store_n(&pool->lone, NULL, __ATOMIC_RELAXED);
        changes_fold(pool, &cache->changes);
        cache_drain(pool, cache);
        cache_reset(cache);
    }
    lock_give(&pool->lock);
}

/* The thread ends. */
static void thread_end(void *places)
{
    struct cache **caches = places;
    for (int i = 0; i < POOL_CACHE_PLACES; i++) {
        struct cache *cache = caches[i];
        if (cache == NULL)
            continue;
        cache_end(cache);
        caches[i] = NULL;
        if (__atomic_load_n(&cache->pool, __ATOMIC_RELAXED) == NULL)
            cache_return(cache); /* else nobody owns it from here on */
    }
}

static void key_make(void)
{
    key_made = pthread_key_create(&key, thread_end) == 0;
}

void cache_bind(struct pool *pool)
{
    struct cache **place = &mine[pool->cache_place];
    if (!caching(pool) || cache_of(pool) != NULL)
        return;
    if (*place != NULL && __atomic_load_n(&(*place)->pool, __ATOMIC_RELAXED) != NULL)
        return; /* it is another pool's, which lives */
    pthread_once(&key_once, key_make);
    if (*place == NULL && key_made && pthread_setspecific(key, mine) == 0)
        *place = cache_get();
    if (*place == NULL)
        return;
    lock_take(&pool->lock);
    if (!pool->closed)
        __atomic_store_n(&(*place)->pool, pool, __ATOMIC_RELAXED);
    lock_give(&pool->lock);
}
