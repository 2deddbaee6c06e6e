/* deferred.c - frees kept back, then fenced together. See deferred.h.
 *
 * A context has SHARDS batches, and a thread uses one of them, so that threads do not wait for each
 * other. What they may hold together is shared out among those that were ever used.
 *
 * The fence is recorded after the batch was taken out of reach and before its blocks are handed to
 * the pool: every free in the batch happened before the fence, so the fence covers all work
 * submitted before any of them. While a stream captures no fence may be recorded; the batch then
 * waits for the capture's end, and when it is full further frees wait the way a native free does.
 */
#define _GNU_SOURCE
#include "deferred.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "capture.h"
#include "driver.h"
#include "fence.h"
#include "options.h"
#include "wait.h"

enum { BATCH_BLOCKS = 64, SHARDS = 16 };
#define BATCH_BYTES                                                                                \
    ((uint64_t)64 << 20) /* batches are also full when they hold this much together */

/* Blocks of a batch are one stream to the pool: their fences pass in the order of the batches. */
#define DEFERRED_STREAM UINT64_MAX

struct batch {
    _Alignas(128) pthread_mutex_t lock;
    uint32_t count;
    uint64_t bytes;
    struct pool_block block[BATCH_BLOCKS];
};

struct deferred {
    uint32_t used; /* bit i: batch i has been. Atomic */
    struct batch batch[SHARDS];
};

static uint32_t threads_seen;
static __thread uint32_t shard_plus_1;

static uint32_t shard_own(void)
{
    if (shard_plus_1 == 0)
        shard_plus_1 = __atomic_fetch_add(&threads_seen, 1, __ATOMIC_RELAXED) % SHARDS + 1;
    return shard_plus_1 - 1;
}

struct deferred *deferred_create(void)
{
    if (strcmp(options.free_mode, "deferred") != 0 || real_cuCtxRecordEvent == NULL)
        return NULL;
    struct deferred *deferred =
        mmap(NULL, sizeof(*deferred), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (deferred == MAP_FAILED)
        return NULL;
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&deferred->batch[i].lock, NULL);
    return deferred;
}

void deferred_destroy(struct deferred *deferred)
{
    if (deferred != NULL)
        munmap(deferred, sizeof(*deferred));
}

uint64_t deferred_kept(const struct deferred *deferred)
{
    uint64_t kept = 0;
    for (int i = 0; deferred != NULL && i < SHARDS; i++)
        kept += __atomic_load_n(&deferred->batch[i].count, __ATOMIC_RELAXED);
    return kept;
}

/* The batch of the calling thread. bytes_max_out: what it may hold. */
static struct batch *batch_own(struct deferred *deferred, uint64_t *bytes_max_out)
{
    uint32_t shard = shard_own(), bit = (uint32_t)1 << shard;
    uint32_t used = __atomic_load_n(&deferred->used, __ATOMIC_RELAXED);
    if ((used & bit) == 0)
        used = __atomic_or_fetch(&deferred->used, bit, __ATOMIC_RELAXED);
    *bytes_max_out = BATCH_BYTES / (uint32_t)__builtin_popcount(used);
    return &deferred->batch[shard];
}

/* Keeps a block back. False: there is no room. full_out: the batch should be flushed. */
static bool batch_add(struct batch *batch, uint64_t bytes_max, const struct pool_block *block,
                      bool *full_out)
{
    pthread_mutex_lock(&batch->lock);
    bool room = batch->count < BATCH_BLOCKS;
    if (room) {
        batch->block[batch->count] = *block;
        __atomic_store_n(&batch->count, batch->count + 1, __ATOMIC_RELAXED);
        batch->bytes += block->block_bytes;
    }
    *full_out = batch->count == BATCH_BLOCKS || batch->bytes >= bytes_max;
    pthread_mutex_unlock(&batch->lock);
    return room;
}

/* Takes all out. Returns how many. */
static uint32_t batch_take(struct batch *batch, struct pool_block block[BATCH_BLOCKS])
{
    pthread_mutex_lock(&batch->lock);
    uint32_t count = batch->count;
    memcpy(block, batch->block, count * sizeof(block[0]));
    __atomic_store_n(&batch->count, 0, __ATOMIC_RELAXED);
    batch->bytes = 0;
    pthread_mutex_unlock(&batch->lock);
    return count;
}

static bool fence_record(struct context *context, uint64_t *fence_out)
{
    CUcontext current = NULL;
    if (real_cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    bool entered = wait_enter(context->handle, current);
    bool recorded =
        (entered || current == context->handle) && fence_after_context(context, fence_out);
    wait_leave(entered);
    return recorded;
}

/* One wait in place of the fence, for all of them. False: it could not be had. */
static bool batch_wait(struct context *context, const struct pool_block *block, uint32_t count)
{
    bool later;
    CUcontext current = NULL;
    real_cuCtxGetCurrent(&current);
    if (wait_as_free(context, current, &later) != CUDA_SUCCESS || later)
        return false;
    for (uint32_t i = 0; i < count; i++)
        pool_free_finish(&block[i]);
    return true;
}

/* No fence can be recorded: in a free, which waits natively, one wait does; else what finds room
 * again is kept back, the rest waits as a native free does. */
static void batch_return(struct context *context, struct batch *batch,
                         const struct pool_block *block, uint32_t count, bool may_wait)
{
    bool full, later;
    if (may_wait && batch_wait(context, block, count))
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (batch_add(batch, BATCH_BYTES, &block[i], &full))
            continue;
        CUcontext current = NULL;
        real_cuCtxGetCurrent(&current);
        if (wait_as_free(context, current, &later) == CUDA_SUCCESS && !later)
            pool_free_finish(&block[i]);
        else
            pool_free_pend(&block[i], POOL_NO_STREAM, fence_after_next_wait(context));
    }
}

static void batch_flush(struct context *context, struct batch *batch, bool may_wait)
{
    struct pool_block block[BATCH_BLOCKS];
    uint64_t fence;
    if (capture_in_progress())
        return;
    uint32_t count = batch_take(batch, block);
    if (count == 0)
        return;
    if (!fence_record(context, &fence)) {
        batch_return(context, batch, block, count, may_wait);
        return;
    }
    fence_share(fence, count);
    pool_free_pend_all(block, count, DEFERRED_STREAM, fence);
}

void deferred_flush(void *self)
{
    struct context *context = self;
    struct deferred *deferred = context->deferred;
    for (int i = 0; deferred != NULL && i < SHARDS; i++)
        if (__atomic_load_n(&deferred->batch[i].count, __ATOMIC_RELAXED) > 0)
            batch_flush(context, &deferred->batch[i], false);
}

void deferred_due(void *self)
{
    latency_slow();
    deferred_flush(self);
}

bool deferred_free(struct context *owner, const struct pool_block *block)
{
    bool full;
    uint64_t bytes_max;
    if (owner->deferred == NULL || device_reached_from_outside(owner->device) ||
        __atomic_load_n(&owner->faulted, __ATOMIC_RELAXED))
        return false;
    struct batch *batch = batch_own(owner->deferred, &bytes_max);
    if (!batch_add(batch, bytes_max, block, &full))
        return false;
    if (full) {
        batch_flush(owner, batch, true);
        pool_collect(block->pool);
        pool_trim(block->pool, UINT64_MAX);
    }
    return true;
}
