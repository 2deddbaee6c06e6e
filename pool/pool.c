/* pool.c - routes requests by size, frees by address, and climbs the ladder on a miss.
 *
 * Up to 8 KiB a request is a slot of a slab, above that a run of pages. What the thread keeps
 * (cache.c) is handed out without a lock; another hit takes pool.lock once. A miss climbs, one
 * thread at a time:
 *
 *   0. what all threads keep is given back
 *   1. finished fences are collected                     (no waiting, unless config.patience_us
 * says so)
 *   2. the backing is asked for a segment
 *   3. empty slabs are given back, and any hole that fits is taken, the large ones kept for large
 *      blocks included
 *   4. idle segments are given back, and the backing is asked for exactly this much
 *   5. pending fences are waited for
 *   6. releases and collections of other threads are waited for; 4 to 6 again if anything came back
 *
 * Steps 4 to 6 may wait for the GPU; they are climbed only when the alternative is failing, without
 * the growth lock, so that other threads may still grow.
 *
 * What it leaves out: where memory comes from (backing.h). Locks: growth, then lock; see
 * pool_internal.h.
 */
#define _GNU_SOURCE
#include "pool_internal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define ARENA_DEFAULT_BYTES ((uint64_t)32 << 20)
#define HUGE_HOLE_BYTES     ((uint64_t)1 << 30)
#define READ_WAIT_NS        100000000L
#define SETTLE_NAP_NS       100000L
#define ROUNDS_MAX          16
#define VISIT_RANGES        64

/* Blocks are numbered within their pool, pools within the process: together a number names one
 * block. */
#define SERIAL_POOL_SHIFT 44 /* 2^44 blocks each of 2^17 pools, within 61 bits */
static uint64_t pools_made;

/* --- blocks --------------------------------------------------------------------------------------
 */

bool pool_break(struct pool *pool, const char *words)
{
    if (pool->broken == NULL)
        pool->broken = words;
    pool->closed = true;
    __atomic_store_n(&pool->caching, false, __ATOMIC_RELAXED);
    return false;
}

void pool_settled_wait(struct pool *pool)
{
    struct timespec nap = {.tv_nsec = SETTLE_NAP_NS};
    lock_give(&pool->lock);
    nanosleep(&nap, NULL);
    lock_take(&pool->lock);
}

bool pool_may_release(struct pool *pool)
{
    while (!pool->closed && pool->pinned)
        pool_settled_wait(pool);
    return !pool->closed;
}

void pool_settled_tell(struct pool *pool)
{
    pool->unlocked--;
}

static struct pool_class_stats *class_stats_of(struct pool *pool, const struct pool_block *block)
{
    const struct run *run = block->record;
    return block->slot == POOL_SLOT_NONE ? NULL : &pool->stats.classes[run->slab->class_index];
}

static void peak_update(uint64_t level, uint64_t *peak)
{
    if ((int64_t)level > (int64_t)*peak)
        *peak = level;
}

static void peaks_update(struct pool *pool)
{
    struct pool_stats *stats = &pool->stats;
    if ((int64_t)stats->live_block_bytes > (int64_t)stats->peak_live_block_bytes)
        history_peak_live(pool);
    peak_update(stats->live_blocks, &stats->peak_live_blocks);
    peak_update(stats->live_requested_bytes, &stats->peak_live_requested_bytes);
    peak_update(stats->live_block_bytes, &stats->peak_live_block_bytes);
    peak_update(stats->driver_live_bytes, &stats->peak_driver_live_bytes);
}

/* A block that is the program's now, or again. class_stats: NULL for a run. */
static void live_count(struct pool *pool, struct pool_class_stats *class_stats,
                       uint64_t requested_bytes, uint64_t block_bytes)
{
    struct pool_stats *stats = &pool->stats;
    stats->live_blocks++;
    stats->live_requested_bytes += requested_bytes;
    stats->live_block_bytes += block_bytes;
    stats->driver_live_bytes += block_bytes + driver_extra_bytes(block_bytes);
    stats->internal_waste_bytes += block_bytes - requested_bytes;
    if (class_stats != NULL) {
        class_stats->slots_live++;
        class_stats->requested_bytes += requested_bytes;
    }
    peaks_update(pool);
    levels_changed(pool);
}

static void live_uncount(struct pool *pool, const struct pool_block *block)
{
    struct pool_stats *stats = &pool->stats;
    struct pool_class_stats *class_stats = class_stats_of(pool, block);
    stats->live_blocks--;
    stats->live_requested_bytes -= block->requested_bytes;
    stats->live_block_bytes -= block->block_bytes;
    stats->driver_live_bytes -= block->block_bytes + driver_extra_bytes(block->block_bytes);
    stats->internal_waste_bytes -= block->block_bytes - block->requested_bytes;
    if (class_stats != NULL) {
        class_stats->slots_live--;
        class_stats->requested_bytes -= block->requested_bytes;
    }
    levels_changed(pool);
}

