/* limbo.c - freed blocks that GPU work may still touch.
 *
 * A block freed in stream order is filed under its stream, in the order of the frees, with a fence
 * recorded at its free. Three ways lead out:
 *   - the stream that freed it takes it again: the stream's own order is enough (limbo_reuse). A
 *     run may be up to an eighth longer than asked for; its tail stays here, under the same fence;
 *   - its fence has passed: it is free for anyone (pool_collect);
 *   - all work is known to have ended (pool_collect_all).
 * A fence speaks for its own block only. Two threads that free on one stream may hand in their
 * fences in another order than they recorded them, so a later one in the list that has passed says
 * nothing of an earlier one. A collector asks from the oldest on and leaves a stream at the first
 * that has not passed; blocks in a row that share a fence are one question. So that is one question
 * a fence, and one a stream. It goes on behind a fence that failed, and where no stream orders the
 * blocks.
 *
 * Fences are asked without the pool's lock. The collector marks the record it asks about as polled;
 * a polled record stays in its stream's list, whoever takes the block meanwhile: it is marked as
 * detached, and the collector, on its return, drops the fence and ends the record. So no fence is
 * asked after it was dropped, and the collector's place in the list stays valid. There is one
 * collector at a time, and only the collector ends stream records.
 *
 * A fence that failed never passes: its blocks stay here.
 * Lock: pool.lock, held by the caller, except where pool_internal.h and pool.h say that it is
 * taken.
 */
#include "pool_internal.h"

enum {
    SCAN_MAX = 64,  /* records looked at for one reuse */
    MISSES_MAX = 16 /* questions not answered "passed" before a collector leaves a stream */
};

static unsigned stream_bucket(uint64_t id)
{
    return (unsigned)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % LIMBO_STREAM_BUCKETS;
}

/* Slots are filed by their size. Runs are filed by eighths of a doubling: one class holds lengths
 * that differ by less than an eighth. */
static int class_shift(uint64_t pages)
{
    return pages < 8 ? 0 : 60 - __builtin_clzll(pages);
}

static uint64_t size_key(uint64_t block_bytes)
{
    uint64_t pages = block_bytes / POOL_PAGE_BYTES;
    if (block_bytes <= SIZE_CLASS_MAX_BYTES)
        return block_bytes;
    int shift = class_shift(pages);
    return (((uint64_t)shift << 4 | pages >> shift) << 16) + 1;
}

static struct pending **size_bucket(struct pool *pool, uint64_t id, uint64_t key)
{
    uint64_t hash = (id * 31 + key) * UINT64_C(0x9E3779B97F4A7C15);
    return &pool->limbo.sizes[(hash >> 32) % LIMBO_SIZE_BUCKETS];
}

static struct pending **bucket_of(struct pool *pool, const struct pending *pending)
{
    return size_bucket(pool, pending->stream->id, size_key(pending->block.block_bytes));
}

/* --- lists ----------------------------------------------------------------------------------- */

static struct limbo_stream *stream_find(const struct pool *pool, uint64_t id)
{
    struct limbo_stream *stream = pool->limbo.streams[stream_bucket(id)];
    while (stream != NULL && stream->id != id)
        stream = stream->next;
    return stream;
}

