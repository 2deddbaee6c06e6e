/* memory.c - allocation, free, copies, questions about pointers.
 *
 * The runtime's own rules: nothing is allocated for size 0 (success, pointer NULL), a failed
 * allocation sets the pointer to NULL, a NULL result pointer is an invalid value. The simulated
 * driver's hazard oracle is told of every block: after an allocation, before a free.
 *
 * Lock: none.
 */
#include "runtime.h"

#include <string.h>

enum flavour { LEGACY = 0, THREAD = 1 };

static CUdeviceptr device_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

static void note_alloc(CUdeviceptr address, size_t bytes)
{
    if (driver.note_alloc != NULL)
        driver.note_alloc(address, bytes);
}

static CUstream note_stream(enum flavour flavour, cudaStream_t stream)
{
    return stream == NULL && flavour == THREAD ? cudaStreamPerThread : stream;
}

/* Enters for an allocation of `bytes` into *pointer. *done: there is nothing more to do. */
static cudaError_t alloc_enter(void **pointer, size_t bytes, bool *done)
{
    *done = true;
    if (pointer == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = runtime_enter();
    *pointer = NULL;
    *done = error != cudaSuccess || bytes == 0;
    return error;
}

RUNTIME_API cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    bool done;
    CUdeviceptr address = 0;
    cudaError_t error = alloc_enter(pointer, bytes, &done);
    if (done)
        return runtime_leave(error);
    error = error_of(driver.cuMemAlloc_v2(&address, bytes));
    if (error == cudaSuccess) {
        *pointer = (void *)(uintptr_t)address;
        note_alloc(address, bytes);
    }
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaFree(void *pointer)
{
    CUdeviceptr address = device_address(pointer);
    if (runtime_device_is_reset())
        return cudaSuccess;
    cudaError_t error = runtime_enter();
    if (error != cudaSuccess || pointer == NULL)
        return runtime_leave(error);
    int ended = driver.note_free != NULL ? driver.note_free(address) : 0;
    error = error_of(driver.cuMemFree_v2(address));
    if (error != cudaSuccess && ended)
        driver.note_free_failed(address);
    return runtime_leave(error);
}

static cudaError_t malloc_pitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    bool done;
    CUdeviceptr address = 0;
    cudaError_t error = alloc_enter(pointer, width * height, &done);
    *pitch = 0;
    if (done)
        return error;
    error = error_of(driver.cuMemAllocPitch_v2(&address, pitch, width, height, 4));
    if (error == cudaSuccess) {
        *pointer = (void *)(uintptr_t)address;
        note_alloc(address, *pitch * height);
    }
    return error;
}

RUNTIME_API cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    if (pointer == NULL || pitch == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    return runtime_leave(malloc_pitch(pointer, pitch, width, height));
}

RUNTIME_API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    if (pitched == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    *pitched = (struct cudaPitchedPtr){NULL, 0, extent.width, extent.height};
    return runtime_leave(
        malloc_pitch(&pitched->ptr, &pitched->pitch, extent.width, extent.height * extent.depth));
}

RUNTIME_API cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    CUdeviceptr address = 0;
    cudaError_t error = pointer == NULL || bytes == 0 ? cudaErrorInvalidValue : runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemAllocManaged(&address, bytes, flags));
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    bool done;
    cudaError_t error = alloc_enter(pointer, bytes, &done);
    if (!done)
        error = error_of(driver.cuMemHostAlloc(pointer, bytes, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    return cudaHostAlloc(pointer, bytes, 0);
}

RUNTIME_API cudaError_t cudaFreeHost(void *pointer)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess && pointer != NULL)
        error = error_of(driver.cuMemFreeHost(pointer));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemGetInfo_v2(free_bytes, total_bytes));
    return runtime_leave(error);
}

/* --- in stream order
 * ------------------------------------------------------------------------------- */

static cudaError_t malloc_async(enum flavour flavour, void **pointer, size_t bytes,
                                cudaMemPool_t pool, cudaStream_t stream)
{
    bool done;
    CUdeviceptr address = 0;
    cudaError_t error = alloc_enter(pointer, bytes, &done);
    if (done)
        return runtime_leave(error);
    error = error_of(pool != NULL
                         ? driver.cuMemAllocFromPoolAsync[flavour](&address, bytes, pool, stream)
                         : driver.cuMemAllocAsync[flavour](&address, bytes, stream));
    if (error == cudaSuccess) {
        *pointer = (void *)(uintptr_t)address;
        if (driver.note_alloc_async != NULL)
            driver.note_alloc_async(address, bytes, note_stream(flavour, stream));
    }
    return runtime_leave(error);
}

static cudaError_t free_async(enum flavour flavour, void *pointer, cudaStream_t stream)
{
    CUdeviceptr address = device_address(pointer);
    cudaError_t error = runtime_enter();
    if (error != cudaSuccess)
        return runtime_leave(error);
    int ended = driver.note_free_async != NULL
                    ? driver.note_free_async(address, note_stream(flavour, stream))
                    : 0;
    error = error_of(driver.cuMemFreeAsync[flavour](address, stream));
    if (error != cudaSuccess && ended)
        driver.note_free_failed(address);
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    return malloc_async(LEGACY, pointer, bytes, NULL, stream);
}

RUNTIME_API cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t bytes, cudaStream_t stream)
{
    return malloc_async(THREAD, pointer, bytes, NULL, stream);
}