static void limbo_count(struct pool *pool, const struct pool_block *block)
{
    struct pool_class_stats *class_stats = class_stats_of(pool, block);
    pool->stats.limbo_blocks++;
    pool->stats.limbo_bytes += block->block_bytes;
    peak_update(pool->stats.limbo_bytes, &pool->stats.peak_limbo_bytes);
    if (class_stats != NULL)
        class_stats->slots_limbo++;
    levels_changed(pool);
}

static void limbo_uncount(struct pool *pool, const struct pool_block *block)
{
    struct pool_class_stats *class_stats = class_stats_of(pool, block);
    pool->stats.limbo_blocks--;
    pool->stats.limbo_bytes -= block->block_bytes;
    if (class_stats != NULL)
        class_stats->slots_limbo--;
    levels_changed(pool);
}

/* A pool without a block has whole segments again. One empty slab may stay until something else is
 * asked for (take_locked), so that a program with one block at a time does not make and end a slab
 * each time. */
static void empty_settle_locked(struct pool *pool)
{
    if (pool->stats.live_blocks + pool->stats.limbo_blocks == 0 && pool->empty_slabs > 0)
        slab_flush(pool);
}

void pool_block_drop_locked(struct pool *pool, struct run *run, uint32_t slot)
{
    block_state_set(block_info_of(run, slot), POOL_BLOCK_FREE);
    if (slot == POOL_SLOT_NONE)
        buddy_give(pool, run);
    else
        slab_give(pool, run->slab, slot);
    if (pool->empty_slabs > 1)
        empty_settle_locked(pool);
}

void pool_block_free_locked(struct pool *pool, const struct pool_block *block)
{
    limbo_uncount(pool, block);
    pool_block_drop_locked(pool, block->record, block->slot);
}

void pool_block_pass_locked(struct pool *pool, const struct pool_block *block)
{
    limbo_uncount(pool, block);
    if (!cache_keep(pool, block))
        pool_block_drop_locked(pool, block->record, block->slot);
}

/* --- life of a pool
 * ---------------------------------------------------------------------------------- */

struct pool *pool_create(const struct pool_config *config, const struct backing *backing)
{
    struct pool *pool = metadata_map(sizeof(*pool));
    if (pool == NULL)
        return NULL;
    pthread_mutex_init(&pool->growth, NULL);
    pool->config = *config;
    pool->backing = *backing;
    uint64_t number = __atomic_fetch_add(&pools_made, 1, __ATOMIC_RELAXED);
    pool->last_serial = number << SERIAL_POOL_SHIFT & UINT64_MAX >> BLOCK_STATE_BITS;
    pool->cache_place = (uint32_t)number % POOL_CACHE_PLACES;
    pool->collected_at_lost_patience = UINT64_MAX; /* never lost yet */
    pool->segment_max_bytes = UINT64_MAX;
    if (pool->config.arena_bytes == 0)
        pool->config.arena_bytes = ARENA_DEFAULT_BYTES;
    pool->arena_is_default = pool->config.arena_bytes == ARENA_DEFAULT_BYTES;
    for (int i = 0; i < SIZE_CLASS_COUNT; i++)
        pool->stats.classes[i].slot_bytes = size_class_get(i).slot_bytes;
    return pool;
}

void pool_close(struct pool *pool)
{
    lock_take(&pool->lock);
    history_observe(pool);
    pool->closed = true;
    caches_leave(pool);
    lock_give(&pool->lock);
}

void pool_destroy(struct pool *pool, bool release_segments)
{
    pthread_mutex_lock(&pool->growth); /* nobody grows */
    lock_take(&pool->lock);
    bool ended = pool->ended;
    history_observe(pool);
    pool->closed = pool->ended = true;
    caches_leave(pool);
    while (pool->unlocked > 0)
        pool_settled_wait(pool);
    together_leave(pool);
    lock_give(&pool->lock);
    pthread_mutex_unlock(&pool->growth);
    if (ended)
        return;
    limbo_end(pool);
    arena_end(pool, release_segments);
    lock_take(&pool->lock);
    pool->stats.largest_free_run_bytes = 0;
    memset(&pool->index, 0, sizeof(pool->index));
    metadata_end(&pool->metadata);
    metadata_end(&pool->run_records);
    metadata_end(&pool->slab_records);
    lock_give(&pool->lock);
}

/* --- allocation
 * ------------------------------------------------------------------------------------------ */

struct request {
    uint64_t bytes;
    uint64_t stream;
    uint32_t tag;
    int class_index; /* -1: a run */
    uint64_t pages;  /* of the run, or of a slab */
    uint64_t fence;  /* to be dropped when drop is set */
    bool drop;
};

