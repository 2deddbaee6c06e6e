/* backing_vmm.c - segments made of parts that can go back one by one: cuMemCreate and cuMemMap.
 *
 * An acquisition reserves addresses and maps one handle for each part. A handle is let go as soon
 * as it is mapped: the mapping keeps the memory, and unmapping a part gives it back. Memory is made
 * fit for RDMA where the device can, and reachable for the devices that were made peers.
 *
 * One reservation for each segment: the driver's own book of addresses costs 2 to 16 us a
 * reservation and needs none of ours. None of these calls waits for the GPU or spoils a capture
 * (measured), so memory can move inside a cudaMalloc.
 *
 * What it leaves out: sharing with other processes (cudaIpcGetMemHandle is refused), access taken
 * back by cuCtxDisablePeerAccess. Lock: none.
 */
#include "backing_vmm.h"

#include <string.h>

#include "clock.h"
#include "debug.h"
#include "deferred.h"
#include "driver.h"
#include "fence.h"
#include "log.h"
#include "options.h"
#include "trace.h"
#include "process.h"
#include "wait.h"

static bool used;

static bool driver_has_all(void)
{
    return real_cuMemAddressReserve != NULL && driver_has((void *)real_cuMemAddressFree) &&
           real_cuMemMap != NULL && driver_has((void *)real_cuMemUnmap) &&
           driver_has((void *)real_cuMemSetAccess) && real_cuMemRelease != NULL &&
           real_cuDeviceGetAttribute != NULL;
}

static bool device_has(const struct device *device, CUdevice_attribute attribute)
{
    int value = 0;
    return real_cuDeviceGetAttribute(&value, attribute, device->handle) == CUDA_SUCCESS &&
           value != 0;
}

static CUmemAllocationProp memory_of(const struct device *device)
{
    CUmemAllocationProp memory = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle}};
    if (device_has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
        memory.allocFlags.gpuDirectRDMACapable = 1;
    return memory;
}

bool backing_vmm_wanted(const struct device *device)
{
    size_t step_bytes = 0;
    if (strcmp(options.backing, "vmm") != 0)
        return false;
    if (driver_has_all() &&
        device_has(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
        CUmemAllocationProp memory = memory_of(device);
        if (real_cuMemGetAllocationGranularity == NULL ||
            real_cuMemGetAllocationGranularity(&step_bytes, &memory,
                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
            (step_bytes != 0 && BACKING_SEGMENT_ALIGN_BYTES % step_bytes == 0))
            return true;
    }
    log_once("VRAMALLOC_BACKING=vmm is not possible on GPU %d; malloc is used instead",
             device->handle);
    return false;
}

static enum backing_status status_of(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return BACKING_OK;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? BACKING_NO_MEMORY : BACKING_FAILED;
}

/* What a device may do with mapped memory; other devices' access stays as it is. */
static CUresult access_set(CUdevice device, CUmemAccess_flags flags, uint64_t address,
                           uint64_t bytes)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = flags};
    return real_cuMemSetAccess(address, bytes, &access, 1);
}

static CUresult access_allow(CUdevice device, uint64_t address, uint64_t bytes)
{
    return access_set(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, address, bytes);
}

static CUresult access_allow_all(const struct device *device, uint64_t address, uint64_t bytes)
{
    uint64_t peers = __atomic_load_n(&device->peers, __ATOMIC_SEQ_CST);
    CUresult result = access_allow(device->handle, address, bytes);
    for (; result == CUDA_SUCCESS && peers != 0; peers &= peers - 1)
        result = access_allow(__builtin_ctzll(peers), address, bytes);
    return result;
}

