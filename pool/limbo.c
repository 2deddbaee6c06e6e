/* limbo.c - freed blocks that GPU work may still touch.
 *
 * A block freed in stream order is filed under its stream, in the order of the frees, with a fence
 * recorded at its free. Three ways lead out:
 *   - the stream that freed it takes it again: the stream's own order is enough (limbo_reuse);
 *   - its fence has passed: it is free for anyone (pool_collect);
 *   - all work is known to have ended (pool_collect_all).
 * Fences of one stream pass in order, so a collector asks the newest first: if that has passed, so
 * have all. Otherwise it asks from the oldest on.
 *
 * Fences are asked without the pool's lock. The collector marks the record it asks about as polled;
 * a thread that reuses the block meanwhile takes it out of the lists but leaves fence and record to
 * the collector, so no fence is asked after it was dropped. There is one collector at a time, and
 * only the collector ends stream records, so its walk over the streams stays valid.
 *
 * A fence that failed never passes: its blocks stay here.
 * Lock: pool.lock, held by the caller, except in pool_collect(), which takes it.
 */
#include "pool_internal.h"

enum { POLLS_FROM_OLDEST = 16 };

static unsigned stream_bucket(uint64_t id)
{
    return (unsigned)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % LIMBO_STREAM_BUCKETS;
}

static struct pending **size_bucket(struct pool *pool, uint64_t id, uint64_t block_bytes)
{
    uint64_t hash = (id * 31 + block_bytes) * UINT64_C(0x9E3779B97F4A7C15);
    return &pool->limbo.sizes[(hash >> 32) % LIMBO_SIZE_BUCKETS];
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
    struct pending **bucket = size_bucket(pool, pending->stream->id, pending->block.block_bytes);
    pending->bucket_previous = NULL;
    pending->bucket_next = *bucket;
    if (*bucket != NULL)
        (*bucket)->bucket_previous = pending;
    *bucket = pending;
}

static void bucket_remove(struct pool *pool, struct pending *pending)
{
    struct pending **bucket = size_bucket(pool, pending->stream->id, pending->block.block_bytes);
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
}

