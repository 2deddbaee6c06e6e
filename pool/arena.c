/* arena.c - the segments: how memory comes from the backing and goes back.
 *
 * Growth. The first segment is preallocated (config.arena_bytes) by the first request that it can
 * serve. Later ones are a quarter of what is held, from 32 (8 where memory is in parts) to 128 MiB
 * and at most a sixteenth of what there is to be had, so that a small program stays small and a
 * large one calls the driver rarely. A block above 32 MiB gets a segment of its own size: it can be
 * given back whole. When the driver refuses, the size is halved down to what the request needs.
 *
 * Scarcity. Before it grows the arena looks how much of the card is free. If what is live, or
 * what is held, comes within a quarter (a third where memory is in parts), or 8 GiB, of all that
 * could be had, memory is scarce: then only what the driver itself would take for the block is
 * acquired, and a block above 1 MiB shares its segment with none. With a slack of 0 memory is
 * always taken to be scarce. (Of 1,000 random sequences at a card's capacity that the driver's rule
 * completes, 7 are lost then, in either backing; 226 in parts and 423 in segments where it becomes
 * scarce only when the card is nearly full, since what was packed densely before cannot be taken
 * apart.)
 *
 * Release. A segment without any block is idle. Idle memory is kept as long as all that is held
 * stays under a share (config.slack_percent) of the highest live total plus 64 MiB (32 for a small
 * pool where memory is in parts), or under the first segment's configured size; what exceeds that
 * is given back, the longest idle first and none that is larger than the excess (or a large block
 * that comes and goes would be given back each time), but only when the caller may wait for the
 * GPU. The share is below 100 since the next segment, which may be needed at once, comes on top.
 * (Recorded GPT training, 103, 90, 80, 70 %: held at most 1.126, 1.118, 1.014, 1.071 of what the
 * driver would, 0.8, 1.3, 2.0, 2.9 % of its time in later passes.) Where memory goes back in parts
 * that is done before anything is acquired, so the share is 102 at least.
 *
 * A program that holds about as much all the time would have such a block given back and got again
 * at each free: live memory is at its peak, so all that is idle exceeds the share. When a segment
 * was given back and one of the same length was asked for within RETURN_FREES frees, RETURNS_LEAST
 * times in turn, one such segment stays idle, until another length is asked for. (64 blocks of
 * 64 MiB, the oldest freed for each new one, on an H200: 166 us a pair, the driver alone 149.)
 *
 * Lock: pool.growth for growth, pool.lock for the records. Neither is held across backing.release;
 * only pool.growth is held across backing.acquire.
 */
#include "pool_internal.h"

#define ARENA_SEGMENT_MIN_BYTES ((uint64_t)32 << 20)
#define ARENA_PARTS_MIN_BYTES   ((uint64_t)8 << 20)
#define ARENA_SEGMENT_MAX_BYTES ((uint64_t)128 << 20)
#define ARENA_IDLE_FLOOR_BYTES  ((uint64_t)64 << 20)
#define PARTS_IDLE_FLOOR_BYTES  ((uint64_t)32 << 20)
#define ARENA_SMALL_BYTES       ((uint64_t)256 << 20)
#define ARENA_RESERVE_MAX_BYTES ((uint64_t)8 << 30)
#define ARENA_RESERVE_SHARE     4
#define PARTS_RESERVE_SHARE     3
#define ARENA_SEGMENT_SHARE     16
#define PARTS_PERCENT           102

enum { IDLE_LOOKS_MAX = 32, RETURN_FREES = 4, RETURNS_LEAST = 8 };

/* How a segment is to be made. */
struct plan {
    enum domain domain;
    uint64_t part_bytes; /* 0: the backing knows no parts */
};

/* --- records ------------------------------------------------------------------------------------
 */

/* Words of the bitmap of run starts; its second level has one bit for each. */
static size_t starts_words(uint64_t pages)
{
    return (pages + 63) / 64;
}

static size_t starts_bytes(uint64_t pages)
{
    return (starts_words(pages) + (starts_words(pages) + 63) / 64) * sizeof(uint64_t);
}

