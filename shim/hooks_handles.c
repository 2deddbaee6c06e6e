/* hooks_handles.c - the program's calls on memory by handle, and for handles of memory. With
 * VRAMALLOC_BACKING=vmm a segment of the pool is such memory, and the driver would let the program
 * unmap it, or take its handle, under the blocks of others. Natively those addresses are
 * cuMemAlloc's, which all of these refuse.
 *
 * What it leaves out: cuMemCreate, which is counted only (hooks_counted.c). Lock: none.
 */
#include "backing_vmm.h"
#include "devices.h"
#include "driver.h"

#define HOST_PAGE_BYTES ((CUdeviceptr)4096)

/* Any address of the range is the pool's: its first one, or the start of a later 2 MiB. Only memory
 * by handle is within reach of these calls. */
static bool pool_reached(CUdeviceptr dptr, size_t bytes)
{
    if (!process_serves() || !backing_vmm_used())
        return false;
    CUdeviceptr end = dptr + bytes < dptr ? UINT64_MAX : dptr + bytes;
    for (CUdeviceptr at = dptr; at < end; at = (at | (BACKING_SEGMENT_ALIGN_BYTES - 1)) + 1) {
        if (pool_owns(at))
            return true;
        if (at > UINT64_MAX - BACKING_SEGMENT_ALIGN_BYTES)
            break;
    }
    return false;
}

CUresult hook_cuMemUnmap(CUdeviceptr dptr, size_t bytes)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached(dptr, bytes) ? CUDA_ERROR_INVALID_VALUE : real_cuMemUnmap(dptr, bytes);
}

CUresult hook_cuMemAddressFree(CUdeviceptr dptr, size_t bytes)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached(dptr, bytes) ? CUDA_ERROR_INVALID_VALUE
                                     : real_cuMemAddressFree(dptr, bytes);
}

CUresult hook_cuMemSetAccess(CUdeviceptr dptr, size_t bytes, const CUmemAccessDesc *access,
                             size_t count)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached(dptr, bytes) ? CUDA_ERROR_INVALID_VALUE
                                     : real_cuMemSetAccess(dptr, bytes, access, count);
}

/* For cuMemAlloc memory the driver answers that there is none (measured): access is of mappings. */
CUresult hook_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                             CUdeviceptr dptr)
{
    struct pool_block block;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!process_serves() || !pool_owns(dptr))
        return real_cuMemGetAccess(flags, location, dptr);
    if (pool_find(dptr, &block) != POOL_OK)
        return real_cuMemGetAccess(flags, location, DRIVER_UNKNOWN_ADDRESS);
    CUresult result = real_cuMemGetAccess(flags, location, dptr);
    if (result == CUDA_SUCCESS && flags != NULL && (block.tag & TAG_STREAM_ORDERED) == 0)
        *flags = 0;
    return result;
}

/* Whole pages around a live block have a handle natively, where they are aligned; more does not. */
static bool pages_of_block(CUdeviceptr dptr, size_t bytes)
{
    struct pool_block block;
    if (bytes == 0 ||
        (pool_find(dptr, &block) != POOL_OK && pool_find(dptr + bytes - 1, &block) != POOL_OK))
        return false;
    CUdeviceptr first = block.address & ~(HOST_PAGE_BYTES - 1);
    CUdeviceptr end =
        (block.address + block.requested_bytes + HOST_PAGE_BYTES - 1) & ~(HOST_PAGE_BYTES - 1);
    return block.state == POOL_BLOCK_LIVE && dptr >= first && bytes <= end - dptr;
}

CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t bytes, int type,
                                            unsigned long long flags)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    bool known = !process_serves() || !pool_owns(dptr) || pages_of_block(dptr, bytes);
    if (known && process_serves() && pool_owns(dptr))
        DEVICE_COUNT(device_for_counting(), shared_rdma, 1);
    return real_cuMemGetHandleForAddressRange(handle, known ? dptr : DRIVER_UNKNOWN_ADDRESS, bytes,
                                              type, flags);
}

/* Device memory is nothing of the host's. */
CUresult hook_cuMemHostGetDevicePointer_v2(CUdeviceptr *dptr, void *host, unsigned int flags)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (pool_reached((CUdeviceptr)(uintptr_t)host, 1))
        return CUDA_ERROR_INVALID_VALUE;
    return real_cuMemHostGetDevicePointer_v2(dptr, host, flags);
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached((CUdeviceptr)(uintptr_t)address, 1)
               ? CUDA_ERROR_INVALID_VALUE
               : real_cuMemRetainAllocationHandle(handle, address);
}
