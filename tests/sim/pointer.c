/* pointer.c - what the driver tells about an address, and memory shared between processes.
 *
 * A handle for another process names this process, its memory file and the block's place in it; the
 * other one opens the file through /proc. The handle of an interior address is that of its block. A
 * handle that is open already gives the same address again, which is closed as often as it was
 * opened.
 *
 * What it leaves out: handles of memory from pools or by handle (refused, as the real driver does).
 *
 * Lock: sim.lock is held by the callers.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool block_is_host(const struct block *block)
{
    return block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED;
}

static bool block_outlives_contexts(const struct block *block)
{
    return block->context == NULL;
}

static CUresult pointer_context(const struct block *block, void *data)
{
    if (block_outlives_contexts(block)) {
        *(CUcontext *)data = NULL;
        return block->kind == BLOCK_MAPPED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    *(CUcontext *)data = (CUcontext)block->context;
    return CUDA_SUCCESS;
}

/* Attributes that are one number of 32 bits or less. */
static CUresult pointer_number(const struct block *block, CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = block_is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned int *)data = block->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = block->kind == BLOCK_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned int *)data = block->kind == BLOCK_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned int *)data = block->kind == BLOCK_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult pointer_answer(const struct block *block, CUpointer_attribute attribute,
                               CUdeviceptr address, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return pointer_context(block, data);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!block_is_host(block) && block->kind != BLOCK_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block->buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = block->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = block->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = block->kind == BLOCK_PIECE ? (CUmemoryPool)block->pool : NULL;
        return CUDA_SUCCESS;
    default:
        return pointer_number(block, attribute, data);
    }
}

CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    const struct block *block = card_find(address);
    if (data == NULL || block == NULL || block->free_op != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return pointer_answer(block, attribute, address, data);
}

static size_t attribute_bytes(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return 8;
    default:
        return 4;
    }
}

/* What the driver cannot tell is zero; that is no error here. */
CUresult pointer_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                            CUdeviceptr address)
{
    const struct block *block = card_find(address);
    if (count == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (block == NULL || pointer_answer(block, attributes[i], address, data[i]) != CUDA_SUCCESS)
            memset(data[i], 0, attribute_bytes(attributes[i]));
        if (block == NULL && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2; /* CU_DEVICE_INVALID */
    }
    return CUDA_SUCCESS;
}

CUresult pointer_set(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct block *block = card_find(address);
    if (block != NULL && block->kind == BLOCK_MAPPED)
        return CUDA_ERROR_NOT_SUPPORTED; /* whatever the attribute */
    if (value == NULL || block == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    block->sync_memops = *(const unsigned int *)value != 0;
    return CUDA_SUCCESS;
}

/* --- other processes
 * -------------------------------------------------------------------------------- */

/* What the 64 bytes of a handle hold. */
struct ipc_content {
    char mark[8];
    int32_t process;
    int32_t file;
    uint64_t offset;
    uint64_t bytes;
    int32_t device;
};

_Static_assert(sizeof(struct ipc_content) <= sizeof(CUipcMemHandle), "the handle holds it all");

static const char ipc_mark[8] = "vrsimIPC";

CUresult ipc_get(CUipcMemHandle *handle, CUdeviceptr address)
{
    const struct block *block = card_find(address);
    if (handle == NULL || block == NULL || block->kind != BLOCK_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    const struct device *device = &sim.devices[block->device];
    struct ipc_content content = {.process = getpid(),
                                  .file = device->memory_file,
                                  .offset = block->address - device->window,
                                  .bytes = block->bytes,
                                  .device = block->device};
    memcpy(content.mark, ipc_mark, sizeof(ipc_mark));
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &content, sizeof(content));
    return CUDA_SUCCESS;
}

/* Maps the other process's bytes; NULL when it is gone. */
static char *ipc_map(const struct ipc_content *content)
{
    char path[64];
    uint64_t inside = content->offset % (uint64_t)sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", content->process, content->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return NULL;
    char *place = mmap(NULL, content->bytes + inside, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE, file, (off_t)(content->offset - inside));
    close(file);
    return place != MAP_FAILED ? place + inside : NULL;
}

CUresult ipc_open(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    struct ipc_content content;
    memcpy(&content, &handle, sizeof(content));
    if (out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        memcmp(content.mark, ipc_mark, sizeof(ipc_mark)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (content.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct block *open_already = block_list_ipc(content.process, content.device, content.offset);
    if (open_already != NULL) {
        open_already->ipc_opened++;
        *out = open_already->address;
        return CUDA_SUCCESS;
    }
    char *view = ipc_map(&content);
    void *address =
        mmap(NULL, content.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (view == NULL || address == MAP_FAILED)
        return CUDA_ERROR_INVALID_VALUE;
    struct block *block = block_new(BLOCK_IPC, (uint64_t)(uintptr_t)address, content.bytes);
    block->view = view;
    block->device = content.device;
    block->ipc_process = content.process;
    block->ipc_offset = content.offset;
    block->ipc_opened = 1;
    block_list_add(block);
    *out = block->address;
    return CUDA_SUCCESS;
}

CUresult ipc_close(CUdeviceptr address)
{
    struct block *block = card_find(address);
    if (block == NULL || block->kind != BLOCK_IPC || block->address != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (--block->ipc_opened > 0)
        return CUDA_SUCCESS;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t inside = (uint64_t)(uintptr_t)block->view % page;
    block_list_remove(block);
    munmap(block->view - inside, block->bytes + inside);
    munmap((void *)(uintptr_t)block->address, block->bytes);
    free(block);
    return CUDA_SUCCESS;
}