static void segment_tables_drop(struct pool *pool, struct segment *segment)
{
    metadata_give(&pool->metadata, segment->page_run, segment->pages * sizeof(struct run *));
    metadata_give(&pool->metadata, segment->run_starts, starts_bytes(segment->pages));
    segment->page_run = NULL;
    segment->run_starts = NULL;
}

/* A record with tables for `bytes`. Records are never given back to anything but this pool's list
 * of spare ones, so that a look-up without a lock may read segment->pool at any time. */
static struct segment *segment_make(struct pool *pool, uint64_t bytes)
{
    struct segment *segment = pool->spare_segments;
    if (segment != NULL)
        pool->spare_segments = segment->next;
    else
        segment = metadata_take(&pool->segment_records, sizeof(*segment));
    if (segment == NULL)
        return NULL;
    segment->gap_pages = segment->lost_pages = 0;
    if (segment->pool == NULL) /* fresh; else it is read without a lock at this moment */
        segment->pool = pool;
    segment->pages = bytes / POOL_PAGE_BYTES;
    segment->page_run = metadata_take(&pool->metadata, segment->pages * sizeof(struct run *));
    segment->run_starts = metadata_take(&pool->metadata, starts_bytes(segment->pages));
    if (segment->run_starts != NULL)
        segment->start_words = segment->run_starts + starts_words(segment->pages);
    return segment;
}

void arena_segment_drop(struct pool *pool, struct segment *segment)
{
    segment_tables_drop(pool, segment);
    segment->bytes = 0;
    segment->next = pool->spare_segments;
    pool->spare_segments = segment;
}

static void segment_list(struct pool *pool, struct segment *segment)
{
    segment->previous = NULL;
    segment->next = pool->segments;
    if (pool->segments != NULL)
        pool->segments->previous = segment;
    pool->segments = segment;
}

void arena_segment_unlist(struct pool *pool, struct segment *segment)
{
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
}

/* The memory is the pool's now. False: the host has no memory for the records. */
static bool segment_add_locked(struct pool *pool, uint64_t address, uint64_t bytes,
                               const struct plan *plan)
{
    struct segment *segment = segment_make(pool, bytes);
    if (segment == NULL)
        return false;
    segment->address = address;
    segment->bytes = bytes;
    segment->part_pages = plan->part_bytes / POOL_PAGE_BYTES;
    segment->domain = plan->domain;
    if (segment->page_run == NULL || segment->run_starts == NULL ||
        !buddy_segment_add(pool, segment)) {
        arena_segment_drop(pool, segment);
        return false;
    }
    page_map_set(address, bytes, segment);
    segment_list(pool, segment);
    history_observe(pool);
    pool->stats.segments++;
    pool->stats.segment_acquires++;
    pool->stats.backed_bytes += bytes;
    if (pool->stats.backed_bytes > pool->stats.peak_backed_bytes) {
        pool->stats.peak_backed_bytes = pool->stats.backed_bytes;
        history_peak_backed(pool);
    }
    levels_changed(pool);
    return true;
}

/* --- growth
 * ----------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void arena_look(struct pool *pool, uint64_t bytes)
{
    if (pool->backing.room == NULL)
        return;
    uint64_t total_bytes = 0;
    uint64_t room_bytes = pool->backing.room(pool->backing.self, &total_bytes);
    lock_take(&pool->lock);
    uint64_t most_bytes = room_bytes + pool->stats.backed_bytes;
    uint64_t share =
        pool->backing.acquire_parts != NULL ? PARTS_RESERVE_SHARE : ARENA_RESERVE_SHARE;
    uint64_t reserve_bytes = least(most_bytes / share, ARENA_RESERVE_MAX_BYTES);
    uint64_t live_bytes = pool->stats.live_block_bytes + pool->stats.limbo_bytes;
    live_bytes = (int64_t)live_bytes > 0 ? live_bytes : 0; /* threads may have yet to count */
    pool->scarce = pool->config.slack_percent == 0 ||
                   most_bytes - reserve_bytes < live_bytes + bytes ||
                   room_bytes < reserve_bytes + bytes;
    pool->segment_max_bytes = most_bytes / ARENA_SEGMENT_SHARE;
    caches_decide(pool);
    lock_give(&pool->lock);
}

