/* memory.c - cuMemAlloc and its kin: allocation, free, arrays, questions about the card.
 *
 * A free waits for everything on the device, also for a tiny block, and holds up the beginning of
 * captures meanwhile. The old 32-bit calls exist and never succeed in handing out an address.
 *
 * What it leaves out: texels; an array is only a block of the size that it would have.
 *
 * Lock: sim.lock is held by the callers; memory_free releases it while it waits.
 */
#include "sim.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

enum { PITCH_BYTES = 512 };

/* The context whose memory a call takes when none need be current. */
static CUresult memory_context(struct context **out)
{
    CUresult result = context_current(out);
    if (result == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    *out = context_default(0);
    return *out != NULL ? CUDA_SUCCESS : result;
}

static CUresult memory_take(size_t bytes, struct block **out)
{
    struct context *context;
    CUresult result = memory_context(&context);
    if (result == CUDA_SUCCESS)
        result = card_take(&sim.devices[context->device], bytes, BLOCK_DEVICE, out);
    if (result != CUDA_SUCCESS)
        return result;
    (*out)->context = context;
    (*out)->context_id = context->id;
    return CUDA_SUCCESS;
}

CUresult memory_alloc(CUdeviceptr *out, size_t bytes)
{
    struct block *block;
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_take(bytes, &block);
    if (result == CUDA_SUCCESS)
        *out = block->address;
    return result;
}

CUresult memory_alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element_bytes)
{
    size_t row, bytes;
    if (out == NULL || pitch == NULL || width == 0 || height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_add_overflow(width, (size_t)PITCH_BYTES - 1, &row))
        return CUDA_ERROR_INVALID_VALUE;
    row -= row % PITCH_BYTES;
    if (__builtin_mul_overflow(row, height, &bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = memory_alloc(out, bytes);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

static struct block *memory_freeable(CUdeviceptr address)
{
    struct block *block = card_find(address);
    if (block == NULL || block->address != address || block->free_op != NULL)
        return NULL;
    bool ours = block->kind == BLOCK_DEVICE || block->kind == BLOCK_PIECE ||
                block->kind == BLOCK_MANAGED || block->kind == BLOCK_GRAPH ||
                block->kind == BLOCK_EXTERNAL;
    return ours ? block : NULL;
}

static CUresult memory_wait(int device, struct context *waiting)
{
    if (waiting != NULL)
        waiting->free_waiters++;
    work_wait_device(device);
    if (waiting != NULL)
        waiting->free_waiters--;
    pthread_cond_broadcast(&sim.changed);
    return waiting != NULL ? waiting->fault : CUDA_SUCCESS;
}

static void memory_release(struct block *block)
{
    if (block->kind == BLOCK_DEVICE)
        oracle_memory_gone(block->address, block->reserved_bytes, false);
    if (block->kind == BLOCK_PIECE)
        mempool_piece_free(block);
    else if (block->kind == BLOCK_MANAGED || block->kind == BLOCK_EXTERNAL)
        hostmem_release(block);
    else if (block->kind == BLOCK_DEVICE)
        card_give(block); /* a graph's block goes with the graph */
}

CUresult memory_free(CUdeviceptr address)
{
    if (address == 0)
        return CUDA_SUCCESS;
    if (context_current_destroyed())
        return CUDA_ERROR_CONTEXT_IS_DESTROYED; /* measured; after a reset it is not so */
    struct block *block = memory_freeable(address);
    if (block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *waiting;
    if (block->kind == BLOCK_PIECE && context_current(&waiting) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return CUDA_ERROR_INVALID_VALUE; /* measured after a reset */
    waiting = block->context;
    uint64_t buffer_id = block->buffer_id;
    if (waiting == NULL)
        waiting = context_default(block->device);
    CUresult result = memory_wait(block->device, waiting);
    if (result != CUDA_SUCCESS)
        return result;
    block = memory_freeable(address); /* another thread may have freed it meanwhile */
    if (block == NULL || block->buffer_id != buffer_id)
        return CUDA_ERROR_INVALID_VALUE;
    memory_release(block);
    mempools_settle();
    return CUDA_SUCCESS;
}

/* A file that stands for the memory: nobody maps it here. Measured: 64 KiB blocks have none. */
CUresult memory_range_file(int *file, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                           unsigned long long flags)
{
    const struct block *block = card_find(address);
    if (file == NULL || block == NULL || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        flags != 0 || bytes == 0 || bytes % 4096 != 0 || address % 4096 != 0 ||
        address + bytes > (block->address + block->bytes + 4095) / 4096 * 4096)
        return CUDA_ERROR_INVALID_VALUE;
    *file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *file >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult memory_info(size_t *free_bytes, size_t *total_bytes)
{
    struct context *context;
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct device *device = &sim.devices[context->device];
    if (free_bytes != NULL)
        *free_bytes = device->total_bytes - device->used_bytes;
    if (total_bytes != NULL)
        *total_bytes = device->total_bytes;
    return CUDA_SUCCESS;
}

CUresult memory_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    const struct block *block = card_find(address);
    if (block == NULL)
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = block->address;
    if (bytes != NULL)
        *bytes = block->bytes;
    return CUDA_SUCCESS;
}

/* --- the 32-bit interface
 * -------------------------------------------------------------------------- */

CUresult memory_alloc_old(unsigned int *out, unsigned int bytes)
{
    return out == NULL || bytes == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult memory_alloc_pitch_old(unsigned int *out, unsigned int *pitch, unsigned int width,
                                unsigned int height, unsigned int element_bytes)
{
    (void)element_bytes;
    return pitch == NULL || height == 0 ? CUDA_ERROR_INVALID_VALUE : memory_alloc_old(out, width);
}

CUresult memory_free_old(unsigned int address)
{
    return address == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static unsigned int clamped(size_t bytes)
{
    return bytes > UINT_MAX ? UINT_MAX : (unsigned int)bytes;
}

CUresult memory_info_old(unsigned int *free_bytes, unsigned int *total_bytes)
{
    size_t free_wide = 0, total_wide = 0;
    CUresult result = memory_info(&free_wide, &total_wide);
    if (free_bytes != NULL)
        *free_bytes = clamped(free_wide);
    if (total_bytes != NULL)
        *total_bytes = clamped(total_wide);
    return result;
}

CUresult memory_range_old(unsigned int *base, unsigned int *bytes, unsigned int address)
{
    (void)base;
    (void)bytes;
    (void)address;
    return CUDA_ERROR_NOT_FOUND;
}

/* --- arrays: blocks that no address finds by its handle
 * -------------------------------------------- */

static size_t texel_bytes(CUarray_format format, unsigned int channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * (size_t)channels;
    default:
        return 2 * (size_t)channels;
    }
}

static CUresult array_take(void **out, size_t width, size_t height, size_t depth, size_t texel)
{
    struct block *block;
    if (out == NULL || width == 0 || texel == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        memory_take(width * (height == 0 ? 1 : height) * (depth == 0 ? 1 : depth) * texel, &block);
    if (result != CUDA_SUCCESS)
        return result;
    void **handle = malloc(sizeof(*handle));
    *handle = (void *)(uintptr_t)block->address;
    *out = handle;
    return CUDA_SUCCESS;
}

CUresult array_create(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return array_take((void **)out, descriptor->Width, descriptor->Height, 1,
                      texel_bytes(descriptor->Format, descriptor->NumChannels));
}

CUresult array_create_3d(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    if (descriptor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return array_take((void **)out, descriptor->Width, descriptor->Height, descriptor->Depth,
                      texel_bytes(descriptor->Format, descriptor->NumChannels));
}

CUresult array_destroy(CUarray handle)
{
    if (handle == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t) * (void **)handle;
    free(handle);
    return memory_free(address);
}

CUresult mipmap_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                       unsigned int levels)
{
    return levels == 0 ? CUDA_ERROR_INVALID_VALUE : array_create_3d((CUarray *)out, descriptor);
}

CUresult mipmap_destroy(CUmipmappedArray handle)
{
    return array_destroy((CUarray)handle);
}