RUNTIME_API cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool,
                                                cudaStream_t stream)
{
    if (pool == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    return malloc_async(LEGACY, pointer, bytes, pool, stream);
}

RUNTIME_API cudaError_t cudaMallocFromPoolAsync_ptsz(void **pointer, size_t bytes,
                                                     cudaMemPool_t pool, cudaStream_t stream)
{
    if (pool == NULL)
        return runtime_leave(cudaErrorInvalidValue);
    return malloc_async(THREAD, pointer, bytes, pool, stream);
}

RUNTIME_API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return free_async(LEGACY, pointer, stream);
}

RUNTIME_API cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream)
{
    return free_async(THREAD, pointer, stream);
}

RUNTIME_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool,
                                          const struct cudaMemPoolProps *properties)
{
    _Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "same layout");
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemPoolCreate(pool, (const CUmemPoolProps *)properties));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemPoolDestroy(pool));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                                void *value)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                                void *value)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes)
{
    cudaError_t error = runtime_start();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemPoolTrimTo(pool, keep_bytes));
    return runtime_leave(error);
}

/* --- copies and fills
 * -------------------------------------------------------------------------------- */

static cudaError_t copy_enter(enum cudaMemcpyKind kind)
{
    bool known = (unsigned int)kind <= cudaMemcpyDefault;
    return known ? runtime_enter() : cudaErrorInvalidMemcpyDirection;
}

static CUresult copy(enum flavour flavour, void *to, const void *from, size_t bytes,
                     enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver.cuMemcpyHtoD_v2[flavour](device_address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return driver.cuMemcpyDtoH_v2[flavour](to, device_address(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return driver.cuMemcpyDtoD_v2[flavour](device_address(to), device_address(from), bytes);
    default:
        return driver.cuMemcpy[flavour](device_address(to), device_address(from), bytes);
    }
}

static CUresult copy_async(enum flavour flavour, void *to, const void *from, size_t bytes,
                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver.cuMemcpyHtoDAsync_v2[flavour](device_address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return driver.cuMemcpyDtoHAsync_v2[flavour](to, device_address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return driver.cuMemcpyDtoDAsync_v2[flavour](device_address(to), device_address(from), bytes,
                                                    stream);
    default:
        return driver.cuMemcpyAsync[flavour](device_address(to), device_address(from), bytes,
                                             stream);
    }
}

RUNTIME_API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind)
{
    cudaError_t error = copy_enter(kind);
    if (error == cudaSuccess)
        error = error_of(copy(LEGACY, to, from, bytes, kind));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemcpy_ptds(void *to, const void *from, size_t bytes,
                                        enum cudaMemcpyKind kind)
{
    cudaError_t error = copy_enter(kind);
    if (error == cudaSuccess)
        error = error_of(copy(THREAD, to, from, bytes, kind));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                        enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = copy_enter(kind);
    if (error == cudaSuccess)
        error = error_of(copy_async(LEGACY, to, from, bytes, kind, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemcpyAsync_ptsz(void *to, const void *from, size_t bytes,
                                             enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = copy_enter(kind);
    if (error == cudaSuccess)
        error = error_of(copy_async(THREAD, to, from, bytes, kind, stream));
    return runtime_leave(error);
}

static cudaError_t set(enum flavour flavour, void *pointer, int value, size_t bytes)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(
            driver.cuMemsetD8_v2[flavour](device_address(pointer), (unsigned char)value, bytes));
    return runtime_leave(error);
}

static cudaError_t set_async(enum flavour flavour, void *pointer, int value, size_t bytes,
                             cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuMemsetD8Async[flavour](device_address(pointer),
                                                         (unsigned char)value, bytes, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaMemset(void *pointer, int value, size_t bytes)
{
    return set(LEGACY, pointer, value, bytes);
}

RUNTIME_API cudaError_t cudaMemset_ptds(void *pointer, int value, size_t bytes)
{
    return set(THREAD, pointer, value, bytes);
}

RUNTIME_API cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream)
{
    return set_async(LEGACY, pointer, value, bytes, stream);
}

RUNTIME_API cudaError_t cudaMemsetAsync_ptsz(void *pointer, int value, size_t bytes,
                                             cudaStream_t stream)
{
    return set_async(THREAD, pointer, value, bytes, stream);
}

/* --- pointers
 * ------------------------------------------------------------------------------------------- */

static enum cudaMemoryType memory_type(unsigned int type, unsigned int managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    return type == CU_MEMORYTYPE_HOST     ? cudaMemoryTypeHost
           : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                          : cudaMemoryTypeUnregistered;
}

RUNTIME_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                                 const void *pointer)
{
    unsigned int type = 0, managed = 0;
    int device = 0;
    CUdeviceptr address = 0;
    void *host = NULL;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &managed, &device, &address, &host};
    cudaError_t error = attributes == NULL ? cudaErrorInvalidValue : runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuPointerGetAttributes(5, asked, answers, device_address(pointer)));
    if (error != cudaSuccess)
        return runtime_leave(error);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = memory_type(type, managed);
    attributes->device = device;
    attributes->devicePointer = (void *)(uintptr_t)address;
    attributes->hostPointer = type == 0 ? (void *)(uintptr_t)pointer : host;
    return cudaSuccess;
}

RUNTIME_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error =
            error_of(driver.cuIpcGetMemHandle((CUipcMemHandle *)handle, device_address(pointer)));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle,
                                             unsigned int flags)
{
    CUdeviceptr address = 0;
    CUipcMemHandle driver_handle;
    memcpy(&driver_handle, &handle, sizeof(driver_handle));
    cudaError_t error = pointer == NULL ? cudaErrorInvalidValue : runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuIpcOpenMemHandle_v2(&address, driver_handle, flags));
    if (error == cudaSuccess)
        *pointer = (void *)(uintptr_t)address;
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuIpcCloseMemHandle(device_address(pointer)));
    return runtime_leave(error);
}
