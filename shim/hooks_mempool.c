/* hooks_mempool.c - the driver's own memory pools: a program that configures or measures the
 * default pool, or sets another one, gets the driver's pool for its stream-ordered calls from then
 * on.
 *
 * The release threshold and the reuse settings change nothing that a program can see in memory
 * served from our pool, so they are passed on and serving continues.
 *
 * What it leaves out: explicit pools, which are always the driver's. Lock: none.
 */
#include "devices.h"
#include "driver.h"

static void async_to_driver(struct device *device)
{
    if (device != NULL)
        __atomic_store_n(&device->async_to_driver, true, __ATOMIC_RELAXED);
}

/* Marks the device whose default pool this is; other pools are not our business. */
static void default_pool_touched(CUmemoryPool pool)
{
    for (CUdevice i = 0; i < DEVICES_MAX && pool != NULL; i++) {
        struct device *device = device_known(i);
        if (device != NULL && device->default_pool == pool)
            async_to_driver(device);
    }
}

static bool attribute_is_harmless(CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ||
           attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC ||
           attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
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
    if (!attribute_is_harmless(attribute))
        default_pool_touched(pool);
    return real_cuMemPoolSetAttribute(pool, attribute, value);
}

CUresult hook_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!attribute_is_harmless(attribute))
        default_pool_touched(pool);
    return real_cuMemPoolGetAttribute(pool, attribute, value);
}

CUresult hook_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    default_pool_touched(pool);
    return real_cuMemPoolTrimTo(pool, keep_bytes);
}

CUresult hook_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    default_pool_touched(pool);
    return real_cuMemPoolSetAccess(pool, access, count);
}