static void request_size(struct request *request, uint64_t guard_bytes)
{
    uint64_t bytes = request->bytes + guard_bytes;
    bool small = bytes <= SIZE_CLASS_MAX_BYTES;
    request->class_index = small ? size_class_of(bytes) : -1;
    request->pages =
        small ? size_class_get(request->class_index).slab_pages : size_run_pages(bytes);
}

/* The longest hole that a large block may cut while the arena may still grow: eight times its own
 * length, which saves driver calls, but of holes of 1 GiB and more only twice, which keeps them for
 * the blocks they came from. (Recorded GPT training, slack 10 %: 2, 4, 8, 16 times hold 1.16, 1.16,
 * 1.12, 1.09 of what the driver would; slack 3 %: 1.05, 1.02, 1.02, 1.02.) */
static uint64_t hole_pages_max(uint64_t pages)
{
    uint64_t huge_pages = HUGE_HOLE_BYTES / POOL_PAGE_BYTES;
    uint64_t pages_max = 8 * pages < huge_pages ? 8 * pages : huge_pages;
    return pages_max > 2 * pages ? pages_max : 2 * pages;
}

/* Where memory is scarce, a block for which the driver would take whole 2 MiB takes a segment that
 * was such a block's, and is as long: it goes back when the block is freed, as the driver's does.
 */
static uint64_t own_pages(uint64_t pages)
{
    return pool_round_up(pages * POOL_PAGE_BYTES, BACKING_SEGMENT_ALIGN_BYTES) / POOL_PAGE_BYTES;
}

/* A run for a block, from the large segments first. relaxed: the arena cannot grow, so any hole is
 * taken. */
static struct run *run_take(struct pool *pool, uint64_t pages, bool relaxed)
{
    bool scarce = pool->scarce && !relaxed;
    bool apart = pages * POOL_PAGE_BYTES > (scarce ? POOL_MEDIUM_BYTES : POOL_LARGE_BYTES);
    struct run *run = NULL;
    if (apart && scarce)
        run = buddy_take_from(pool, DOMAIN_LARGE, pages, own_pages(pages), own_pages(pages));
    else if (apart)
        run = buddy_take(pool, DOMAIN_LARGE, pages, relaxed ? UINT64_MAX : hole_pages_max(pages));
    if (run == NULL)
        run = buddy_take(pool, DOMAIN_SHARED, pages, UINT64_MAX);
    if (run == NULL && relaxed && !apart)
        run = buddy_take(pool, DOMAIN_LARGE, pages, UINT64_MAX);
    return run;
}

static void block_begin(struct pool *pool, struct run *run, uint32_t slot,
                        const struct request *request, uint64_t *address_out)
{
    bool in_slab = slot != POOL_SLOT_NONE;
    struct pool_class_stats *class_stats =
        in_slab ? &pool->stats.classes[request->class_index] : NULL;
    uint64_t block_bytes = block_bytes_of(run, slot);
    block_info_set(block_info_of(run, slot), block_word(++pool->last_serial, POOL_BLOCK_LIVE),
                   request->bytes, request->tag);
    live_count(pool, class_stats, request->bytes, block_bytes);
    pool->stats.allocations++;
    pool->stats.requested_bytes += request->bytes;
    if (in_slab)
        class_stats->allocations++;
    *address_out = block_address_of(run, slot, block_bytes);
    cache_note(pool, run, slot, *address_out);
}

static bool reuse_locked(struct pool *pool, struct request *request, uint64_t *address_out)
{
    struct pool_block block;
    uint64_t block_bytes = request->class_index >= 0
                               ? size_class_get(request->class_index).slot_bytes
                               : request->pages * POOL_PAGE_BYTES;
    if (request->stream == POOL_NO_STREAM ||
        !limbo_reuse(pool, request->stream, block_bytes, &block, &request->fence, &request->drop))
        return false;
    limbo_uncount(pool, &block);
    block_begin(pool, block.record, block.slot, request, address_out);
    pool->stats.stream_reuses++;
    return true;
}

/* Pages of the block itself, where it is no slot. */
static uint64_t block_pages(const struct request *request)
{
    return request->class_index < 0
               ? request->pages
               : size_class_get(request->class_index).slot_bytes / POOL_PAGE_BYTES;
}

/* Where memory is scarce no slab is made, which might hold nothing but one block: a small block is
 * a run then. */
static bool slab_would_be_made(const struct pool *pool, const struct request *request)
{
    const struct slab_class *list = &pool->classes[request->class_index];
    return list->partial == NULL && list->empty == NULL;
}

/* Which holes a request may take. */
enum holes {
    HOLES_MEANT, /* those that are meant for such a block */
    HOLES_MORE,  /* where memory is not scarce, any */
    HOLES_ANY
};

