/* hostmem.c - managed memory, page-locked host memory, registered memory.
 *
 * All of it is ordinary host memory that the simulator remembers by address. Managed memory is not
 * counted against the card.
 *
 * Lock: sim.lock is held by the callers.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

static CUresult hostmem_take(enum block_kind kind, size_t bytes, struct block **out)
{
    struct context *context;
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *block = block_new(kind, (uint64_t)(uintptr_t)place, bytes);
    block->view = place;
    block->device = context->device;
    block->context = context;
    block->context_id = context->id;
    block_list_add(block);
    *out = block;
    return CUDA_SUCCESS;
}

void hostmem_release(struct block *block)
{
    block_list_remove(block);
    if (block->kind == BLOCK_MANAGED || block->kind == BLOCK_HOST)
        munmap(block->view, block->bytes);
    free(block);
}

CUresult hostmem_managed(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    struct block *block;
    if (out == NULL || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = hostmem_take(BLOCK_MANAGED, bytes, &block);
    if (result == CUDA_SUCCESS)
        *out = block->address;
    return result;
}

CUresult hostmem_alloc(void **out, size_t bytes, unsigned int flags)
{
    struct block *block;
    if (out == NULL || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = hostmem_take(BLOCK_HOST, bytes, &block);
    if (result == CUDA_SUCCESS)
        *out = block->view;
    return result;
}

static struct block *hostmem_at(void *address, enum block_kind kind)
{
    struct block *block = card_find((uint64_t)(uintptr_t)address);
    bool right = block != NULL && block->kind == kind && block->view == address;
    return right ? block : NULL;
}

CUresult hostmem_free(void *address)
{
    if (address == NULL)
        return CUDA_SUCCESS;
    struct block *block = hostmem_at(address, BLOCK_HOST);
    if (block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    work_wait_device(block->device);
    block = hostmem_at(address, BLOCK_HOST);
    if (block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    hostmem_release(block);
    return CUDA_SUCCESS;
}

CUresult hostmem_register(void *address, size_t bytes, unsigned int flags)
{
    struct context *context;
    CUresult result = context_current(&context);
    (void)flags;
    if (result != CUDA_SUCCESS || address == NULL || bytes == 0)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    if (card_find((uint64_t)(uintptr_t)address) != NULL)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct block *block = block_new(BLOCK_REGISTERED, (uint64_t)(uintptr_t)address, bytes);
    block->view = address;
    block->device = context->device;
    block->context = context;
    block->context_id = context->id;
    block_list_add(block);
    return CUDA_SUCCESS;
}

CUresult hostmem_unregister(void *address)
{
    struct block *block = hostmem_at(address, BLOCK_REGISTERED);
    if (block == NULL)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    hostmem_release(block);
    return CUDA_SUCCESS;
}

CUresult hostmem_device_pointer(CUdeviceptr *out, void *address, unsigned int flags)
{
    const struct block *block = card_find((uint64_t)(uintptr_t)address);
    if (out == NULL || flags != 0 || block == NULL ||
        (block->kind != BLOCK_HOST && block->kind != BLOCK_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}