static CUresult part_map(const struct device *device, uint64_t address, uint64_t bytes)
{
    CUmemAllocationProp memory = memory_of(device);
    CUmemGenericAllocationHandle handle;
    CUresult result = real_cuMemCreate(&handle, bytes, &memory, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = real_cuMemMap(address, bytes, 0, handle, 0);
    real_cuMemRelease(handle);
    DEVICE_COUNT(device_known(device->handle), driver_calls, 3);
    return result;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Unmaps part by part. Returns how many bytes were unmapped before one refused. */
static uint64_t parts_unmap(uint64_t address, uint64_t bytes, uint64_t part_bytes)
{
    uint64_t at = 0;
    while (at < bytes &&
           real_cuMemUnmap(address + at, least(part_bytes, bytes - at)) == CUDA_SUCCESS)
        at += least(part_bytes, bytes - at);
    return at;
}

static CUresult parts_map(const struct device *device, uint64_t address, uint64_t bytes,
                          uint64_t part_bytes)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t at = 0;
    while (at < bytes && result == CUDA_SUCCESS) {
        uint64_t part = least(part_bytes, bytes - at);
        result = part_map(device, address + at, part);
        if (result == CUDA_SUCCESS)
            at += part;
    }
    if (result == CUDA_SUCCESS)
        result = access_allow_all(device, address, bytes);
    if (result != CUDA_SUCCESS)
        parts_unmap(address, at, part_bytes);
    return result;
}

/* After a fault memory by handle can be had although cuMemAlloc fails. This is the cheapest call
 * that tells of a fault (measured: cuCtxGetCurrent and cuPointerGetAttribute do not). */
static bool fault_pends(struct context *context)
{
    CUstreamCaptureStatus status;
    if (real_cuStreamIsCapturing == NULL ||
        !wait_error_lasts(real_cuStreamIsCapturing(CU_STREAM_LEGACY, &status)))
        return false;
    __atomic_store_n(&context->faulted, true, __ATOMIC_RELAXED);
    return true;
}

static enum backing_status acquire_parts(void *self, uint64_t bytes, uint64_t part_bytes,
                                         uint64_t *address_out)
{
    struct context *context = self;
    CUdeviceptr address = 0;
    process_memory_asked(context->device->total_bytes);
    latency_slow();
    uint64_t begin_ns = clock_ns();
    if (fault_pends(context))
        return BACKING_FAILED;
    CUresult result = real_cuMemAddressReserve(&address, bytes, BACKING_SEGMENT_ALIGN_BYTES, 0, 0);
    DEVICE_COUNT(context->device, driver_calls, 2);
    if (result != CUDA_SUCCESS)
        return status_of(result);
    result = parts_map(context->device, address, bytes, part_bytes);
    if (result == CUDA_SUCCESS) {
        debug_segment(context, address, bytes);
        latency_growth(context->device, begin_ns);
        *address_out = address;
    } else {
        real_cuMemAddressFree(address, bytes);
    }
    trace_event(TRACE_GROW, begin_ns, result == CUDA_SUCCESS ? address : 0, bytes, (int)result,
                context_number(context));
    return status_of(result);
}

/* If the driver takes back only some of the parts, the others are lost: nothing that the pool knows
 * lies there any more. */
static enum backing_status release_parts(void *self, uint64_t address, uint64_t bytes,
                                         uint64_t part_bytes)
{
    const struct context *context = self;
    latency_slow();
    DEVICE_COUNT(context->device, driver_calls, (bytes + part_bytes - 1) / part_bytes);
    uint64_t begin_ns = trace_clock();
    uint64_t unmapped_bytes = parts_unmap(address, bytes, part_bytes);
    trace_event(TRACE_SHRINK, begin_ns, address, bytes, unmapped_bytes > 0 ? 0 : CUDA_ERROR_UNKNOWN,
                context_number(context));
    return unmapped_bytes > 0 ? BACKING_OK : BACKING_FAILED;
}

static void retire(void *self, uint64_t address, uint64_t bytes)
{
    const struct context *context = self;
    DEVICE_COUNT(context->device, driver_calls, 1);
    real_cuMemAddressFree(address, bytes);
}

bool backing_vmm_used(void)
{
    return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

struct backing backing_vmm(struct context *context)
{
    __atomic_store_n(&used, true, __ATOMIC_RELAXED);
    return (struct backing){.self = context,
                            .room = context_room,
                            .acquire_parts = acquire_parts,
                            .release_parts = release_parts,
                            .retire = retire,
                            .fence_poll = fence_poll,
                            .fence_wait = fence_wait,
                            .fence_drop = fence_drop,
                            .frees_due = deferred_due,
                            .clock_ns = context_clock_ns};
}

struct sharing {
    CUdevice peer;
    CUresult result;
};

static void range_share(void *arg, uint64_t address, uint64_t bytes)
{
    struct sharing *sharing = arg;
    if (sharing->result == CUDA_SUCCESS)
        sharing->result = access_allow(sharing->peer, address, bytes);
}

static void range_unshare(void *arg, uint64_t address, uint64_t bytes)
{
    const CUdevice *peer = arg;
    access_set(*peer, CU_MEM_ACCESS_FLAGS_PROT_NONE, address, bytes);
}

CUresult backing_vmm_share(struct pool *pool, CUdevice peer)
{
    struct sharing sharing = {.peer = peer, .result = CUDA_SUCCESS};
    pool_visit_backed(pool, range_share, &sharing);
    return sharing.result;
}

void backing_vmm_unshare(struct pool *pool, CUdevice peer)
{
    pool_visit_backed(pool, range_unshare, &peer);
}