static bool take_locked(struct pool *pool, struct request *request, enum holes holes,
                        uint64_t *address_out)
{
    bool relaxed = holes == HOLES_ANY || (holes == HOLES_MORE && !pool->scarce);
    struct slab *slab;
    struct run *run;
    uint32_t slot = POOL_SLOT_NONE;
    if (pool->closed)
        return false;
    if (reuse_locked(pool, request, address_out))
        return true;
    if (request->class_index < 0 || pool->classes[request->class_index].empty == NULL)
        empty_settle_locked(pool);
    bool in_slab =
        request->class_index >= 0 && !(pool->scarce && slab_would_be_made(pool, request));
    if (in_slab && slab_take(pool, request->class_index, relaxed, &slab, &slot))
        run = slab->run;
    else if (in_slab && !relaxed)
        return false;
    else
        run = run_take(pool, block_pages(request), relaxed);
    if (run != NULL)
        block_begin(pool, run, slot, request, address_out);
    return run != NULL;
}

static bool take(struct pool *pool, struct request *request, enum holes holes,
                 uint64_t *address_out)
{
    lock_take(&pool->lock);
    cache_fold(pool);
    if (request->class_index < 0 || slab_would_be_made(pool, request))
        cache_yield_large(pool);
    bool taken = take_locked(pool, request, holes, address_out);
    if (taken && request->class_index >= 0 && request->stream == POOL_NO_STREAM)
        cache_refill(pool, request->class_index);
    if (!pool->caching)
        caches_decide(pool);
    lock_give(&pool->lock);
    return taken;
}

/* Once more with what threads keep. */
static bool take_kept(struct pool *pool, struct request *request, uint64_t *address_out)
{
    lock_take(&pool->lock);
    bool taken = caches_flush(pool) > 0 && take_locked(pool, request, HOLES_MEANT, address_out);
    lock_give(&pool->lock);
    return taken;
}

/* Also from the pages of empty slabs. */
static bool take_flushing(struct pool *pool, struct request *request, enum holes holes,
                          uint64_t *address_out)
{
    lock_take(&pool->lock);
    caches_flush(pool);
    bool taken = take_locked(pool, request, holes, address_out);
    if (!taken && !pool->closed && pool->empty_slabs > 0) {
        slab_flush(pool);
        taken = take_locked(pool, request, holes, address_out);
    }
    lock_give(&pool->lock);
    return taken;
}

static uint64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

/* Whether to wait for the GPU a little: growing would exceed what may be held, enough is pending to
 * be worth it, and the last such wait saw some fence pass (else a kernel may be waiting for this
 * very thread). *collected_out: what had passed so far. */
static bool patience_pays(struct pool *pool, uint64_t need_bytes, uint64_t *collected_out)
{
    lock_take(&pool->lock);
    bool pays = !pool->closed && pool->config.patience_us > 0 &&
                pool->stats.limbo_bytes >= need_bytes && !arena_may_grow_locked(pool, need_bytes) &&
                pool->collected_at_lost_patience != pool->collected;
    *collected_out = pool->collected;
    lock_give(&pool->lock);
    return pays;
}

static void patience_lost(struct pool *pool, uint64_t collected)
{
    lock_take(&pool->lock);
    if (pool->collected == collected)
        pool->collected_at_lost_patience = collected;
    lock_give(&pool->lock);
}

/* How much had passed by now, whoever collected it. */
static uint64_t collected_so_far(struct pool *pool)
{
    lock_take(&pool->lock);
    uint64_t collected = pool->collected;
    lock_give(&pool->lock);
    return collected;
}

static void frees_hand_in(struct pool *pool)
{
    if (pool->backing.frees_due != NULL)
        pool->backing.frees_due(pool->backing.self);
}

/* Asks again and again whether the GPU is done with enough, for a short time, and as long as enough
 * is pending. No lock is held meanwhile. Others free meanwhile as well, and what they keep back may
 * be all there is: several threads would wait here for each other. */
static bool take_patiently(struct pool *pool, struct request *request, uint64_t *address_out)
{
    uint64_t need_bytes = request->pages * POOL_PAGE_BYTES, collected, seen, now;
    if (!patience_pays(pool, need_bytes, &collected))
        return false;
    uint64_t until_us = clock_us() + pool->config.patience_us;
    now = collected;
    do {
        seen = now;
        frees_hand_in(pool);
        pool_collect(pool);
        if (collected_so_far(pool) != seen && take(pool, request, HOLES_MEANT, address_out))
            return true;
        sched_yield();
    } while (clock_us() < until_us && patience_pays(pool, need_bytes, &now));
    patience_lost(pool, collected);
    return false;
}

/* Where memory can go back in parts and `need_bytes` more would exceed what may be held: takes any
 * hole, or else gives as much back. */
static bool take_sparingly(struct pool *pool, struct request *request, uint64_t need_bytes,
                           uint64_t *address_out)
{
    if (pool->backing.acquire_parts == NULL)
        return false;
    need_bytes = pool_round_up(need_bytes, BACKING_SEGMENT_ALIGN_BYTES);
    lock_take(&pool->lock);
    bool taken = false;
    if (!arena_may_grow_locked(pool, need_bytes)) {
        taken = take_locked(pool, request, HOLES_MORE, address_out);
        if (!taken)
            parts_release(pool, need_bytes);
    }
    lock_give(&pool->lock);
    return taken;
}