/* Where frees are deferred and the GPU is behind, a small pool would be doubled by one segment. */
static bool gentle_locked(const struct pool *pool)
{
    return pool->config.patience_us > 0 && pool->stats.backed_bytes < ARENA_SMALL_BYTES;
}

/* A segment as long as some blocks of the size that is asked for, where that is long: a card full
 * of blocks of 26 MiB would lose a sixth in segments of 128 MiB. Only once a sixteenth of the card
 * is held: until then it makes little difference to what fits, and such segments are reused less
 * (recorded GPT training on a large card: held 1.10 of what the driver would, instead of 1.00;
 * deferred, 50 ms behind: 1.16 instead of 1.06). */
static uint64_t whole_blocks_locked(const struct pool *pool, uint64_t bytes, uint64_t need_bytes)
{
    bool early = pool->stats.backed_bytes < pool->segment_max_bytes;
    if (early || pool->backing.acquire_parts != NULL || need_bytes <= POOL_MEDIUM_BYTES ||
        bytes <= need_bytes)
        return bytes;
    return bytes - bytes % need_bytes;
}

static uint64_t growth_bytes_locked(struct pool *pool, uint64_t need_bytes, bool exact)
{
    bool large = need_bytes > POOL_LARGE_BYTES;
    uint64_t bytes = need_bytes;
    bool sparing = exact || pool->scarce;
    bool arena = !exact && !pool->arena_asked && !(pool->scarce && pool->arena_is_default);
    if (arena && (!large || need_bytes <= pool->config.arena_bytes)) {
        pool->arena_asked = true;
        bytes = pool->config.arena_bytes;
        if (pool->arena_is_default)
            bytes = least(bytes, pool->segment_max_bytes);
    } else if (!sparing && !large) {
        bool parts = pool->backing.acquire_parts != NULL;
        bytes =
            clamp(pool->stats.backed_bytes / 4,
                  parts ? ARENA_PARTS_MIN_BYTES : ARENA_SEGMENT_MIN_BYTES, ARENA_SEGMENT_MAX_BYTES);
        bytes = least(bytes, pool->segment_max_bytes);
        if (!arena_may_grow_locked(pool, bytes))
            bytes = parts ? need_bytes : gentle_locked(pool) ? ARENA_PARTS_MIN_BYTES : bytes;
        bytes = whole_blocks_locked(pool, bytes, need_bytes);
    }
    bytes = pool_round_up(bytes, BACKING_SEGMENT_ALIGN_BYTES);
    return bytes > need_bytes ? bytes : need_bytes;
}

/* What the limit leaves, in whole segments' steps. */
static uint64_t limit_room_locked(const struct pool *pool)
{
    uint64_t held = pool->stats.backed_bytes + pool->releasing_bytes;
    if (pool->config.limit_bytes == 0)
        return UINT64_MAX;
    uint64_t room = pool->config.limit_bytes > held ? pool->config.limit_bytes - held : 0;
    return room / BACKING_SEGMENT_ALIGN_BYTES * BACKING_SEGMENT_ALIGN_BYTES;
}

static enum backing_status backing_acquire(struct pool *pool, uint64_t bytes, uint64_t part_bytes,
                                           uint64_t *address_out)
{
    const struct backing *backing = &pool->backing;
    return backing->acquire_parts == NULL
               ? backing->acquire(backing->self, bytes, address_out)
               : backing->acquire_parts(backing->self, bytes, part_bytes, address_out);
}

/* Gives a whole acquisition back. */
static enum backing_status backing_release(struct pool *pool, uint64_t address, uint64_t bytes,
                                           uint64_t part_bytes)
{
    const struct backing *backing = &pool->backing;
    if (backing->acquire_parts == NULL)
        return backing->release(backing->self, address, bytes);
    enum backing_status status = backing->release_parts(backing->self, address, bytes, part_bytes);
    if (status == BACKING_OK)
        backing->retire(backing->self, address, bytes);
    return status;
}

