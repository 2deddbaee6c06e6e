/* mempool.c - memory pools and allocation in stream order.
 *
 * A pool takes chunks of 32 MiB (or what a larger block needs) from the card and cuts them into
 * pieces, first fit, at 512-byte steps. A piece that was freed on a stream is given again to that
 * stream at once, to others when the work before the free has finished. After a wait, chunks wholly
 * free go back to the card while the pool holds more than its release threshold.
 *
 * cuMemFreeAsync of a cuMemAlloc block succeeds and takes effect at the next synchronise; a second
 * one before that succeeds too and leaves work on the device that never ends, as the real driver
 * does. On a capturing stream both become nodes of the graph, which owns the memory.
 *
 * What it leaves out: access by other devices, export, reuse over event dependencies.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <stdlib.h>

struct mempool {
    struct mempool *next;
    bool alive;
    int device;
    uint64_t threshold_bytes;
    uint64_t used_bytes, used_high_bytes;
    uint64_t reserved_bytes, reserved_high_bytes;
    int reuse[3]; /* the three reuse attributes, only kept */
    struct block *chunks;
};

static struct mempool *mempools;

static struct mempool *mempool_new(int device)
{
    struct mempool *pool = calloc(1, sizeof(*pool));
    *pool = (struct mempool){.next = mempools, .alive = true, .device = device, .reuse = {1, 1, 1}};
    mempools = pool;
    return pool;
}

static struct mempool *mempool_alive(CUmemoryPool handle)
{
    for (struct mempool *pool = mempools; pool != NULL; pool = pool->next)
        if ((CUmemoryPool)pool == handle)
            return pool->alive ? pool : NULL;
    return NULL;
}

static struct mempool *mempool_default_of(struct device *device)
{
    if (device->default_pool == NULL)
        device->default_pool = mempool_new(device->index);
    return device->default_pool;
}

static struct mempool *mempool_current_of(struct device *device)
{
    return device->current_pool != NULL ? device->current_pool : mempool_default_of(device);
}

/* --- pieces --------------------------------------------------------------------------------------
 */

static struct block *piece_new(struct block *chunk, uint64_t address, size_t bytes)
{
    struct block *piece = block_new(BLOCK_PIECE, address, bytes);
    piece->device = chunk->device;
    piece->pool = chunk->pool;
    piece->parent = chunk;
    return piece;
}

static bool piece_idle(const struct block *piece)
{
    return !piece->used && piece->free_op == NULL;
}

/* Forgets finished frees and joins idle neighbours. */
static void chunk_settle(struct block *chunk)
{
    for (struct block *piece = chunk->pieces; piece != NULL; piece = piece->next) {
        if (!piece->used && piece->free_op != NULL && op_done(piece->free_op)) {
            op_release(piece->free_op);
            piece->free_op = NULL;
        }
    }
    for (struct block *piece = chunk->pieces; piece != NULL; piece = piece->next) {
        while (piece_idle(piece) && piece->next != NULL && piece_idle(piece->next)) {
            struct block *gone = piece->next;
            piece->reserved_bytes += gone->reserved_bytes;
            piece->next = gone->next;
            free(gone);
        }
    }
}

static struct block *chunk_new(struct mempool *pool, size_t bytes)
{
    struct device *device = &sim.devices[pool->device];
    size_t wanted = (bytes + SIM_CHUNK_BYTES - 1) / SIM_CHUNK_BYTES * SIM_CHUNK_BYTES;
    size_t least = bytes > SIM_SMALL_MAX_BYTES ? bytes : SIM_SMALL_MAX_BYTES + 1;
    struct block *chunk;
    if (card_take(device, wanted, BLOCK_CHUNK, &chunk) != CUDA_SUCCESS &&
        card_take(device, least, BLOCK_CHUNK, &chunk) != CUDA_SUCCESS)
        return NULL;
    chunk->pool = pool;
    chunk->pieces = piece_new(chunk, chunk->address, chunk->reserved_bytes);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->reserved_bytes += chunk->reserved_bytes;
    if (pool->reserved_high_bytes < pool->reserved_bytes)
        pool->reserved_high_bytes = pool->reserved_bytes;
    return chunk;
}

static void pool_trim(struct mempool *pool, uint64_t keep_bytes)
{
    for (struct block **link = &pool->chunks; *link != NULL;) {
        struct block *chunk = *link;
        chunk_settle(chunk);
        bool empty = piece_idle(chunk->pieces) && chunk->pieces->next == NULL;
        if (!empty || pool->reserved_bytes <= keep_bytes) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        pool->reserved_bytes -= chunk->reserved_bytes;
        free(chunk->pieces);
        card_give(chunk);
    }
}

void mempools_settle(void)
{
    for (struct mempool *pool = mempools; pool != NULL; pool = pool->next)
        if (pool->chunks != NULL)
            pool_trim(pool, pool->threshold_bytes);
}