/* Steps 1 to 3 of the ladder. */
static bool take_growing(struct pool *pool, struct request *request, bool exact,
                         uint64_t *address_out)
{
    uint64_t need_bytes = request->pages * POOL_PAGE_BYTES;
    enum holes holes = exact ? HOLES_MORE : HOLES_MEANT;
    struct arena_unused unused = {0};
    pthread_mutex_lock(&pool->growth);
    bool taken = take(pool, request, holes, address_out) ||
                 (pool_collect(pool) > 0 && take(pool, request, holes, address_out));
    if (!taken) {
        taken = take_sparingly(pool, request, need_bytes, address_out) ||
                (arena_grow(pool, need_bytes, exact, &unused) &&
                 take(pool, request, holes, address_out)) ||
                take_flushing(pool, request, HOLES_MORE, address_out);
    }
    pthread_mutex_unlock(&pool->growth);
    arena_discard(pool, &unused);
    return taken;
}

/* Counts whatever may have made room. */
static uint64_t changes_locked(const struct pool *pool)
{
    return pool->stats.frees + pool->stats.segment_acquires + pool->stats.segment_releases;
}

/* Waits until no other thread is releasing or collecting. True: something changed since *changes,
 * which is brought up to date. */
static bool others_settle(struct pool *pool, uint64_t *changes)
{
    uint64_t before = *changes;
    lock_take(&pool->lock);
    while (!pool->closed && (pool->releases > 0 || pool->limbo.collecting))
        pool_settled_wait(pool);
    caches_flush(pool);
    *changes = changes_locked(pool);
    lock_give(&pool->lock);
    return *changes != before;
}

/* Steps 4 and 5 of the ladder. */
static bool take_releasing(struct pool *pool, struct request *request, uint64_t *address_out)
{
    uint64_t need_bytes =
        pool_round_up(request->pages * POOL_PAGE_BYTES, BACKING_SEGMENT_ALIGN_BYTES);
    if (arena_release(pool, 0, need_bytes) > 0 && take_growing(pool, request, true, address_out))
        return true;
    if (arena_release(pool, 0, UINT64_MAX) > 0 && take_growing(pool, request, true, address_out))
        return true;
    if (take_flushing(pool, request, HOLES_ANY, address_out))
        return true;
    return limbo_wait(pool) > 0 && (take_growing(pool, request, true, address_out) ||
                                    (arena_release(pool, 0, UINT64_MAX) > 0 &&
                                     take_growing(pool, request, true, address_out)) ||
                                    take_flushing(pool, request, HOLES_ANY, address_out));
}

/* Steps 4 to 6 of the ladder, climbed again as long as something changes meanwhile: what another
 * thread gave back while this one looked elsewhere must not be missed. */
static bool take_waiting(struct pool *pool, struct request *request, uint64_t *address_out)
{
    uint64_t changes = 0; /* so that there is a second look at least */
    bool taken = false;
    for (int round = 0; !taken && round < ROUNDS_MAX; round++) {
        taken = take_releasing(pool, request, address_out);
        if (!taken && !others_settle(pool, &changes))
            break;
        taken = taken || take_growing(pool, request, true, address_out);
    }
    return taken;
}

static bool take_climbing(struct pool *pool, struct request *request, uint64_t *address_out)
{
    lock_take(&pool->lock);
    pool->metadata.refused = pool->run_records.refused = pool->slab_records.refused = false;
    lock_give(&pool->lock);
    if (take_kept(pool, request, address_out))
        return true;
    frees_hand_in(pool);
    return (pool_collect(pool) > 0 && take(pool, request, HOLES_MEANT, address_out)) ||
           take_patiently(pool, request, address_out) ||
           take_growing(pool, request, false, address_out) ||
           take_waiting(pool, request, address_out);
}

/* climbed: the ladder was climbed, so it is known why it failed. */
static enum pool_status refuse(struct pool *pool, uint64_t bytes, bool climbed)
{
    lock_take(&pool->lock);
    if (climbed)
        history_fragmented(pool, bytes);
    bool refused =
        pool->metadata.refused || pool->run_records.refused || pool->slab_records.refused;
    enum pool_status status = pool->closed         ? POOL_CLOSED
                              : climbed && refused ? POOL_NO_METADATA
                                                   : POOL_NO_MEMORY;
    pool->stats.refused++;
    lock_give(&pool->lock);
    return status;
}

