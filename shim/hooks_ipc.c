/* hooks_ipc.c - sharing memory with other processes by legacy CUDA IPC. See ipc.h.
 *
 * What it leaves out: handles for files (cuMemExportToShareableHandle): memory by handle is the
 * program's own. Lock: none.
 */
#include "devices.h"
#include "driver.h"
#include "ipc.h"
#include "log.h"
#include "pooled.h"

static CUresult export_refuse(void)
{
    DEVICE_COUNT(device_for_counting(), ipc_refused, 1);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The driver's handle is the segment's, and is replaced by one of ours unless the block starts
 * there: the other process would open the segment's start. */
static CUresult export_block(CUipcMemHandle *handle, const struct pool_block *block)
{
    CUipcMemHandle segment;
    CUresult result = real_cuIpcGetMemHandle(&segment, block->address);
    if (result != CUDA_SUCCESS)
        return result;
    if (block->address == block->segment_address) {
        *handle = segment;
    } else if (!ipc_export(block, &segment, handle)) {
        log_once("cuIpcGetMemHandle refused: no file in memory for the handles of pooled blocks, "
                 "or %d are exported; with VRAMALLOC_ENABLE=0 handles are the driver's",
                 IPC_ENTRIES);
        return export_refuse();
    }
    DEVICE_COUNT(device_for_counting(), shared_ipc, 1);
    pool_retag(block->address, block->tag | TAG_EXPORTED);
    return CUDA_SUCCESS;
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    enum pooled pooled = pooled_find(dptr, &block);
    if (pooled == POOLED_NO)
        return real_cuIpcGetMemHandle(handle, dptr);
    if (handle == NULL || pooled == POOLED_DEAD || (block.tag & TAG_STREAM_ORDERED) != 0)
        return real_cuIpcGetMemHandle(handle, DRIVER_UNKNOWN_ADDRESS); /* memory of no such kind */
    if (!pooled_is_by_handle(&block))
        return export_block(handle, &block);
    log_once("cuIpcGetMemHandle refused: memory of VRAMALLOC_BACKING=vmm has no such handle; every "
             "block of cudaMalloc has one with VRAMALLOC_BACKING=malloc");
    return export_refuse();
}

typedef CUresult (*open_function)(CUdeviceptr *, CUipcMemHandle, unsigned int);

/* Opens what the driver's handle names, and answers with the block in it. */
static CUresult import(CUdeviceptr *dptr, const CUipcMemHandle *handle, uint64_t offset,
                       uint64_t bytes, unsigned int flags, open_function real_open)
{
    CUcontext current = NULL;
    CUdeviceptr segment = 0;
    CUresult result = real_open(dptr != NULL ? &segment : NULL, *handle, flags);
    if (result != CUDA_SUCCESS || dptr == NULL)
        return result;
    real_cuCtxGetCurrent(&current);
    if (!ipc_import_add(current, segment, offset, bytes) && bytes > 0) {
        log_once("cuIpcOpenMemHandle refused: too many pooled blocks of other processes are open");
        real_cuIpcCloseMemHandle(segment);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *dptr = segment + offset;
    return CUDA_SUCCESS;
}

static CUresult handle_open(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags,
                            open_function real_open)
{
    struct ipc_target target;
    switch (ipc_resolve(&handle, &target)) {
    case IPC_FOUND:
        return import(dptr, &target.segment, target.offset, target.bytes, flags, real_open);
    case IPC_GONE:
        log_once("cuIpcOpenMemHandle refused: the handle is of a pooled block that was freed, or "
                 "of a process that has ended, or whose /proc/PID/fd cannot be read here");
        return CUDA_ERROR_INVALID_VALUE;
    default:
        return import(dptr, &handle, 0, 0, flags, real_open);
    }
}

CUresult hook_cuIpcOpenMemHandle(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
    return driver_ready() ? handle_open(dptr, handle, flags, real_cuIpcOpenMemHandle)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuIpcOpenMemHandle_v2(CUdeviceptr *dptr, CUipcMemHandle handle, unsigned int flags)
{
    return driver_ready() ? handle_open(dptr, handle, flags, real_cuIpcOpenMemHandle_v2)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    return driver_ready() ? real_cuIpcCloseMemHandle(ipc_import_remove(dptr))
                          : CUDA_ERROR_NOT_INITIALIZED;
}
