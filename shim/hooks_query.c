/* hooks_query.c - questions about memory, answered for pooled blocks as for real allocations.
 *
 * A pooled block answers with its own range and a buffer id of its own, never with its segment's;
 * so does a block of another process that was opened here (ipc.h).
 * An address in the pool that is in no live block gets the driver's answer for an address that is
 * no allocation. Everything else is the driver's.
 *
 * What it leaves out: attributes on which pooled and real memory agree (the driver answers them
 * from the segment). Lock: none.
 */
#include "deferred.h"
#include "devices.h"
#include "driver.h"
#include "ipc.h"
#include "pooled.h"

/* Buffer ids of pooled blocks begin here: far above those that the driver counts up from 1. */
#define BUFFER_ID_BASE ((unsigned long long)1 << 48)
/* and those of blocks of other processes. */
#define BUFFER_ID_IMPORTED_BASE ((unsigned long long)1 << 56)

CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUcontext current;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuMemGetInfo_v2(free_bytes, total_bytes);
    if (result != CUDA_SUCCESS || free_bytes == NULL)
        return result;
    struct context *context = context_current(&current);
    if (context != NULL) {
        deferred_flush(context);
        pool_collect(context->pool);
        *free_bytes += device_idle_elsewhere(context);
        *free_bytes += pool_available_bytes(context->pool, *free_bytes);
        uint64_t total = total_bytes != NULL ? *total_bytes : context->device->total_bytes;
        if (*free_bytes > total) /* memory that another thread gave back meanwhile is in both */
            *free_bytes = total;
    }
    return result;
}

static void range_tell(CUdeviceptr *base, size_t *bytes, CUdeviceptr address, size_t length)
{
    if (base != NULL)
        *base = address;
    if (bytes != NULL)
        *bytes = length;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr dptr)
{
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    enum pooled pooled = pooled_find(dptr, &block);
    struct ipc_block imported;
    if (pooled == POOLED_DEAD)
        return real_cuMemGetAddressRange_v2(base, bytes, DRIVER_UNKNOWN_ADDRESS);
    CUresult result =
        real_cuMemGetAddressRange_v2(base, bytes, dptr); /* the context's own errors */
    if (result != CUDA_SUCCESS)
        return result;
    if (pooled == POOLED_LIVE)
        range_tell(base, bytes, block.address, block.requested_bytes);
    else if (ipc_import_find(dptr, &imported))
        range_tell(base, bytes, imported.address, imported.bytes);
    return result;
}

static CUmemoryPool default_pool_of(const struct pool_block *block)
{
    const struct context *owner = context_of_pool(block->pool, NULL);
    return owner != NULL ? owner->device->default_pool : NULL;
}

/* Memory by handle has no context; a cuMemAlloc block has. */
static CUcontext context_of_block(const struct pool_block *block)
{
    const struct context *owner = context_of_pool(block->pool, NULL);
    return owner != NULL && (block->tag & TAG_STREAM_ORDERED) == 0 ? owner->handle : NULL;
}

/* The driver does not tell what the library knows. */
static bool attribute_supply(CUpointer_attribute attribute, void *data,
                             const struct pool_block *block)
{
    if (attribute != CU_POINTER_ATTRIBUTE_CONTEXT || data == NULL)
        return false;
    *(CUcontext *)data = context_of_block(block);
    return true;
}

/* The driver takes what it does not know for an address of the host's, and answers with it: that
 * was ours, not the program's. */
static void unknown_correct(CUpointer_attribute attribute, void *data, CUdeviceptr dptr)
{
    if ((attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
         attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) &&
        data != NULL && *(CUdeviceptr *)data == DRIVER_UNKNOWN_ADDRESS)
        *(CUdeviceptr *)data = dptr;
}

