/* vmm.c - memory by handle: reserve addresses, create memory, map one at the other.
 *
 * A handle is mapped whole or not at all, as on the real driver. Its bytes are host memory mapped
 * when first touched. It lives until it is released and unmapped everywhere.
 *
 * What it leaves out: sharing handles between processes.
 *
 * Lock: sim.lock is held by the callers.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <sys/mman.h>

struct reservation {
    struct reservation *next;
    uint64_t address;
    size_t bytes;
    void *place; /* of the mapping, which may begin earlier for alignment */
    size_t place_bytes;
};

struct vmm_handle {
    struct vmm_handle *next;
    int device;
    size_t bytes;
    int refs;      /* the creation and each mapping */
    unsigned held; /* references of the program, which refs include */
    char *view;
};

static struct reservation *reservations;
static struct vmm_handle *handles;

CUresult vmm_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                     unsigned long long flags)
{
    if (out == NULL || flags != 0 || bytes == 0 || bytes % SIM_SLOT_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SIM_SLOT_BYTES)
        alignment = SIM_SLOT_BYTES;
    void *place = mmap((void *)(uintptr_t)hint, bytes + alignment, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct reservation *reservation = calloc(1, sizeof(*reservation));
    uint64_t address = ((uint64_t)(uintptr_t)place + alignment - 1) / alignment * alignment;
    *reservation = (struct reservation){reservations, address, bytes, place, bytes + alignment};
    reservations = reservation;
    *out = address;
    return CUDA_SUCCESS;
}

CUresult vmm_unreserve(CUdeviceptr address, size_t bytes)
{
    struct reservation **link = &reservations;
    while (*link != NULL && (*link)->address != address)
        link = &(*link)->next;
    struct reservation *found = *link;
    if (found == NULL || found->bytes != bytes || block_list_maps(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    *link = found->next;
    munmap(found->place, found->place_bytes);
    free(found);
    return CUDA_SUCCESS;
}

static struct vmm_handle *handle_alive(CUmemGenericAllocationHandle number)
{
    for (struct vmm_handle *handle = handles; handle != NULL; handle = handle->next)
        if ((uint64_t)(uintptr_t)handle == number)
            return handle;
    return NULL;
}

CUresult vmm_create(CUmemGenericAllocationHandle *out, size_t bytes,
                    const CUmemAllocationProp *properties, unsigned long long flags)
{
    if (out == NULL || properties == NULL || flags != 0 || bytes == 0 ||
        bytes % SIM_SLOT_BYTES != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = device_find(properties->location.id);
    if (device == NULL || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card_charge(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct vmm_handle *handle = calloc(1, sizeof(*handle));
    *handle = (struct vmm_handle){
        .next = handles, .device = device->index, .bytes = bytes, .refs = 1, .held = 1};
    handles = handle;
    *out = (uint64_t)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

static void handle_drop(struct vmm_handle *handle)
{
    if (--handle->refs > 0)
        return;
    struct vmm_handle **link = &handles;
    while (*link != handle)
        link = &(*link)->next;
    *link = handle->next;
    sim.devices[handle->device].used_bytes -= handle->bytes;
    if (handle->view != NULL)
        munmap(handle->view, handle->bytes);
    free(handle);
}

CUresult vmm_release(CUmemGenericAllocationHandle number)
{
    struct vmm_handle *handle = handle_alive(number);
    if (handle == NULL || handle->held == 0)
        return CUDA_ERROR_INVALID_VALUE;
    handle->held--;
    handle_drop(handle);
    return CUDA_SUCCESS;
}

CUresult vmm_retain(CUmemGenericAllocationHandle *out, void *address)
{
    const struct block *block = card_find((uint64_t)(uintptr_t)address);
    if (out == NULL || block == NULL || block->kind != BLOCK_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    block->handle->held++;
    block->handle->refs++;
    *out = (uint64_t)(uintptr_t)block->handle;
    return CUDA_SUCCESS;
}

void vmm_live(uint64_t *handles_out, uint64_t *reservations_out)
{
    *handles_out = *reservations_out = 0;
    for (const struct vmm_handle *handle = handles; handle != NULL; handle = handle->next)
        ++*handles_out;
    for (const struct reservation *at = reservations; at != NULL; at = at->next)
        ++*reservations_out;
}

static bool reserved(uint64_t address, size_t bytes)
{
    for (const struct reservation *at = reservations; at != NULL; at = at->next)
        if (address >= at->address && address + bytes <= at->address + at->bytes)
            return true;
    return false;
}

CUresult vmm_map(CUdeviceptr address, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle number, unsigned long long flags)
{
    struct vmm_handle *handle = handle_alive(number);
    if (handle == NULL || flags != 0 || bytes == 0 || address % SIM_SLOT_BYTES != 0 ||
        !reserved(address, bytes) || block_list_maps(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != handle->bytes)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct block *block = block_new(BLOCK_MAPPED, address, bytes);
    block->device = handle->device;
    block->handle = handle;
    handle->refs++;
    block_list_add(block);
    return CUDA_SUCCESS;
}

/* The range must be made of whole mappings. */
static bool mapped_whole(uint64_t address, size_t bytes)
{
    uint64_t at = address;
    while (at < address + bytes) {
        const struct block *block = card_find(at);
        if (block == NULL || block->kind != BLOCK_MAPPED || block->address != at)
            return false;
        at += block->bytes;
    }
    return at == address + bytes;
}

CUresult vmm_unmap(CUdeviceptr address, size_t bytes)
{
    if (bytes == 0 || !mapped_whole(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    oracle_memory_gone(address, bytes, false);
    for (uint64_t at = address; at < address + bytes;) {
        struct block *block = card_find(at);
        at += block->bytes;
        block_list_remove(block);
        handle_drop(block->handle);
        free(block);
    }
    return CUDA_SUCCESS;
}

static void access_set(struct block *block, const CUmemAccessDesc *access)
{
    uint64_t bit = UINT64_C(1) << access->location.id;
    if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        block->reached_by |= bit;
    else
        block->reached_by &= ~bit;
}

CUresult vmm_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                        size_t count)
{
    if (access == NULL || count == 0 || bytes == 0 || !mapped_whole(address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (device_find(access[i].location.id) == NULL)
            return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = address; at < address + bytes;) {
        struct block *block = card_find(at);
        for (size_t i = 0; i < count; i++)
            access_set(block, &access[i]);
        at += block->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    const struct block *block = card_find(address);
    if (flags == NULL || location == NULL || block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->kind != BLOCK_MAPPED) /* measured for cuMemAlloc memory */
        *flags = 0;
    else
        *flags = device_find(location->id) != NULL && (block->reached_by >> location->id & 1) != 0
                     ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                     : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult vmm_granularity(size_t *bytes, const CUmemAllocationProp *properties,
                         CUmemAllocationGranularity_flags option)
{
    (void)option;
    if (bytes == NULL || properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = SIM_SLOT_BYTES;
    return CUDA_SUCCESS;
}

char *vmm_view(struct vmm_handle *handle)
{
    if (handle->view == NULL) {
        void *view = mmap(NULL, handle->bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        handle->view = view != MAP_FAILED ? view : NULL;
    }
    return handle->view;
}