static void pending_unlink(struct pool *pool, struct pending *pending)
{
    if (pending->stream->id != POOL_NO_STREAM)
        bucket_remove(pool, pending);
    order_remove(pending);
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

bool limbo_reuse(struct pool *pool, uint64_t stream_id, uint64_t block_bytes,
                 struct pool_block *block_out, uint64_t *fence_out, bool *drop_out)
{
    struct pending *pending = *size_bucket(pool, stream_id, block_bytes);
    while (pending != NULL &&
           (pending->stream->id != stream_id || pending->block.block_bytes != block_bytes))
        pending = pending->bucket_next;
    if (pending == NULL)
        return false;
    pending_unlink(pool, pending);
    *block_out = pending->block;
    *fence_out = pending->fence;
    *drop_out = !pending->polled;
    if (pending->polled)
        pending->detached = true;
    else
        metadata_give(&pool->metadata, pending, sizeof(*pending));
    return true;
}

void pool_forget_stream(struct pool *pool, uint64_t stream_id)
{
    if (stream_id == POOL_NO_STREAM)
        return;
    pthread_mutex_lock(&pool->lock);
    struct limbo_stream **link = &pool->limbo.streams[stream_bucket(stream_id)];
    while (*link != NULL && (*link)->id != stream_id)
        link = &(*link)->next;
    struct limbo_stream *stream = *link;
    if (stream != NULL && !pool->closed) {
        *link = stream->next;
        for (struct pending *p = stream->oldest; p != NULL; p = p->next)
            bucket_remove(pool, p);
        stream->id = POOL_NO_STREAM; /* the record ends when a collector finds it empty */
    }
    pthread_mutex_unlock(&pool->lock);
}

/* --- collecting --------------------------------------------------------------------------------
 */

/* What a collector took out: fences to drop without the lock, then records to give back with it. */
struct collected {
    struct pending *first; /* linked by next */
    uint64_t blocks;
};

static void collected_add(struct collected *collected, struct pending *pending)
{
    pending->next = collected->first;
    collected->first = pending;
}

/* The block is free for anyone. */
static void pending_pass(struct pool *pool, struct pending *pending, struct collected *collected)
{
    pending_unlink(pool, pending);
    pool_block_free_locked(pool, &pending->block);
    collected_add(collected, pending);
    collected->blocks++;
}

/* Asks about one record without the lock. On return the lock is held again; *gone: the block was
 * reused meanwhile, and the record is among the collected. */
static enum backing_fence_state pending_ask(struct pool *pool, struct pending *pending, bool wait,
                                            struct collected *collected, bool *gone)
{
    enum backing_fence_state (*ask)(void *, uint64_t) =
        wait ? pool->backing.fence_wait : pool->backing.fence_poll;
    uint64_t fence = pending->fence;
    pending->polled = true;
    if (wait)
        pool->stats.fence_waits++;
    else
        pool->stats.fence_polls++;
    pthread_mutex_unlock(&pool->lock);
    enum backing_fence_state state =
        ask != NULL ? ask(pool->backing.self, fence) : BACKING_FENCE_PENDING;
    pthread_mutex_lock(&pool->lock);
    pending->polled = false;
    *gone = pending->detached;
    if (*gone)
        collected_add(collected, pending);
    return state;
}

static void stream_pass_until(struct pool *pool, struct limbo_stream *stream,
                              const struct pending *last, struct collected *collected)
{
    struct pending *pending;
    do {
        pending = stream->oldest;
        pending_pass(pool, pending, collected);
    } while (pending != last);
}

/* Frees what has passed of one stream. */
static void stream_collect(struct pool *pool, struct limbo_stream *stream, bool wait,
                           struct collected *collected)
{
    bool gone = false;
    for (int polls = 0; stream->newest != NULL && polls <= POLLS_FROM_OLDEST; polls++) {
        struct pending *asked = polls == 0 ? stream->newest : stream->oldest;
        enum backing_fence_state state = pending_ask(pool, asked, wait, collected, &gone);
        if (gone)
            continue;
        if (state == BACKING_FENCE_PASSED)
            stream_pass_until(pool, stream, asked, collected);
        else if (polls > 0 || stream->oldest == asked)
            return;
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
    pthread_mutex_unlock(&pool->lock);
    for (struct pending *p = collected->first; p != NULL; p = p->next)
        if (pool->backing.fence_drop != NULL)
            pool->backing.fence_drop(pool->backing.self, p->fence);
    pthread_mutex_lock(&pool->lock);
    while (collected->first != NULL) {
        struct pending *pending = collected->first;
        collected->first = pending->next;
        metadata_give(&pool->metadata, pending, sizeof(*pending));
    }
    return collected->blocks;
}

static uint64_t collect(struct pool *pool, bool wait)
{
    struct collected collected = {0};
    uint64_t blocks = 0;
    pthread_mutex_lock(&pool->lock);
    if (!pool->closed && !pool->limbo.collecting && pool->limbo.all != NULL) {
        pool->limbo.collecting = true;
        for (struct limbo_stream *stream = pool->limbo.all; stream != NULL; stream = stream->all)
            stream_collect(pool, stream, wait, &collected);
        streams_sweep(pool);
        blocks = collected_end(pool, &collected);
        pool->limbo.collecting = false;
        pthread_cond_broadcast(&pool->settled);
    }
    pthread_mutex_unlock(&pool->lock);
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

uint64_t pool_collect_all(struct pool *pool)
{
    struct collected collected = {0};
    pthread_mutex_lock(&pool->lock);
    for (struct limbo_stream *stream = pool->closed ? NULL : pool->limbo.all; stream != NULL;
         stream = stream->all) {
        struct pending *next;
        for (struct pending *pending = stream->oldest; pending != NULL; pending = next) {
            next = pending->next;
            if (!pending->polled) /* else its collector is about to find that it has passed */
                pending_pass(pool, pending, &collected);
        }
    }
    uint64_t blocks = collected_end(pool, &collected);
    pthread_mutex_unlock(&pool->lock);
    return blocks;
}