static bool piece_fits(struct block *piece, size_t units_bytes, const struct stream *stream)
{
    if (piece->used || piece->reserved_bytes < units_bytes)
        return false;
    return piece->free_op == NULL || piece->freed_stream == stream->id || op_done(piece->free_op);
}

static void piece_take(struct block *piece, size_t bytes, size_t units_bytes)
{
    if (piece->reserved_bytes > units_bytes) {
        struct block *rest = piece_new(piece->parent, piece->address + units_bytes,
                                       piece->reserved_bytes - units_bytes);
        rest->next = piece->next;
        rest->free_op = piece->free_op;
        rest->freed_stream = piece->freed_stream;
        if (rest->free_op != NULL)
            op_keep(rest->free_op);
        piece->next = rest;
    }
    op_release(piece->free_op);
    piece->free_op = NULL;
    piece->used = true;
    piece->bytes = bytes;
    piece->reserved_bytes = units_bytes;
    piece->buffer_id = sim.next_id++;
    piece->sync_memops = false;
    piece->pool->used_bytes += bytes; /* measured: without rounding */
    if (piece->pool->used_high_bytes < piece->pool->used_bytes)
        piece->pool->used_high_bytes = piece->pool->used_bytes;
}

static struct block *pool_find(struct mempool *pool, size_t units_bytes,
                               const struct stream *stream)
{
    for (struct block *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        for (struct block *piece = chunk->pieces; piece != NULL; piece = piece->next)
            if (piece_fits(piece, units_bytes, stream))
                return piece;
    return NULL;
}

static struct block *pool_take(struct mempool *pool, size_t bytes, const struct stream *stream)
{
    size_t units_bytes = (bytes + SIM_UNIT_BYTES - 1) / SIM_UNIT_BYTES * SIM_UNIT_BYTES;
    struct block *piece = pool_find(pool, units_bytes, stream);
    struct block *chunk = piece == NULL ? chunk_new(pool, units_bytes) : NULL;
    if (piece == NULL && chunk == NULL) {
        for (struct mempool *other = mempools; other != NULL; other = other->next)
            pool_trim(other, 0);
        chunk = chunk_new(pool, units_bytes);
    }
    if (piece == NULL && chunk != NULL)
        piece = chunk->pieces;
    if (piece != NULL)
        piece_take(piece, bytes, units_bytes);
    return piece;
}

static void piece_unuse(struct block *piece)
{
    piece->used = false;
    piece->pool->used_bytes -= piece->bytes;
}

void mempool_piece_free(struct block *piece)
{
    piece_unuse(piece);
}

/* --- allocation and free
 * --------------------------------------------------------------------------- */

static CUresult graph_block_take(CUdeviceptr *out, size_t bytes, struct stream *stream)
{
    struct block *block;
    struct work work = {.kind = OP_EMPTY};
    CUresult result = work_submit(stream, &work);
    if (result == CUDA_SUCCESS)
        result = card_take(&sim.devices[stream->context->device], bytes, BLOCK_GRAPH, &block);
    if (result != CUDA_SUCCESS)
        return result;
    graph_add_block(stream->capture->graph, block);
    *out = block->address;
    return CUDA_SUCCESS;
}

static CUresult pool_alloc(CUdeviceptr *out, size_t bytes, struct mempool *pool,
                           struct stream *stream)
{
    if (stream->capture != NULL)
        return graph_block_take(out, bytes, stream);
    if (capture_prohibits())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes > sim.devices[pool->device].total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *piece = pool_take(pool, bytes, stream);
    if (piece == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = piece->address;
    return CUDA_SUCCESS;
}

CUresult mempool_alloc(CUdeviceptr *out, size_t bytes, CUstream handle)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = &sim.devices[stream->context->device];
    return pool_alloc(out, bytes, mempool_current_of(device), stream);
}

CUresult mempool_alloc_from(CUdeviceptr *out, size_t bytes, CUmemoryPool handle,
                            CUstream stream_handle)
{
    struct stream *stream;
    struct mempool *pool = mempool_alive(handle);
    CUresult result = stream_find(stream_handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || bytes == 0 || pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pool_alloc(out, bytes, pool, stream);
}

/* The second free of a cuMemAlloc block: work that never ends. */
static CUresult free_twice(struct stream *stream)
{
    static volatile int never;
    struct work work = {.kind = OP_SPIN, .flag = &never};
    return work_submit(stream, &work);
}

static CUresult free_later(struct block *block, struct stream *stream)
{
    struct work work = {.kind = OP_EMPTY};
    if (block->kind == BLOCK_DEVICE && block->free_op != NULL)
        return free_twice(stream);
    work_submit_op(stream, &work, &block->free_op);
    if (block->kind == BLOCK_PIECE) {
        block->freed_stream = stream->id;
        piece_unuse(block);
    } else if (block->context != NULL) {
        block->context->pending_frees++;
    }
    return CUDA_SUCCESS;
}

CUresult mempool_free(CUdeviceptr address, CUstream handle)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work work = {.kind = OP_EMPTY};
    struct block *block = card_find(address);
    bool right =
        block != NULL && block->address == address &&
        (block->kind == BLOCK_DEVICE || block->kind == BLOCK_PIECE || block->kind == BLOCK_GRAPH);
    if (!right)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL && block->kind != BLOCK_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->kind == BLOCK_GRAPH)
        return work_submit(stream, &work);
    if (capture_prohibits())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return free_later(block, stream);
}

