/* hooks_handles.c - the program's calls on memory by handle. With VRAMALLOC_BACKING=vmm a segment
 * of the pool is such memory, and the driver would let the program unmap it, or take its handle,
 * under the blocks of others. Natively those addresses are cuMemAlloc's, which all of these refuse.
 *
 * What it leaves out: cuMemCreate, which is counted only (hooks_counted.c). Lock: none.
 */
#include "devices.h"
#include "driver.h"

/* Any address of the range is the pool's: its first one, or the start of a later 2 MiB. */
static bool pool_reached(CUdeviceptr dptr, size_t bytes)
{
    if (!process_serves())
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

CUresult hook_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                             CUdeviceptr dptr)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached(dptr, 1) ? CUDA_ERROR_INVALID_VALUE
                                 : real_cuMemGetAccess(flags, location, dptr);
}

CUresult hook_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return pool_reached((CUdeviceptr)(uintptr_t)address, 1)
               ? CUDA_ERROR_INVALID_VALUE
               : real_cuMemRetainAllocationHandle(handle, address);
}