enum pool_status pool_alloc(struct pool *pool, uint64_t bytes, uint64_t stream, uint32_t tag,
                            uint64_t *address_out)
{
    struct request request = {.bytes = bytes, .stream = stream, .tag = tag};
    *address_out = 0;
    if (bytes == 0)
        return POOL_INVALID;
    if (bytes > POOL_MAX_BLOCK_BYTES)
        return refuse(pool, bytes, false);
    request_size(&request, pool->config.guard_bytes);
    if (stream == POOL_NO_STREAM) {
        if (cache_alloc(pool, bytes, request.class_index, request.pages, tag, address_out))
            return POOL_OK;
        cache_bind(pool);
    }
    bool taken = take(pool, &request, HOLES_MEANT, address_out) ||
                 take_climbing(pool, &request, address_out);
    if (request.drop && pool->backing.fence_drop != NULL)
        pool->backing.fence_drop(pool->backing.self, request.fence);
    return taken ? POOL_OK : refuse(pool, bytes, true);
}

/* --- finding and freeing
 * ---------------------------------------------------------------------------------- */

bool pool_owns(uint64_t address)
{
    return page_map_get(address) != NULL;
}

/* Finds the segment of an address and locks its pool, if that serves. POOL_OK: it is locked. */
static enum pool_status segment_lock(uint64_t address, struct segment **segment_out)
{
    struct segment *segment = page_map_get(address);
    if (segment == NULL)
        return POOL_NOT_OWNED;
    struct pool *pool = segment->pool;
    lock_take(&pool->lock);
    enum pool_status status = page_map_get(address) != segment ? POOL_NOT_OWNED
                              : pool->closed                   ? POOL_CLOSED
                                                               : POOL_OK;
    *segment_out = segment;
    if (status != POOL_OK)
        lock_give(&pool->lock);
    return status;
}

/* The block around an address. False: free memory or a slab's tail. */
static bool block_around_locked(const struct segment *segment, uint64_t address,
                                struct pool_block *block_out)
{
    uint64_t offset = address - segment->address;
    struct run *run = buddy_run_at(segment, offset / POOL_PAGE_BYTES);
    uint32_t slot = POOL_SLOT_NONE;
    if (run->kind == RUN_FREE)
        return false;
    if (run->kind == RUN_SLAB) {
        slot = slab_slot_at(run->slab, offset - run->first_page * POOL_PAGE_BYTES);
        if (slot >= size_class_get((int)run->slab->class_index).slots)
            return false;
    }
    pool_block_describe(run, slot, block_out);
    return block_out->state != POOL_BLOCK_FREE && block_out->state != POOL_BLOCK_CACHED;
}

