/* hostmem.c - managed memory, page-locked host memory, registered memory, memory of other
 * interfaces.
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
#include <unistd.h>

/* Remembers host memory at `place` as the current context's. */
static struct block *hostmem_add(enum block_kind kind, void *place, size_t bytes,
                                 struct context *context)
{
    struct block *block = block_new(kind, (uint64_t)(uintptr_t)place, bytes);
    block->view = place;
    block->device = context->device;
    block->context = context;
    block->context_id = context->id;
    block_list_add(block);
    return block;
}

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
    *out = hostmem_add(kind, place, bytes, context);
    return CUDA_SUCCESS;
}

void hostmem_release(struct block *block)
{
    block_list_remove(block);
    if (block->kind == BLOCK_MANAGED || block->kind == BLOCK_HOST || block->kind == BLOCK_EXTERNAL)
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
    hostmem_add(BLOCK_REGISTERED, address, bytes, context);
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

/* --- memory of another interface: a file stands for it ------------------------------------------
 */

struct external {
    struct external *next;
    int file;
    uint64_t bytes;
};

static struct external *externals;

/* The place in the list where a handle stands; its end where there is none such. */
static struct external **external_link(CUexternalMemory memory)
{
    struct external **link = &externals;
    while (*link != NULL && (CUexternalMemory)*link != memory)
        link = &(*link)->next;
    return link;
}

CUresult external_import(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
    if (out == NULL || description == NULL || description->size == 0 ||
        description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        lseek(description->handle.fd, 0, SEEK_END) < (off_t)description->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct external *external = calloc(1, sizeof(*external));
    *external = (struct external){externals, description->handle.fd, description->size};
    externals = external;
    *out = (CUexternalMemory)external;
    return CUDA_SUCCESS;
}

/* A mapping outlives the import; it is freed like an allocation. */
CUresult external_map(CUdeviceptr *out, CUexternalMemory memory,
                      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description)
{
    struct context *context;
    struct external *external = *external_link(memory);
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (external == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || description == NULL || description->size == 0 || description->flags != 0 ||
        description->offset > external->bytes ||
        description->size > external->bytes - description->offset)
        return CUDA_ERROR_INVALID_VALUE;
    void *place = mmap(NULL, description->size, PROT_READ | PROT_WRITE, MAP_SHARED, external->file,
                       (off_t)description->offset);
    if (place == MAP_FAILED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = hostmem_add(BLOCK_EXTERNAL, place, description->size, context)->address;
    return CUDA_SUCCESS;
}

CUresult external_destroy(CUexternalMemory memory)
{
    struct external **link = external_link(memory);
    struct external *external = *link;
    if (external == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *link = external->next;
    close(external->file);
    free(external);
    return CUDA_SUCCESS;
}

uint64_t external_live(void)
{
    uint64_t count = 0;
    for (const struct external *external = externals; external != NULL; external = external->next)
        count++;
    return count;
}