/* --- pools
 * ------------------------------------------------------------------------------------------ */

CUresult mempool_create(CUmemoryPool *out, const CUmemPoolProps *properties)
{
    if (out == NULL || properties == NULL || device_find(properties->location.id) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)mempool_new(properties->location.id);
    return CUDA_SUCCESS;
}

CUresult mempool_destroy(CUmemoryPool handle)
{
    struct mempool *pool = mempool_alive(handle);
    if (pool == NULL || sim.devices[pool->device].default_pool == pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim.devices[pool->device].current_pool == pool)
        sim.devices[pool->device].current_pool = NULL;
    pool->alive = false;
    pool->threshold_bytes = 0;
    pool_trim(pool, 0);
    return CUDA_SUCCESS;
}

/* Where an attribute's 64-bit value is kept; NULL for the others. */
static uint64_t *attribute_wide(struct mempool *pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved_bytes;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used_bytes;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high_bytes;
    default:
        return NULL;
    }
}

static int *attribute_flag(struct mempool *pool, CUmemPool_attribute attribute)
{
    int index = (int)attribute - (int)CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
    return index >= 0 && index < 3 ? &pool->reuse[index] : NULL;
}

CUresult mempool_set(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct mempool *pool = mempool_alive(handle);
    if (pool == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int *flag = attribute_flag(pool, attribute);
    if (flag != NULL) {
        *flag = *(int *)value;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        pool->threshold_bytes = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    }
    uint64_t *high = attribute_wide(pool, attribute);
    bool resets = (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
                   attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) &&
                  *(cuuint64_t *)value == 0;
    if (!resets)
        return CUDA_ERROR_INVALID_VALUE;
    *high = high == &pool->used_high_bytes ? pool->used_bytes : pool->reserved_bytes;
    return CUDA_SUCCESS;
}

CUresult mempool_get(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    struct mempool *pool = mempool_alive(handle);
    if (pool == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const int *flag = attribute_flag(pool, attribute);
    const uint64_t *wide = attribute_wide(pool, attribute);
    if (flag != NULL)
        *(int *)value = *flag;
    else if (wide != NULL)
        *(cuuint64_t *)value = *wide;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult mempool_trim(CUmemoryPool handle, size_t keep_bytes)
{
    struct mempool *pool = mempool_alive(handle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pool_trim(pool, keep_bytes);
    return CUDA_SUCCESS;
}

CUresult mempool_set_access(CUmemoryPool handle, const CUmemAccessDesc *access, size_t count)
{
    bool wrong = mempool_alive(handle) == NULL || (access == NULL && count != 0);
    return wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult mempool_get_access(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    struct mempool *pool = mempool_alive(handle);
    if (pool == NULL || flags == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == pool->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult mempool_default(CUmemoryPool *out, CUdevice device)
{
    struct device *found = device_find(device);
    if (out == NULL || found == NULL)
        return out == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    *out = (CUmemoryPool)mempool_default_of(found);
    return CUDA_SUCCESS;
}

CUresult mempool_current(CUmemoryPool *out, CUdevice device)
{
    struct device *found = device_find(device);
    if (out == NULL || found == NULL)
        return out == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    *out = (CUmemoryPool)mempool_current_of(found);
    return CUDA_SUCCESS;
}

CUresult mempool_choose(CUdevice device, CUmemoryPool handle)
{
    struct device *found = device_find(device);
    struct mempool *pool = mempool_alive(handle);
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (pool == NULL || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    found->current_pool = pool;
    return CUDA_SUCCESS;
}

static bool location_is_device(const CUmemLocation *location, CUmemAllocationType type)
{
    return location != NULL && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
           type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult mempool_default_at(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    return location_is_device(location, type) ? mempool_default(out, location->id)
                                              : CUDA_ERROR_INVALID_VALUE;
}

CUresult mempool_current_at(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    return location_is_device(location, type) ? mempool_current(out, location->id)
                                              : CUDA_ERROR_INVALID_VALUE;
}

CUresult mempool_choose_at(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    return location_is_device(location, type) ? mempool_choose(location->id, pool)
                                              : CUDA_ERROR_INVALID_VALUE;
}
