/* hooks_mempool.c - the driver's own memory pools. What the program asks of the default pool is
 * answered with our share of its stream-ordered blocks included. A program that sets another pool,
 * or lets peers at the default one, gets the driver's pool for its stream-ordered calls from then
 * on.
 *
 * The release threshold and the reuse settings are passed on, and serving continues: they change
 * nothing that a program can see in memory served from our pool but what is told to be reserved.
 * There the driver's step is counted, and what the threshold would keep.
 *
 * What it leaves out: explicit pools, which are always the driver's. Lock: none.
 */
#include "devices.h"
#include "driver.h"
#include "stream_use.h"

/* The first cudaMallocAsync takes this much from an H200 (measured). */
#define RESERVE_STEP_BYTES ((uint64_t)32 << 20)

static void async_to_driver(struct device *device)
{
    if (device != NULL)
        __atomic_store_n(&device->async_to_driver, true, __ATOMIC_RELAXED);
}

/* The device whose default pool this is; NULL: other pools are not our business. */
static struct device *device_of_default_pool(CUmemoryPool pool)
{
    for (CUdevice i = 0; i < DEVICES_MAX && pool != NULL && process_serves(); i++) {
        struct device *device = device_known(i);
        if (device != NULL && device->default_pool == pool)
            return device;
    }
    return NULL;
}

static uint64_t step_up(uint64_t bytes)
{
    return (bytes + RESERVE_STEP_BYTES - 1) / RESERVE_STEP_BYTES * RESERVE_STEP_BYTES;
}

static uint64_t threshold_of(CUmemoryPool pool)
{
    cuuint64_t bytes = 0;
    CUresult result = real_cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

/* What the driver's pool would hold for our blocks. */
static uint64_t reserved_bytes(CUmemoryPool pool, const struct stream_use *use)
{
    uint64_t threshold = threshold_of(pool);
    uint64_t kept = use->kept_bytes < threshold ? use->kept_bytes : threshold;
    return step_up(use->bytes > kept ? use->bytes : kept);
}

/* The most of two that were perhaps never there at once: no less than each, nor than both now. */
static uint64_t high_of(CUmemoryPool pool, CUmemPool_attribute current, uint64_t high,
                        uint64_t our_high, uint64_t our_current)
{
    cuuint64_t now = 0;
    if (real_cuMemPoolGetAttribute(pool, current, &now) != CUDA_SUCCESS)
        now = 0;
    high = high > our_high ? high : our_high;
    return high > now + our_current ? high : now + our_current;
}

/* Adds our share to the driver's value. Attributes that are no bytes, and narrower, stay. */
static void attribute_correct(const struct device *device, CUmemoryPool pool,
                              CUmemPool_attribute attribute, cuuint64_t *value)
{
    struct stream_use use = stream_use_of(device);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *value += reserved_bytes(pool, &use);
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *value = high_of(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, *value,
                         step_up(use.reserved_bytes), reserved_bytes(pool, &use));
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *value += use.bytes;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *value = high_of(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, *value, use.high_bytes, use.bytes);
        break;
    default:
        break;
    }
}

CUresult hook_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuDeviceSetMemPool(device, pool);
    if (result == CUDA_SUCCESS)
        async_to_driver(device_of(device));
    return result;
}

/* The location names the device in a way that newer drivers may extend: every device is meant. */
CUresult hook_cuMemSetMemPool(void *location, int allocation_type, CUmemoryPool pool)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuMemSetMemPool(location, allocation_type, pool);
    for (CUdevice i = 0; i < DEVICES_MAX && result == CUDA_SUCCESS; i++)
        async_to_driver(device_known(i));
    return result;
}

CUresult hook_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    const struct device *device = device_of_default_pool(pool);
    uint64_t threshold = device != NULL ? threshold_of(pool) : 0;
    CUresult result = real_cuMemPoolSetAttribute(pool, attribute, value);
    if (device == NULL || result != CUDA_SUCCESS)
        return result;
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        stream_use_keep(device, threshold);
    if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
        attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        stream_use_reset(device, attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    return result;
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuMemPoolGetAttribute(pool, attribute, value);
    const struct device *device = result == CUDA_SUCCESS ? device_of_default_pool(pool) : NULL;
    if (device != NULL)
        attribute_correct(device, pool, attribute, value);
    return result;
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuMemPoolTrimTo(pool, keep_bytes);
    const struct device *device = result == CUDA_SUCCESS ? device_of_default_pool(pool) : NULL;
    if (device != NULL)
        stream_use_trim(device, keep_bytes);
    return result;
}

CUresult hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    async_to_driver(device_of_default_pool(pool));
    return real_cuMemPoolSetAccess(pool, access, count);
}
