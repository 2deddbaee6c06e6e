/* device.c - errors, versions, devices, and the context that the other calls work in.
 *
 * A thread works on device 0 until it chooses another. The primary context of a device is retained
 * by the first call that needs it, and again after a reset; a context that the program made current
 * through the driver is used as it is.
 *
 * What it leaves out: device properties and limits.
 *
 * Lock: none; retaining twice in a race only costs a reference.
 */
#include "runtime.h"

#include <stddef.h>

enum { RUNTIME_VERSION = 13000 };

static __thread int thread_device;
static __thread cudaError_t last_error;
static CUcontext retained[RUNTIME_DEVICES_MAX]; /* NULL: not, or no longer */
static bool was_reset[RUNTIME_DEVICES_MAX];

/* The codes are the same numbers. */
cudaError_t error_of(CUresult result)
{
    return (cudaError_t)result;
}

cudaError_t runtime_leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t runtime_start(void)
{
    if (!runtime_bind())
        return cudaErrorInsufficientDriver;
    return error_of(driver.cuInit(0));
}

/* Retains the device's primary context if it is not, and makes it current. */
static cudaError_t device_use(int device)
{
    CUcontext context = __atomic_load_n(&retained[device], __ATOMIC_ACQUIRE);
    CUresult result = CUDA_SUCCESS;
    if (context == NULL) {
        result = driver.cuDevicePrimaryCtxRetain(&context, device);
        if (result != CUDA_SUCCESS)
            return error_of(result);
        __atomic_store_n(&was_reset[device], false, __ATOMIC_RELAXED);
        __atomic_store_n(&retained[device], context, __ATOMIC_RELEASE);
    }
    return error_of(driver.cuCtxSetCurrent(context));
}

cudaError_t runtime_enter(void)
{
    CUcontext current = NULL;
    cudaError_t error = runtime_start();
    if (error != cudaSuccess)
        return error;
    error = error_of(driver.cuCtxGetCurrent(&current));
    if (error != cudaSuccess)
        return error;
    bool stale = current != NULL && __atomic_load_n(&was_reset[thread_device], __ATOMIC_RELAXED);
    return current == NULL || stale ? device_use(thread_device) : cudaSuccess;
}

bool runtime_device_is_reset(void)
{
    return __atomic_load_n(&was_reset[thread_device], __ATOMIC_RELAXED);
}

/* --- errors and versions ------------------------------------------------------------------------
 */

RUNTIME_API cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

RUNTIME_API cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorCallRequiresNewerDriver, "cudaErrorCallRequiresNewerDriver",
     "API call is not supported in the installed CUDA driver"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorContextIsDestroyed, "cudaErrorContextIsDestroyed", "context is destroyed"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

static const char *error_field(cudaError_t error, bool name)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == error)
            return name ? errors[i].name : errors[i].text;
    return "unrecognized error code";
}

RUNTIME_API const char *cudaGetErrorName(cudaError_t error)
{
    return error_field(error, true);
}

RUNTIME_API const char *cudaGetErrorString(cudaError_t error)
{
    return error_field(error, false);
}

RUNTIME_API cudaError_t cudaDriverGetVersion(int *version)
{
    if (version == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    *version = 0;
    if (!runtime_bind())
        return cudaSuccess;
    return runtime_leave(error_of(driver.cuDriverGetVersion(version)));
}

RUNTIME_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (version == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

/* --- devices
 * -------------------------------------------------------------------------------------- */

RUNTIME_API cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = count == NULL ? cudaErrorInvalidValue : runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceGetCount(count));
    else if (count != NULL)
        *count = 0;
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaSetDevice(int device)
{
    int count = 0;
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceGetCount(&count));
    if (error == cudaSuccess && (device < 0 || device >= count || device >= RUNTIME_DEVICES_MAX))
        error = cudaErrorInvalidDevice;
    if (error == cudaSuccess) {
        thread_device = device;
        error = device_use(device);
    }
    return runtime_leave(error);
}

/* A context that the program made current through the driver decides. */
RUNTIME_API cudaError_t cudaGetDevice(int *device)
{
    CUcontext current = NULL;
    cudaError_t error = device == NULL ? cudaErrorInvalidValue : runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuCtxGetCurrent(&current));
    if (error != cudaSuccess)
        return runtime_leave(error);
    if (current == NULL || driver.cuCtxGetDevice(device) != CUDA_SUCCESS)
        *device = thread_device;
    return cudaSuccess;
}

RUNTIME_API cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuCtxSynchronize());
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = runtime_start();
    if (error != cudaSuccess)
        return runtime_leave(error);
    error = error_of(driver.cuDevicePrimaryCtxReset(thread_device));
    __atomic_store_n(&was_reset[thread_device], true, __ATOMIC_RELAXED);
    __atomic_store_n(&retained[thread_device], NULL, __ATOMIC_RELEASE);
    last_error = cudaSuccess;
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceCanAccessPeer(can, device, peer));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context = NULL;
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuDevicePrimaryCtxRetain(&context, peer));
    if (error == cudaSuccess)
        error = error_of(driver.cuCtxEnablePeerAccess(context, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceGetDefaultMemPool(pool, device));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceGetMemPool(pool, device));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuDeviceSetMemPool(device, pool));
    return runtime_leave(error);
}