/* Replaces the driver's answer, which is about the segment, where the block's differs. */
static void attribute_correct(CUpointer_attribute attribute, void *data,
                              const struct pool_block *block)
{
    if (data == NULL)
        return;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = BUFFER_ID_BASE + block->serial;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block->address;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block->requested_bytes;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        if ((block->tag & TAG_STREAM_ORDERED) != 0)
            *(int *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: /* set for a block, kept by the driver for a segment */
        *(unsigned int *)data = (block->tag & TAG_SYNC_MEMOPS) != 0;
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: /* asking for them turns it on (measured) */
        pool_retag(block->address, block->tag | TAG_SYNC_MEMOPS);
        DEVICE_COUNT(device_for_counting(), shared_rdma, 1);
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: /* not told of memory by handle in every thread */
        if (pooled_is_by_handle(block))
            *(unsigned int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = context_of_block(block);
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        if ((block->tag & TAG_STREAM_ORDERED) != 0)
            *(int *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        if ((block->tag & TAG_STREAM_ORDERED) != 0)
            *(CUmemoryPool *)data = default_pool_of(block);
        break;
    default:
        break;
    }
}

/* The same for a block of another process. */
static void imported_correct(CUpointer_attribute attribute, void *data, CUdeviceptr dptr)
{
    struct ipc_block block;
    if (data == NULL || !ipc_import_find(dptr, &block))
        return;
    if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
        *(unsigned long long *)data = BUFFER_ID_IMPORTED_BASE + block.id;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        *(CUdeviceptr *)data = block.address;
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
        *(size_t *)data = block.bytes;
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr dptr)
{
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    enum pooled pooled = pooled_find(dptr, &block);
    CUresult result = real_cuPointerGetAttribute(
        data, attribute, pooled == POOLED_DEAD ? DRIVER_UNKNOWN_ADDRESS : dptr);
    if (pooled == POOLED_DEAD && result == CUDA_SUCCESS)
        unknown_correct(attribute, data, dptr);
    if (pooled == POOLED_NO && result == CUDA_SUCCESS)
        imported_correct(attribute, data, dptr);
    if (pooled != POOLED_LIVE)
        return result;
    if (result == CUDA_SUCCESS)
        attribute_correct(attribute, data, &block);
    else if (result == CUDA_ERROR_INVALID_VALUE && attribute_supply(attribute, data, &block))
        result = CUDA_SUCCESS;
    return result;
}

CUresult hook_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                     void **data, CUdeviceptr dptr)
{
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    enum pooled pooled = pooled_find(dptr, &block);
    CUresult result = real_cuPointerGetAttributes(
        count, attributes, data, pooled == POOLED_DEAD ? DRIVER_UNKNOWN_ADDRESS : dptr);
    if (result != CUDA_SUCCESS || attributes == NULL || data == NULL)
        return result;
    for (unsigned int i = 0; i < count; i++) {
        if (pooled == POOLED_LIVE)
            attribute_correct(attributes[i], data[i], &block);
        else if (pooled == POOLED_DEAD)
            unknown_correct(attributes[i], data[i], dptr);
        else
            imported_correct(attributes[i], data[i], dptr);
    }
    return result;
}

/* The segment keeps the attribute on: others in it may want it. */
CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                    CUdeviceptr dptr)
{
    static const unsigned int on = 1;
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    enum pooled pooled = pooled_find(dptr, &block);
    bool sets = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && value != NULL;
    if (pooled == POOLED_NO)
        return real_cuPointerSetAttribute(value, attribute, dptr);
    if (pooled == POOLED_DEAD || !sets) /* the driver's refusal, of the value as well */
        return real_cuPointerSetAttribute(value, attribute, DRIVER_UNKNOWN_ADDRESS);
    CUresult result = real_cuPointerSetAttribute(&on, attribute, dptr);
    uint32_t rest = block.tag & ~(uint32_t)TAG_SYNC_MEMOPS;
    if (result == CUDA_SUCCESS)
        pool_retag(dptr, *(const unsigned int *)value != 0 ? rest | TAG_SYNC_MEMOPS : rest);
    return result;
}