/* LIVE -> RELEASING, unless another thread was first, which its note may have led there. */
static bool release_begin_locked(const struct pool_block *block)
{
    struct block_info *info = block_info_of(block->record, block->slot);
    uint64_t live = block_word(block->serial, POOL_BLOCK_LIVE);
    if (block->state != POOL_BLOCK_LIVE)
        return false;
    return __atomic_compare_exchange_n(&info->word, &live,
                                       block_word(block->serial, POOL_BLOCK_RELEASING), false,
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

enum pool_status pool_free_begin(uint64_t address, struct pool_block *block_out)
{
    struct segment *segment = page_map_get(address);
    if (segment != NULL && cache_free_begin(segment->pool, address, block_out))
        return POOL_OK;
    enum pool_status status = segment_lock(address, &segment);
    if (status != POOL_OK) {
        *block_out = (struct pool_block){0};
        return status;
    }
    struct pool *pool = segment->pool;
    cache_fold(pool);
    bool live = block_around_locked(segment, address, block_out) && block_out->address == address &&
                release_begin_locked(block_out);
    if (live) {
        live_uncount(pool, block_out);
        limbo_count(pool, block_out);
        block_out->state = POOL_BLOCK_RELEASING;
    } else {
        pool->stats.invalid_frees++;
        *block_out = (struct pool_block){0};
    }
    lock_give(&pool->lock);
    return live ? POOL_OK : POOL_NOT_LIVE;
}

/* The free of this block may end: it is the one that began. */
static bool releasing_locked(struct pool *pool, const struct pool_block *block)
{
    if (pool->closed)
        return false;
    cache_fold(pool);
    struct run *run = block->record;
    bool same = run->kind == (block->slot == POOL_SLOT_NONE ? RUN_BLOCK : RUN_SLAB);
    same = same && block_word_get(block_info_of(run, block->slot)) ==
                       block_word(block->serial, POOL_BLOCK_RELEASING);
    return pool_holds(pool, same, "a free that began ends once");
}

uint64_t pool_free_finish(const struct pool_block *block)
{
    struct pool *pool = block->pool;
    uint64_t excess_bytes = 0;
    if (cache_free_finish(block))
        return 0;
    cache_bind(pool);
    lock_take(&pool->lock);
    if (releasing_locked(pool, block)) {
        cache_spill(pool, block);
        pool_block_free_locked(pool, block);
        pool->stats.frees++;
        if (arena_over_budget_locked(pool) > 0)
            caches_yield(pool);
        excess_bytes = arena_excess_locked(pool);
    }
    lock_give(&pool->lock);
    return excess_bytes;
}

void pool_free_retire(const struct pool_block *block)
{
    struct pool *pool = block->pool;
    lock_take(&pool->lock);
    if (pool_may_release(pool) && releasing_locked(pool, block)) {
        caches_flush(pool);
        struct run *run = block->record;
        struct segment *segment = run->segment;
        bool alone = segment->part_pages == 0 && block->slot == POOL_SLOT_NONE &&
                     buddy_segment_alone(segment, run);
        if (alone) {
            pool_block_free_locked(pool, block);
            pool->stats.frees++;
            arena_segment_release(pool, segment);
        } else {
            pool->stats.retired_blocks++;
        }
    }
    lock_give(&pool->lock);
}

/* Files one block. False: it stays in limbo for good, lost, but never reused early. */
static bool pend_locked(struct pool *pool, const struct pool_block *block, uint64_t stream,
                        uint64_t fence)
{
    struct pool_block pending = *block;
    pending.state = POOL_BLOCK_PENDING;
    if (!releasing_locked(pool, block) || !limbo_add(pool, &pending, stream, fence))
        return false;
    block_state_set(block_info_of(block->record, block->slot), POOL_BLOCK_PENDING);
    pool->stats.frees++;
    pool->stats.fenced_frees++;
    return true;
}

void pool_free_pend_all(const struct pool_block *blocks, uint32_t count, uint64_t stream,
                        uint64_t fence)
{
    struct pool *pool = blocks[0].pool;
    uint32_t lost = 0;
    lock_take(&pool->lock);
    for (uint32_t i = 0; i < count; i++)
        lost += pend_locked(pool, &blocks[i], stream, fence) ? 0 : 1;
    lock_give(&pool->lock);
    for (; lost > 0 && pool->backing.fence_drop != NULL; lost--)
        pool->backing.fence_drop(pool->backing.self, fence);
}

void pool_free_pend(const struct pool_block *block, uint64_t stream, uint64_t fence)
{
    pool_free_pend_all(block, 1, stream, fence);
}

void pool_free_cancel(const struct pool_block *block)
{
    struct pool *pool = block->pool;
    lock_take(&pool->lock);
    if (releasing_locked(pool, block)) {
        limbo_uncount(pool, block);
        live_count(pool, class_stats_of(pool, block), block->requested_bytes, block->block_bytes);
        block_state_set(block_info_of(block->record, block->slot), POOL_BLOCK_LIVE);
    }
    lock_give(&pool->lock);
}

enum pool_status pool_find(uint64_t address, struct pool_block *block_out)
{
    struct segment *segment;
    enum pool_status status = segment_lock(address, &segment);
    if (status == POOL_OK) {
        status = block_around_locked(segment, address, block_out) ? POOL_OK : POOL_NOT_LIVE;
        lock_give(&segment->pool->lock);
    }
    if (status != POOL_OK)
        *block_out = (struct pool_block){0};
    return status;
}

enum pool_status pool_retag(uint64_t address, uint32_t tag)
{
    struct segment *segment;
    struct pool_block block;
    enum pool_status status = segment_lock(address, &segment);
    if (status != POOL_OK)
        return status;
    bool live = block_around_locked(segment, address, &block) && block.state == POOL_BLOCK_LIVE;
    if (live)
        __atomic_store_n(&block_info_of(block.record, block.slot)->tag, tag, __ATOMIC_RELAXED);
    lock_give(&segment->pool->lock);
    return live ? POOL_OK : POOL_NOT_LIVE;
}

/* --- memory to give back
 * -------------------------------------------------------------------------------------- */

uint64_t pool_trim(struct pool *pool, uint64_t keep_bytes)
{
    if (keep_bytes == UINT64_MAX) {
        lock_take(&pool->lock);
        cache_fold(pool);
        if (!pool->closed && arena_over_budget_locked(pool) > 0)
            caches_yield(pool);
        if (!pool->closed)
            empty_settle_locked(pool);
        uint64_t excess_bytes = pool->closed ? 0 : arena_excess_locked(pool);
        keep_bytes = pool->stats.idle_segment_bytes - excess_bytes;
        lock_give(&pool->lock);
        if (excess_bytes == 0)
            return 0;
    }
    return arena_release(pool, keep_bytes, UINT64_MAX);
}

static uint64_t releasable_bytes_locked(struct pool *pool)
{
    return pool->backing.acquire_parts != NULL ? parts_releasable_bytes(pool)
                                               : pool->stats.idle_segment_bytes;
}

uint64_t pool_releasable_bytes(struct pool *pool)
{
    lock_take(&pool->lock);
    caches_flush(pool);
    if (!pool->closed)
        slab_flush(pool); /* as arena_release() would */
    uint64_t bytes = pool->closed ? 0 : releasable_bytes_locked(pool);
    lock_give(&pool->lock);
    return bytes;
}

uint64_t pool_available_bytes(struct pool *pool, uint64_t device_free_bytes)
{
    uint64_t bytes = 0;
    lock_take(&pool->lock);
    caches_flush(pool);
    if (!pool->closed) {
        slab_flush(pool);
        uint64_t told_bytes = buddy_largest_bytes(pool);
        uint64_t movable_bytes = releasable_bytes_locked(pool) + device_free_bytes;
        told_bytes = told_bytes > movable_bytes ? told_bytes : movable_bytes;
        told_bytes += told_bytes / 9; /* nine tenths of what is told can be had in one piece */
        uint64_t most_bytes = told_bytes > device_free_bytes ? told_bytes - device_free_bytes : 0;
        bytes = pool->stats.run_free_bytes < most_bytes ? pool->stats.run_free_bytes : most_bytes;
    }
    lock_give(&pool->lock);
    return bytes;
}

/* --- figures
 * --------------------------------------------------------------------------------------------------
 */

void pool_stats_read(struct pool *pool, struct pool_stats *stats_out)
{
    bool locked = lock_take_for(&pool->lock, READ_WAIT_NS);
    if (locked)
        caches_flush(pool);
    if (locked && !pool->closed)
        empty_settle_locked(pool);
    *stats_out = pool->stats;
    if (locked && !pool->closed) {
        stats_out->largest_free_run_bytes = buddy_largest_bytes(pool);
        buddy_count(pool, stats_out);
    }
    if (locked)
        lock_give(&pool->lock);
}

void pool_observe(struct pool *pool)
{
    lock_take(&pool->lock);
    cache_fold(pool);
    history_observe(pool);
    lock_give(&pool->lock);
}

void pool_history_read(struct pool *pool, struct pool_history *history_out)
{
    bool locked = lock_take_for(&pool->lock, READ_WAIT_NS);
    if (locked)
        history_observe(pool);
    *history_out = pool->history;
    if (locked)
        lock_give(&pool->lock);
}

static void slab_visit(struct run *run, void (*visit)(void *, const struct pool_block *), void *arg)
{
    uint32_t slots = size_class_get((int)run->slab->class_index).slots;
    for (uint32_t slot = 0; slot < slots; slot++) {
        struct pool_block block;
        pool_block_describe(run, slot, &block);
        if (block.state == POOL_BLOCK_LIVE)
            visit(arg, &block);
    }
}

bool pool_visit_live(struct pool *pool, void (*visit)(void *arg, const struct pool_block *block),
                     void *arg)
{
    if (!lock_take_for(&pool->lock, READ_WAIT_NS))
        return false;
    caches_stop(pool);
    for (struct segment *s = pool->closed ? NULL : pool->segments; s != NULL; s = s->next) {
        struct run *run;
        for (uint64_t page = 0; page < s->pages; page += run->pages) {
            struct pool_block block;
            run = s->page_run[page];
            if (run->kind == RUN_SLAB) {
                slab_visit(run, visit, arg);
            } else if (run->kind == RUN_BLOCK) {
                pool_block_describe(run, POOL_SLOT_NONE, &block);
                if (block.state == POOL_BLOCK_LIVE)
                    visit(arg, &block);
            }
        }
    }
    caches_resume(pool);
    lock_give(&pool->lock);
    return true;
}

/* How far a visit has come. While memory neither comes nor goes its place stays one where a run
 * begins. */
struct backed_visit {
    const struct segment *segment;
    uint64_t page;
    struct backed_range ranges[VISIT_RANGES];
};

/* Notes the next ranges, some only, so that the lock is held for a short time. Returns how many. */
static int ranges_note_locked(const struct pool *pool, struct backed_visit *visit)
{
    int count = 0;
    while (!pool->closed && visit->segment != NULL && count < VISIT_RANGES) {
        if (parts_range_next(visit->segment, &visit->page, &visit->ranges[count])) {
            count++;
        } else {
            visit->segment = visit->segment->next;
            visit->page = 0;
        }
    }
    return count;
}

/* Nothing grows, since the growth lock is held, and nothing goes back, since the pool is pinned and
 * what was going has gone: so the ranges stay what they are without the lock. */
void pool_visit_backed(struct pool *pool,
                       void (*visit)(void *arg, uint64_t address, uint64_t bytes), void *arg)
{
    int count;
    pthread_mutex_lock(&pool->growth);
    lock_take(&pool->lock);
    pool->pinned = true;
    while (!pool->closed && pool->releases > 0)
        pool_settled_wait(pool);
    struct backed_visit at = {.segment = pool->segments};
    while ((count = ranges_note_locked(pool, &at)) > 0) {
        lock_give(&pool->lock);
        for (int i = 0; i < count; i++)
            visit(arg, at.ranges[i].address, at.ranges[i].bytes);
        lock_take(&pool->lock);
    }
    pool->pinned = false;
    lock_give(&pool->lock);
    pthread_mutex_unlock(&pool->growth);
}