/* A segment of this length was got. */
static void returning_note_locked(struct pool *pool, uint64_t bytes)
{
    struct returning *returning = &pool->returning;
    bool soon = pool->stats.frees - returning->at_frees <= RETURN_FREES;
    if (bytes != returning->bytes)
        *returning = (struct returning){0};
    else
        returning->times = soon ? returning->times + 1 : 0;
}

static bool segment_acquire(struct pool *pool, uint64_t bytes, const struct plan *plan,
                            enum backing_status *status_out, struct arena_unused *unused_out)
{
    uint64_t address = 0;
    *status_out = backing_acquire(pool, bytes, plan->part_bytes, &address);
    bool acquired = *status_out == BACKING_OK;
    bool mapped = acquired && page_map_reserve(address, bytes);
    lock_take(&pool->lock);
    bool added = mapped && !pool->closed && segment_add_locked(pool, address, bytes, plan);
    if (added) {
        returning_note_locked(pool, bytes);
        caches_decide(pool);
    }
    if (!acquired)
        pool->stats.segment_acquire_failures++;
    if (acquired && !added) {
        *unused_out = (struct arena_unused){
            .address = address, .bytes = bytes, .part_bytes = plan->part_bytes};
        *status_out = BACKING_FAILED;
        pool->metadata.refused = true;
        pool->releasing_bytes += bytes;
        pool->releases++;
        pool->unlocked++;
    }
    lock_give(&pool->lock);
    return added;
}

void arena_discard(struct pool *pool, const struct arena_unused *unused)
{
    if (unused->bytes == 0)
        return;
    enum backing_status status =
        backing_release(pool, unused->address, unused->bytes, unused->part_bytes);
    lock_take(&pool->lock);
    if (status != BACKING_OK) /* lost: nobody can be told of it */
        pool->stats.segment_release_failures++;
    pool->releasing_bytes -= unused->bytes;
    pool->releases--;
    pool_settled_tell(pool);
    lock_give(&pool->lock);
}

/* A large block's segment of its own is apart; all others are shared. Where memory is scarce, so is
 * that of every block for which the driver would take whole 2 MiB.
 * bytes: the block's, if the segment is its own, else 0. */
static struct plan plan_for(const struct pool *pool, uint64_t bytes, uint64_t size_bytes,
                            bool scarce)
{
    bool apart = bytes > (scarce ? POOL_MEDIUM_BYTES : POOL_LARGE_BYTES);
    return (struct plan){.domain = apart ? DOMAIN_LARGE : DOMAIN_SHARED,
                         .part_bytes = parts_bytes_for(pool, size_bytes, scarce)};
}

/* Known without asking the driver. With the growth lock held what is held can only fall, so the
 * answer stays true. */
static bool limit_allows(struct pool *pool, uint64_t bytes)
{
    lock_take(&pool->lock);
    bool allows = !pool->closed && bytes <= limit_room_locked(pool);
    lock_give(&pool->lock);
    return allows;
}

bool arena_grow(struct pool *pool, uint64_t bytes, bool exact, struct arena_unused *unused_out)
{
    uint64_t need_bytes = pool_round_up(bytes, BACKING_SEGMENT_ALIGN_BYTES);
    enum backing_status status = BACKING_NO_MEMORY;
    if (!limit_allows(pool, need_bytes))
        return false;
    arena_look(pool, need_bytes);
    lock_take(&pool->lock);
    history_fragmented(pool, bytes);
    bool scarce = pool->scarce;
    uint64_t room_bytes = limit_room_locked(pool);
    uint64_t size_bytes = growth_bytes_locked(pool, need_bytes, exact);
    lock_give(&pool->lock);
    size_bytes = size_bytes < room_bytes ? size_bytes : room_bytes;
    for (;;) {
        bool own = size_bytes == need_bytes;
        struct plan plan = plan_for(pool, own ? bytes : 0, size_bytes, scarce);
        if (segment_acquire(pool, size_bytes, &plan, &status, unused_out))
            return true;
        if (status != BACKING_NO_MEMORY || own)
            return false;
        size_bytes = pool_round_up(size_bytes / 2, BACKING_SEGMENT_ALIGN_BYTES);
        size_bytes = size_bytes > need_bytes ? size_bytes : need_bytes;
    }
}

