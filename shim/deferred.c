/* deferred.c - frees kept back, then fenced together. See deferred.h.
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

enum { BATCH_BLOCKS = 64 };
#define BATCH_BYTES ((uint64_t)64 << 20) /* a batch is also full when it holds this much */

/* Blocks of a batch are one stream to the pool: their fences pass in the order of the batches. */
#define DEFERRED_STREAM UINT64_MAX

struct deferred {
    pthread_mutex_t lock;
    uint32_t count;
    uint64_t bytes;
    struct pool_block block[BATCH_BLOCKS];
};

struct deferred *deferred_create(void)
{
    if (strcmp(options.free_mode, "deferred") != 0 || real_cuCtxRecordEvent == NULL)
        return NULL;
    struct deferred *deferred =
        mmap(NULL, sizeof(*deferred), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (deferred == MAP_FAILED)
        return NULL;
    pthread_mutex_init(&deferred->lock, NULL);
    return deferred;
}

void deferred_destroy(struct deferred *deferred)
{
    if (deferred != NULL)
        munmap(deferred, sizeof(*deferred));
}

uint64_t deferred_kept(const struct deferred *deferred)
{
    return deferred != NULL ? __atomic_load_n(&deferred->count, __ATOMIC_RELAXED) : 0;
}

/* Keeps a block back. False: there is no room. full_out: the batch should be flushed. */
static bool batch_add(struct deferred *deferred, const struct pool_block *block, bool *full_out)
{
    pthread_mutex_lock(&deferred->lock);
    bool room = deferred->count < BATCH_BLOCKS;
    if (room) {
        deferred->block[deferred->count] = *block;
        __atomic_store_n(&deferred->count, deferred->count + 1, __ATOMIC_RELAXED);
        deferred->bytes += block->block_bytes;
    }
    *full_out = deferred->count == BATCH_BLOCKS || deferred->bytes >= BATCH_BYTES;
    pthread_mutex_unlock(&deferred->lock);
    return room;
}

/* Takes all out. Returns how many. */
static uint32_t batch_take(struct deferred *deferred, struct pool_block block[BATCH_BLOCKS])
{
    pthread_mutex_lock(&deferred->lock);
    uint32_t count = deferred->count;
    memcpy(block, deferred->block, count * sizeof(block[0]));
    __atomic_store_n(&deferred->count, 0, __ATOMIC_RELAXED);
    deferred->bytes = 0;
    pthread_mutex_unlock(&deferred->lock);
    return count;
}

static bool fence_record(struct context *context, uint64_t *fence_out)
{
    CUcontext current = NULL;
    if (real_cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    bool entered = wait_enter(context, current);
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
static void batch_return(struct context *context, const struct pool_block *block, uint32_t count,
                         bool may_wait)
{
    bool full, later;
    if (may_wait && batch_wait(context, block, count))
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (batch_add(context->deferred, &block[i], &full))
            continue;
        CUcontext current = NULL;
        real_cuCtxGetCurrent(&current);
        if (wait_as_free(context, current, &later) == CUDA_SUCCESS && !later)
            pool_free_finish(&block[i]);
        else
            pool_free_pend(&block[i], POOL_NO_STREAM, fence_after_next_wait(context));
    }
}

static void flush(struct context *context, bool may_wait)
{
    struct pool_block block[BATCH_BLOCKS];
    uint64_t fence;
    if (context->deferred == NULL || capture_in_progress())
        return;
    uint32_t count = batch_take(context->deferred, block);
    if (count == 0)
        return;
    if (!fence_record(context, &fence)) {
        batch_return(context, block, count, may_wait);
        return;
    }
    fence_share(fence, count);
    for (uint32_t i = 0; i < count; i++)
        pool_free_pend(&block[i], DEFERRED_STREAM, fence);
}

void deferred_flush(void *self)
{
    flush(self, false);
}

bool deferred_free(struct context *owner, const struct pool_block *block)
{
    bool full;
    if (owner->deferred == NULL || device_reached_from_outside(owner->device) ||
        __atomic_load_n(&owner->faulted, __ATOMIC_RELAXED) ||
        !batch_add(owner->deferred, block, &full))
        return false;
    if (full) {
        flush(owner, true);
        pool_collect(block->pool);
        pool_trim(block->pool, UINT64_MAX);
    }
    return true;
}