static struct limbo_stream *stream_make(struct pool *pool, uint64_t id)
{
    struct limbo_stream *stream = metadata_take(&pool->metadata, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->id = id;
    stream->next = pool->limbo.streams[stream_bucket(id)];
    pool->limbo.streams[stream_bucket(id)] = stream;
    stream->all = pool->limbo.all;
    pool->limbo.all = stream;
    return stream;
}

static void bucket_push(struct pool *pool, struct pending *pending)
{
    struct pending **bucket = bucket_of(pool, pending);
    pending->bucket_previous = NULL;
    pending->bucket_next = *bucket;
    if (*bucket != NULL)
        (*bucket)->bucket_previous = pending;
    *bucket = pending;
}

static void bucket_remove(struct pool *pool, struct pending *pending)
{
    struct pending **bucket = bucket_of(pool, pending);
    if (pending->bucket_previous != NULL)
        pending->bucket_previous->bucket_next = pending->bucket_next;
    else if (*bucket == pending)
        *bucket = pending->bucket_next;
    if (pending->bucket_next != NULL)
        pending->bucket_next->bucket_previous = pending->bucket_previous;
    pending->bucket_next = pending->bucket_previous = NULL;
}

static void order_push(struct limbo_stream *stream, struct pending *pending)
{
    pending->next = NULL;
    pending->previous = stream->newest;
    if (stream->newest != NULL)
        stream->newest->next = pending;
    else
        stream->oldest = pending;
    stream->newest = pending;
    stream->blocks++;
}

static void order_remove(struct pending *pending)
{
    struct limbo_stream *stream = pending->stream;
    if (pending->previous != NULL)
        pending->previous->next = pending->next;
    else
        stream->oldest = pending->next;
    if (pending->next != NULL)
        pending->next->previous = pending->previous;
    else
        stream->newest = pending->previous;
    stream->blocks--;
}

/* Nobody can reuse the block any more. */
static void pending_unfile(struct pool *pool, struct pending *pending)
{
    if (pending->stream->id != POOL_NO_STREAM)
        bucket_remove(pool, pending);
}

bool limbo_add(struct pool *pool, const struct pool_block *block, uint64_t stream_id,
               uint64_t fence)
{
    struct limbo_stream *stream = stream_find(pool, stream_id);
    if (stream == NULL)
        stream = stream_make(pool, stream_id);
    struct pending *pending =
        stream != NULL ? metadata_take(&pool->metadata, sizeof(*pending)) : NULL;
    if (pending == NULL)
        return false;
    pending->stream = stream;
    pending->fence = fence;
    pending->block = *block;
    order_push(stream, pending);
    if (stream_id != POOL_NO_STREAM)
        bucket_push(pool, pending);
    return true;
}

/* The best of one bucket for a block of min_bytes to max_bytes: the shortest, the newest among
 * equals. At most *scans records are looked at. */
static struct pending *bucket_best(struct pending *bucket, uint64_t id, uint64_t min_bytes,
                                   uint64_t max_bytes, int *scans)
{
    struct pending *best = NULL;
    for (struct pending *p = bucket; p != NULL && *scans > 0; p = p->bucket_next, --*scans) {
        uint64_t bytes = p->block.block_bytes;
        if (p->stream->id != id || bytes < min_bytes || bytes > max_bytes ||
            (best != NULL && bytes >= best->block.block_bytes))
            continue;
        best = p;
        if (bytes == min_bytes)
            break;
    }
    return best;
}

/* Slots are met exactly; runs by one that is up to an eighth longer. */
static struct pending *pending_best(struct pool *pool, uint64_t id, uint64_t block_bytes)
{
    struct pending **bucket = size_bucket(pool, id, size_key(block_bytes));
    uint64_t pages = block_bytes / POOL_PAGE_BYTES;
    uint64_t max_pages = pages + pages / 8;
    int scans = SCAN_MAX;
    if (block_bytes <= SIZE_CLASS_MAX_BYTES)
        return bucket_best(*bucket, id, block_bytes, block_bytes, &scans);
    uint64_t max_bytes = max_pages * POOL_PAGE_BYTES;
    struct pending *best = NULL;
    while (best == NULL && pages <= max_pages) { /* three classes at most */
        bucket = size_bucket(pool, id, size_key(pages * POOL_PAGE_BYTES));
        best = bucket_best(*bucket, id, block_bytes, max_bytes, &scans);
        int shift = class_shift(pages);
        pages = ((pages >> shift) + 1) << shift; /* where the next class begins */
    }
    return best;
}

/* Leaves what is beyond block_bytes in limbo: the record, its place in the order and its fence now
 * stand for the tail. False: the host has no memory. */
static bool pending_split(struct pool *pool, struct pending *pending, uint64_t block_bytes)
{
    struct run *tail = buddy_split(pool, pending->block.record, block_bytes / POOL_PAGE_BYTES);
    if (tail == NULL)
        return false;
    block_info_set(&tail->block, block_word(++pool->last_serial, POOL_BLOCK_PENDING),
                   tail->pages * POOL_PAGE_BYTES, pending->block.tag);
    bucket_remove(pool, pending);
    pool_block_describe(tail, POOL_SLOT_NONE, &pending->block);
    bucket_push(pool, pending);
    pool->stats.limbo_blocks++;
    return true;
}

#ifdef VRAMALLOC_PLANT_TAIL_FREE
/* The tail merges with free neighbours, and its fence is forgotten. */
static bool tail_free(struct pool *pool, struct pending *pending, struct pool_block *block)
{
    struct run *tail = buddy_split(pool, block->record, block->block_bytes / POOL_PAGE_BYTES);
    if (tail == NULL)
        return false;
    pool->stats.limbo_bytes -= pending->block.block_bytes - block->block_bytes;
    buddy_give(pool, tail);
    return true;
}
#endif

bool limbo_reuse(struct pool *pool, uint64_t stream_id, uint64_t block_bytes,
                 struct pool_block *block_out, uint64_t *fence_out, bool *drop_out)
{
    struct pending *pending = pending_best(pool, stream_id, block_bytes);
    if (pending == NULL)
        return false;
    *block_out = pending->block;
    *drop_out = false;
    if (pending->block.block_bytes > block_bytes) {
        block_out->block_bytes = block_bytes;
#ifdef VRAMALLOC_PLANT_TAIL_FREE
        if (!tail_free(pool, pending, block_out))
            return false;
    }
    if (false) {
#endif
        return pending_split(pool, pending, block_bytes);
    }
    bucket_remove(pool, pending);
    if (pending->polled) {
        pending->detached = true;
        return true;
    }
    order_remove(pending);
    *fence_out = pending->fence;
    *drop_out = true;
    metadata_give(&pool->metadata, pending, sizeof(*pending));
    return true;
}

void pool_forget_stream(struct pool *pool, uint64_t stream_id)
{
    if (stream_id == POOL_NO_STREAM)
        return;
    lock_take(&pool->lock);
    struct limbo_stream **link = &pool->limbo.streams[stream_bucket(stream_id)];
    while (*link != NULL && (*link)->id != stream_id)
        link = &(*link)->next;
    struct limbo_stream *stream = *link;
    if (stream != NULL && !pool->closed) {
        *link = stream->next;
        for (struct pending *p = stream->oldest; p != NULL; p = p->next)
            if (!p->detached)
                bucket_remove(pool, p);
        stream->id = POOL_NO_STREAM; /* the record ends when a collector finds it empty */
    }
    lock_give(&pool->lock);
}

/* --- collecting --------------------------------------------------------------------------------
 */

/* What a collector took out: fences to drop without the lock, then records to give back with it. */
struct collected {
    struct pending *first; /* linked by next */
    uint64_t blocks;
};

/* The record is done with. */
static void pending_end(struct pending *pending, struct collected *collected)
{
    order_remove(pending);
    pending->next = collected->first;
    collected->first = pending;
}

/* The block is free for anyone. */
static void pending_pass(struct pool *pool, struct pending *pending, struct collected *collected)
{
    pending_unfile(pool, pending);
    pending_end(pending, collected);
    pool_block_pass_locked(pool, &pending->block);
    collected->blocks++;
    pool->collected++;
}

/* Asks about one record without the lock, which is held again on return. */
static enum backing_fence_state pending_ask(struct pool *pool, struct pending *pending, bool wait)
{
    enum backing_fence_state (*ask)(void *, uint64_t) =
        wait ? pool->backing.fence_wait : pool->backing.fence_poll;
    uint64_t fence = pending->fence;
    pending->polled = true;
    if (wait)
        pool->stats.fence_waits++;
    else
        pool->stats.fence_polls++;
    lock_give(&pool->lock);
    enum backing_fence_state state =
        ask != NULL ? ask(pool->backing.self, fence) : BACKING_FENCE_PENDING;
    lock_take(&pool->lock);
    pending->polled = false;
    return pending->passed ? BACKING_FENCE_PASSED : state;
}

/* Frees what has passed of one stream, as far as it was filed when this began. */
static void stream_collect(struct pool *pool, struct limbo_stream *stream, bool wait,
                           struct collected *collected)
{
    int misses = MISSES_MAX;
    uint64_t blocks = stream->blocks;
    struct pending *passed = NULL; /* the latest; its fence is held until the end */
    struct pending *next;
    for (struct pending *p = stream->oldest; p != NULL && blocks > 0 && misses > 0; p = next) {
        enum backing_fence_state state = passed != NULL && passed->fence == p->fence
                                             ? BACKING_FENCE_PASSED
                                             : pending_ask(pool, p, wait);
        next = p->next;
        blocks--;
        if (p->detached)
            pending_end(p, collected);
        else if (state == BACKING_FENCE_PASSED)
            pending_pass(pool, passed = p, collected);
        else if (!wait && state == BACKING_FENCE_PENDING && stream->id != POOL_NO_STREAM)
            misses = 0;
        else if (!wait)
            misses--;
    }
}

static void streams_sweep(struct pool *pool)
{
    struct limbo_stream **link = &pool->limbo.all;
    while (*link != NULL) {
        struct limbo_stream *stream = *link;
        bool ended = stream->id == POOL_NO_STREAM && stream->oldest == NULL &&
                     stream_find(pool, POOL_NO_STREAM) != stream;
        if (ended) {
            *link = stream->all;
            metadata_give(&pool->metadata, stream, sizeof(*stream));
        } else {
            link = &stream->all;
        }
    }
}

/* Drops the fences and gives the records back. The lock is held on entry and on return. */
static uint64_t collected_end(struct pool *pool, struct collected *collected)
{
    lock_give(&pool->lock);
    for (struct pending *p = collected->first; p != NULL; p = p->next)
        if (pool->backing.fence_drop != NULL)
            pool->backing.fence_drop(pool->backing.self, p->fence);
    lock_take(&pool->lock);
    while (collected->first != NULL) {
        struct pending *pending = collected->first;
        collected->first = pending->next;
        metadata_give(&pool->metadata, pending, sizeof(*pending));
    }
    return collected->blocks;
}

/* One collector at a time: another one's presence sends a poll away, a wait waits for it. */
static bool collector_enter(struct pool *pool, bool wait)
{
    while (wait && !pool->closed && pool->limbo.collecting)
        pool_settled_wait(pool);
    if (pool->closed || pool->limbo.collecting || pool->limbo.all == NULL)
        return false;
    pool->limbo.collecting = true;
    pool->unlocked++;
    return true;
}

static uint64_t collect(struct pool *pool, bool wait)
{
    struct collected collected = {0};
    uint64_t blocks = 0;
    lock_take(&pool->lock);
    cache_fold(pool);
    if (collector_enter(pool, wait)) {
        for (struct limbo_stream *stream = pool->limbo.all; stream != NULL; stream = stream->all)
            stream_collect(pool, stream, wait, &collected);
        streams_sweep(pool);
        blocks = collected_end(pool, &collected);
        pool->limbo.collecting = false;
        pool_settled_tell(pool);
    }
    lock_give(&pool->lock);
    return blocks;
}

uint64_t pool_collect(struct pool *pool)
{
    return collect(pool, false);
}

uint64_t limbo_wait(struct pool *pool)
{
    return collect(pool, true);
}

static void stream_pass_all(struct pool *pool, struct limbo_stream *stream,
                            struct collected *collected)
{
    struct pending *next;
    for (struct pending *p = stream->oldest; p != NULL; p = next) {
        next = p->next;
        if (p->polled)
            p->passed = true; /* its collector frees it */
        else
            pending_pass(pool, p, collected);
    }
}

uint64_t pool_collect_all(struct pool *pool)
{
    struct collected collected = {0};
    uint64_t blocks = 0;
    lock_take(&pool->lock);
    cache_fold(pool);
    if (!pool->closed) {
        pool->unlocked++;
        for (struct limbo_stream *s = pool->limbo.all; s != NULL; s = s->all)
            stream_pass_all(pool, s, &collected);
        blocks = collected_end(pool, &collected);
        pool_settled_tell(pool);
    }
    lock_give(&pool->lock);
    return blocks;
}

void limbo_end(struct pool *pool)
{
    for (struct limbo_stream *s = pool->limbo.all; s != NULL; s = s->all)
        for (struct pending *p = s->oldest; p != NULL; p = p->next)
            if (pool->backing.fence_drop != NULL)
                pool->backing.fence_drop(pool->backing.self, p->fence);
    lock_take(&pool->lock);
    pool->limbo = (struct limbo){0};
    lock_give(&pool->lock);
}