/* --- release
 * ------------------------------------------------------------------------------------------- */

/* What may be held: a share of the highest live total and a floor; or the first segment. */
static uint64_t budget_bytes_locked(const struct pool *pool, uint64_t percent)
{
    uint64_t budget, floor_bytes = ARENA_IDLE_FLOOR_BYTES;
    if (pool->backing.acquire_parts != NULL &&
        pool->stats.peak_live_block_bytes < ARENA_SMALL_BYTES)
        floor_bytes = PARTS_IDLE_FLOOR_BYTES;
    if (__builtin_mul_overflow(pool->stats.peak_live_block_bytes / 100, percent, &budget) ||
        __builtin_add_overflow(budget, floor_bytes, &budget))
        return UINT64_MAX;
    return budget > pool->config.arena_bytes ? budget : pool->config.arena_bytes;
}

bool arena_may_grow_locked(const struct pool *pool, uint64_t bytes)
{
    uint64_t percent = pool->config.slack_percent;
    if (pool->backing.acquire_parts != NULL && percent < PARTS_PERCENT)
        percent = PARTS_PERCENT;
    return pool->stats.backed_bytes + bytes <= budget_bytes_locked(pool, percent);
}

uint64_t arena_over_budget_locked(const struct pool *pool)
{
    if (pool->backing.acquire_parts != NULL) /* given back before anything is grown */
        return 0;
    uint64_t budget_bytes = budget_bytes_locked(pool, pool->config.slack_percent);
    uint64_t backed_bytes = pool->stats.backed_bytes;
    return backed_bytes > budget_bytes ? backed_bytes - budget_bytes : 0;
}

/* The segment that has been idle for longest among those of at most `bytes`. Only the oldest few
 * are looked at, unless any will do. */
static struct segment *idle_within(const struct pool *pool, uint64_t bytes)
{
    struct segment *segment = pool->idle_oldest;
    for (int looks = 0; segment != NULL && segment->bytes > bytes; looks++)
        segment = looks < IDLE_LOOKS_MAX ? segment->idle_next : NULL;
    return segment;
}

uint64_t arena_excess_locked(const struct pool *pool)
{
    uint64_t idle_bytes = pool->stats.idle_segment_bytes;
    uint64_t stays_bytes = pool->returning.times >= RETURNS_LEAST ? pool->returning.bytes : 0;
    idle_bytes -= least(idle_bytes, stays_bytes);
    uint64_t over_bytes = least(arena_over_budget_locked(pool), idle_bytes);
    return over_bytes > 0 && idle_within(pool, over_bytes) != NULL ? over_bytes : 0;
}

void arena_idle_add(struct pool *pool, struct segment *segment)
{
    pool->stats.idle_segment_bytes += segment->bytes;
    segment->idle_next = NULL;
    segment->idle_previous = pool->idle_newest;
    if (pool->idle_newest != NULL)
        pool->idle_newest->idle_next = segment;
    else
        pool->idle_oldest = segment;
    pool->idle_newest = segment;
}

void arena_idle_remove(struct pool *pool, struct segment *segment)
{
    pool->stats.idle_segment_bytes -= segment->bytes;
    if (segment->idle_previous != NULL)
        segment->idle_previous->idle_next = segment->idle_next;
    else
        pool->idle_oldest = segment->idle_next;
    if (segment->idle_next != NULL)
        segment->idle_next->idle_previous = segment->idle_previous;
    else
        pool->idle_newest = segment->idle_previous;
}

/* Takes an idle segment away from everybody: no address of it is the pool's any more. */
static void segment_detach_locked(struct pool *pool, struct segment *segment)
{
    page_map_set(segment->address, segment->bytes, NULL);
    buddy_segment_detach(pool, segment);
    arena_segment_unlist(pool, segment);
    history_observe(pool);
    pool->stats.segments--;
    pool->stats.backed_bytes -= segment->bytes;
    levels_changed(pool);
    pool->releasing_bytes += segment->bytes;
    pool->releases++;
    pool->unlocked++;
}

