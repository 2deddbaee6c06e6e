/* hooks_lifetime.c - contexts that come and go.
 *
 * Memory of a context ends with it. Its pool is ended before the driver destroys the context, since
 * afterwards the driver may hand out the same handle and the same addresses again. A green context
 * or peer access makes frees on that device wait the native way (wait.c).
 *
 * What it leaves out: contexts that end with the process. Lock: one at a time enables peer access.
 */
#include "devices.h"
#include "driver.h"

static pthread_mutex_t peer_lock = PTHREAD_MUTEX_INITIALIZER;

/* The device of a context, which need not be current. -1: not known. */
static CUdevice context_device(CUcontext context)
{
    CUdevice device = -1;
    CUcontext popped;
    if (context == NULL || real_cuCtxPushCurrent_v2 == NULL ||
        real_cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return -1;
    if (real_cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    real_cuCtxPopCurrent_v2(&popped);
    return device;
}

static CUresult context_destroy(CUcontext context, CUresult (*destroy)(CUcontext))
{
    struct context *dropped = contexts_drop_begin(context);
    CUresult result = destroy(context);
    contexts_drop_end(dropped);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&context_was_destroyed, true, __ATOMIC_RELAXED);
    return result;
}

CUresult hook_cuCtxDestroy(CUcontext context)
{
    return driver_ready() ? context_destroy(context, real_cuCtxDestroy)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuCtxDestroy_v2(CUcontext context)
{
    return driver_ready() ? context_destroy(context, real_cuCtxDestroy_v2)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuCtxDetach(CUcontext context)
{
    return driver_ready() ? context_destroy(context, real_cuCtxDetach) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice handle)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuDevicePrimaryCtxRetain(context, handle);
    struct device *device = result == CUDA_SUCCESS ? device_of(handle) : NULL;
    if (device != NULL)
        __atomic_store_n(&device->primary, *context, __ATOMIC_RELAXED);
    return result;
}

/* Ends the pool of the device's primary context if the context is no longer active. */
static CUresult primary_released(CUresult result, CUdevice handle)
{
    unsigned int flags;
    int active = 1;
    struct device *device = result == CUDA_SUCCESS ? device_known(handle) : NULL;
    if (device == NULL || real_cuDevicePrimaryCtxGetState == NULL)
        return result;
    if (real_cuDevicePrimaryCtxGetState(handle, &flags, &active) == CUDA_SUCCESS && !active)
        contexts_drop_end(contexts_drop_begin(__atomic_load_n(&device->primary, __ATOMIC_RELAXED)));
    return result;
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return driver_ready() ? primary_released(real_cuDevicePrimaryCtxRelease(device), device)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return driver_ready() ? primary_released(real_cuDevicePrimaryCtxRelease_v2(device), device)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult primary_reset(CUdevice handle, CUresult (*reset)(CUdevice))
{
    struct device *device = device_known(handle);
    struct context *dropped = NULL;
    if (device != NULL)
        dropped = contexts_drop_begin(__atomic_load_n(&device->primary, __ATOMIC_RELAXED));
    CUresult result = reset(handle);
    contexts_drop_end(dropped);
    return result;
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device)
{
    return driver_ready() ? primary_reset(device, real_cuDevicePrimaryCtxReset)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return driver_ready() ? primary_reset(device, real_cuDevicePrimaryCtxReset_v2)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

/* Natively this call also opens all memory that there is, and fails, with the code of what failed
 * and nothing enabled, where that cannot be done. So does this one for memory by handle. The lock
 * is for the other thread that is told that access is enabled already: the memory is open then. */
static CUresult peer_enable(CUcontext peer, unsigned int flags, struct device *device,
                            CUdevice current)
{
    pthread_mutex_lock(&peer_lock);
    CUresult result = real_cuCtxEnablePeerAccess(peer, flags);
    if (result == CUDA_SUCCESS) {
        result = device_peer_add(device, current);
        if (result != CUDA_SUCCESS && driver_has((void *)real_cuCtxDisablePeerAccess))
            real_cuCtxDisablePeerAccess(peer);
    }
    pthread_mutex_unlock(&peer_lock);
    return result;
}

/* The current context may now touch memory of the peer context, so a free there must wait for both.
 */
CUresult hook_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUdevice current = -1, handle = context_device(peer);
    struct device *device = handle >= 0 && process_serves() ? device_of(handle) : NULL;
    if (device == NULL || real_cuCtxGetDevice(&current) != CUDA_SUCCESS)
        return real_cuCtxEnablePeerAccess(peer, flags);
    /* before: a kernel may run before we are back */
    __atomic_store_n(&device->peer_enabled, true, __ATOMIC_RELAXED);
    return peer_enable(peer, flags, device, current);
}

CUresult hook_cuGreenCtxCreate(void **green, void *description, CUdevice handle, unsigned int flags)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuGreenCtxCreate(green, description, handle, flags);
    struct device *device = result == CUDA_SUCCESS ? device_of(handle) : NULL;
    if (device != NULL)
        __atomic_store_n(&device->green_made, true, __ATOMIC_RELAXED);
    return result;
}