/* The backing answered: the segment is gone, or whole again. */
static void segment_settle_locked(struct pool *pool, struct segment *segment, bool released)
{
    pool->releasing_bytes -= segment->bytes;
    pool->releases--;
    if (released) {
        pool->stats.segment_releases++;
        if (segment->bytes != pool->returning.bytes)
            pool->returning = (struct returning){.bytes = segment->bytes};
        pool->returning.at_frees = pool->stats.frees;
        buddy_segment_end(pool, segment);
        arena_segment_drop(pool, segment);
    } else {
        pool->stats.segment_release_failures++;
        history_observe(pool);
        pool->stats.segments++;
        pool->stats.backed_bytes += segment->bytes;
        levels_changed(pool);
        buddy_segment_attach(pool, segment);
        segment_list(pool, segment);
        page_map_set(segment->address, segment->bytes, segment);
    }
    pool_settled_tell(pool);
}

uint64_t arena_segment_release(struct pool *pool, struct segment *segment)
{
    uint64_t address = segment->address, bytes = segment->bytes;
    segment_detach_locked(pool, segment);
    lock_give(&pool->lock);
    enum backing_status status = pool->backing.release(pool->backing.self, address, bytes);
    lock_take(&pool->lock);
    segment_settle_locked(pool, segment, status == BACKING_OK);
    caches_decide(pool);
    return status == BACKING_OK ? bytes : 0;
}

/* Releases the segment that has been idle for longest (what was in use a moment ago will be asked
 * for again) and leaves at least keep_bytes of idle memory. Returns its bytes; 0: none was
 * released. The lock is held on entry and on return, not in between. */
static uint64_t segment_release_one(struct pool *pool, uint64_t keep_bytes)
{
    if (!pool_may_release(pool) || pool->stats.idle_segment_bytes <= keep_bytes)
        return 0;
    uint64_t excess_bytes = pool->stats.idle_segment_bytes - keep_bytes;
    struct segment *segment = idle_within(pool, keep_bytes > 0 ? excess_bytes : UINT64_MAX);
    return segment != NULL ? arena_segment_release(pool, segment) : 0;
}

/* Parts need not be idle segments' to be given back. */
static uint64_t release_parts(struct pool *pool, uint64_t keep_bytes, uint64_t want_bytes)
{
    uint64_t spare_bytes = pool->stats.run_free_bytes;
    spare_bytes = spare_bytes > keep_bytes ? spare_bytes - keep_bytes : 0;
    return parts_release(pool, want_bytes < spare_bytes ? want_bytes : spare_bytes);
}

uint64_t arena_release(struct pool *pool, uint64_t keep_bytes, uint64_t want_bytes)
{
    uint64_t released = 0, one = 1;
    lock_take(&pool->lock);
    caches_flush(pool);
    if (!pool->closed && keep_bytes == 0)
        slab_flush(pool);
    if (pool->backing.acquire_parts != NULL) {
        released = release_parts(pool, keep_bytes, want_bytes);
        lock_give(&pool->lock);
        return released;
    }
    uint64_t idle_bytes = pool->stats.idle_segment_bytes; /* what becomes idle meanwhile may stay */
    want_bytes = want_bytes < idle_bytes ? want_bytes : idle_bytes;
    while (one > 0 && released < want_bytes) {
        one = segment_release_one(pool, keep_bytes);
        released += one;
    }
    lock_give(&pool->lock);
    return released;
}

void arena_end(struct pool *pool, bool release_segments)
{
    while (pool->segments != NULL) {
        struct segment *segment = pool->segments;
        page_map_set(segment->address, segment->bytes, NULL);
        arena_segment_unlist(pool, segment);
        if (release_segments && segment->part_pages > 0)
            parts_release_segment(pool, segment);
        else if (release_segments)
            pool->backing.release(pool->backing.self, segment->address, segment->bytes);
        arena_segment_drop(pool, segment);
    }
}
