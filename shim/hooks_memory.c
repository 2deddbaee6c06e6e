/* hooks_memory.c - allocation and free, served from the pool of the current context.
 *
 * Allocation: the pool; if it cannot, the driver is asked for exactly the program's request, and
 * its answer is the program's answer. Whatever is unusual (no current context, a host callback, a
 * capturing stream, a size of 0) goes straight to the driver.
 *
 * Free: by the address alone. What the pool does not own is forwarded untouched. For a pooled
 * block: begin (it is nobody's now), wait as the native call does, finish. No lock is held while
 * waiting.
 *
 * Stream-ordered calls: a block freed on a stream may be reused by that stream at once and by
 * anybody when an event recorded at the free has passed. Mixed pairs (allocated by one kind, freed
 * by the other) are fenced after all work of the context.
 *
 * What it leaves out: explicit memory pools, managed and host memory (hooks_counted.c).
 * With a trace (trace.c) each hook records its call around what it does anyway.
 *
 * Lock: none.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "capture.h"
#include "debug.h"
#include "deferred.h"
#include "devices.h"
#include "driver.h"
#include "explain.h"
#include "fence.h"
#include "forwarded.h"
#include "ipc.h"
#include "lazy_fence.h"
#include "options.h"
#include "origins.h"
#include "process.h"
#include "stream_use.h"
#include "trace.h"
#include "wait.h"

/* The first handle that is a real stream; 0, 1 and 2 mean the default streams. */
#define STREAM_HANDLE_FIRST_REAL ((uintptr_t)3)

/* The context that a block of the driver's ends with: the current one. */
static CUcontext context_ending(void)
{
    CUcontext current = NULL;
    return real_cuCtxGetCurrent(&current) == CUDA_SUCCESS ? current : NULL;
}

/* The block that the driver answered with, if it did. */
static CUdeviceptr answered(const CUdeviceptr *dptr, CUresult result)
{
    return result == CUDA_SUCCESS && dptr != NULL ? *dptr : 0;
}

/* The driver answered an allocation itself. context: NULL where it was not the pool's to serve.
 * block: its address; 0 where it is a graph's. ending: the context that the block ends with. */
static CUresult alloc_count_forwarded(struct context *context, struct device *device,
                                      CUresult result, CUdeviceptr block, size_t bytes,
                                      CUcontext ending, uint32_t origin)
{
    DEVICE_COUNT(device, driver_calls, 1);
    process_memory_asked(device != NULL ? device->total_bytes : 0);
    if (result == CUDA_SUCCESS) {
        DEVICE_COUNT(device, alloc_forwarded, 1);
        DEVICE_COUNT(device, forwarded_bytes, bytes);
        forwarded_add(block, bytes, device, ending, origin);
    } else {
        DEVICE_COUNT(device, alloc_failed, 1);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        DEVICE_COUNT(device, out_of_memory, 1);
        trace_event(TRACE_OUT_OF_MEMORY, trace_clock(), 0, bytes, (int)result,
                    context != NULL ? context_number(context) : 0);
        explain_out_of_memory(context, bytes);
    }
    return result;
}

static CUresult free_count_forwarded(struct device *device, CUresult result,
                                     const struct forwarded_block *block)
{
    DEVICE_COUNT(device, driver_calls, 1);
    if (result == CUDA_SUCCESS) {
        DEVICE_COUNT(device, free_forwarded, 1);
    } else {
        DEVICE_COUNT(device, free_failed, 1);
        forwarded_return(block);
    }
    return result;
}

/* The address as the driver may see it: a pooled block can begin where a segment does, and the
 * segment is not the program's to free. */
static CUdeviceptr forwardable(CUdeviceptr dptr)
{
    return dptr != 0 && pool_owns(dptr) ? DRIVER_UNKNOWN_ADDRESS : dptr;
}

/* The free is the driver's to do. */
static CUresult free_by_driver(struct device *device, CUdeviceptr dptr)
{
    struct forwarded_block block = forwarded_take(dptr);
    latency_of(device);
    latency_slow();
    CUresult result = real_cuMemFree_v2(forwardable(dptr));
    return dptr == 0 ? result : free_count_forwarded(device, result, &block);
}

static struct device *device_for(const struct context *context)
{
    return context != NULL ? context->device : device_for_counting();
}

/* The driver refused for want of memory that our pools may hold idle. True: ask it once more. */
static bool worth_another_try(const struct context *context, CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY || context == NULL)
        return false;
    int saved_errno = errno;
    bool released = device_idle_release(context->device);
    errno = saved_errno;
    return released;
}

/* Takes a block from the pool. False: the driver must answer. */
static bool alloc_serve(struct context *context, uint64_t bytes, uint64_t stream, uint32_t tag,
                        CUdeviceptr *dptr)
{
    uint64_t address;
    if (__atomic_load_n(&context->faulted, __ATOMIC_RELAXED))
        return false;
    if (pool_alloc(context->pool, bytes, stream, tag, &address) != POOL_OK)
        return false;
    if (debug_has(~(uint32_t)0))
        debug_allocated(context, address);
    *dptr = address;
    return true;
}

/* The driver allocated where the pool could not: a fault noted earlier is over. */
static void fault_note(struct context *context, CUresult result)
{
    if (context != NULL && result == CUDA_SUCCESS &&
        __atomic_load_n(&context->faulted, __ATOMIC_RELAXED))
        __atomic_store_n(&context->faulted, false, __ATOMIC_RELAXED);
}

/* The end of an allocation that began at begin_ns. */
static CUresult alloc_end(uint64_t begin_ns, CUresult result, uint32_t origin, size_t bytes)
{
    latency_end(LATENCY_ALLOC, begin_ns);
    if (__builtin_expect(begin_ns != 0, 0))
        origin_sample(origin, bytes, latency_weight());
    return result;
}

/* The end of a traced allocation. */
static CUresult alloc_traced(const struct trace_call *call, enum trace_kind kind, CUresult result,
                             const CUdeviceptr *dptr, size_t bytes, uint64_t stream)
{
    CUdeviceptr block = answered(dptr, result);
    trace_alloc_end(call, kind, (int)result, block, bytes, stream, block != 0 && pool_owns(block));
    return result;
}

static CUresult mem_alloc(CUdeviceptr *dptr, size_t bytes, uint32_t origin)
{
    CUcontext current;
    int saved_errno = errno;
    struct context *context = context_current(&current);
    bool served =
        context != NULL && dptr != NULL && bytes != 0 && !ipc_size_learned(bytes) &&
        alloc_serve(context, bytes, POOL_NO_STREAM, TAG_ORDINARY | origin_tag(origin), dptr);
    errno = saved_errno;
    if (served)
        return CUDA_SUCCESS;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    latency_slow();
    CUresult result = real_cuMemAlloc_v2(dptr, bytes);
    if (worth_another_try(context, result))
        result = real_cuMemAlloc_v2(dptr, bytes);
    fault_note(context, result);
    return alloc_count_forwarded(context, device_for(context), result, answered(dptr, result),
                                 bytes, context_ending(), origin);
}

static CUresult mem_alloc_timed(CUdeviceptr *dptr, size_t bytes, const void *caller)
{
    uint32_t origin = origin_of_call(caller, bytes);
    uint64_t begin_ns = latency_begin();
    return alloc_end(begin_ns, mem_alloc(dptr, bytes, origin), origin, bytes);
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
    if (!trace_wanted())
        return mem_alloc_timed(dptr, bytes, __builtin_return_address(0));
    struct trace_call call = trace_alloc_begin(__builtin_return_address(0));
    CUresult result = mem_alloc_timed(dptr, bytes, call.caller);
    return alloc_traced(&call, TRACE_ALLOC, result, dptr, bytes, TRACE_STREAM_NONE);
}

/* The pitch the driver uses: rows are rounded up to what it answers for a row of one byte. The
 * probe's block is kept (freeing it would wait for the GPU) and serves as the neighbour of wait.c.
 * Where the pool has taken all memory and none is left for the probe: the alignment of textures,
 * which is what the pitch is for (512 on an H200, as is the pitch). */
static size_t pitch_unit(struct context *context)
{
    size_t unit = __atomic_load_n(&context->pitch_unit, __ATOMIC_RELAXED);
    int alignment = 0;
    if (unit != 0)
        return unit;
    CUdeviceptr block;
    CUstreamCaptureMode mode;
    capture_relax(&mode);
    CUresult result = real_cuMemAllocPitch_v2(&block, &unit, 1, 1, 4);
    capture_restore(&mode);
    DEVICE_COUNT(context->device, driver_calls, 1);
    if (result == CUDA_SUCCESS)
        __atomic_store_n(&context->barrier_neighbour, true, __ATOMIC_RELAXED);
    else if (result == CUDA_ERROR_OUT_OF_MEMORY && real_cuDeviceGetAttribute != NULL &&
             real_cuDeviceGetAttribute(&alignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT,
                                       context->device->handle) == CUDA_SUCCESS)
        unit = (size_t)alignment;
    if (unit == 0 || (unit & (unit - 1)) != 0)
        return 0;
    __atomic_store_n(&context->pitch_unit, unit, __ATOMIC_RELAXED);
    return unit;
}

/* SIZE_MAX: more than there can be. */
static size_t rows_bytes(size_t row_bytes, size_t rows)
{
    size_t bytes;
    return __builtin_mul_overflow(row_bytes, rows, &bytes) ? SIZE_MAX : bytes;
}

/* False: the driver must answer. */
static bool pitch_serve(struct context *context, CUdeviceptr *dptr, size_t *pitch, size_t width,
                        size_t height, unsigned int element_bytes, uint32_t origin)
{
    bool element_known = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
    if (dptr == NULL || pitch == NULL || width == 0 || height == 0 || !element_known)
        return false;
    size_t unit = pitch_unit(context);
    if (unit == 0 || width > SIZE_MAX - unit)
        return false;
    size_t row_bytes = (width + unit - 1) & ~(unit - 1);
    size_t bytes;
    if (__builtin_mul_overflow(row_bytes, height, &bytes))
        return false;
    if (!alloc_serve(context, bytes, POOL_NO_STREAM, TAG_ORDINARY | origin_tag(origin), dptr))
        return false;
    *pitch = row_bytes;
    return true;
}

static CUresult mem_alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                                unsigned int element_bytes, uint32_t origin)
{
    CUcontext current;
    int saved_errno = errno;
    struct context *context = context_current(&current);
    bool served =
        context != NULL && pitch_serve(context, dptr, pitch, width, height, element_bytes, origin);
    errno = saved_errno;
    if (served)
        return CUDA_SUCCESS;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    latency_slow();
    CUresult result = real_cuMemAllocPitch_v2(dptr, pitch, width, height, element_bytes);
    if (worth_another_try(context, result))
        result = real_cuMemAllocPitch_v2(dptr, pitch, width, height, element_bytes);
    fault_note(context, result);
    size_t bytes = rows_bytes(result == CUDA_SUCCESS ? *pitch : width, height);
    return alloc_count_forwarded(context, device_for(context), result, answered(dptr, result),
                                 bytes, context_ending(), origin);
}

static CUresult mem_alloc_pitch_timed(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                                      unsigned int element_bytes, const void *caller)
{
    size_t bytes = rows_bytes(width, height);
    uint32_t origin = origin_of_call(caller, bytes);
    uint64_t begin_ns = latency_begin();
    CUresult result = mem_alloc_pitch(dptr, pitch, width, height, element_bytes, origin);
    return alloc_end(begin_ns, result, origin, bytes);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                                 unsigned int element_bytes)
{
    if (!trace_wanted())
        return mem_alloc_pitch_timed(dptr, pitch, width, height, element_bytes,
                                     __builtin_return_address(0));
    struct trace_call call = trace_alloc_begin(__builtin_return_address(0));
    CUresult result = mem_alloc_pitch_timed(dptr, pitch, width, height, element_bytes, call.caller);
    size_t bytes = rows_bytes(result == CUDA_SUCCESS ? *pitch : width, height);
    return alloc_traced(&call, TRACE_ALLOC_PITCH, result, dptr, bytes, TRACE_STREAM_NONE);
}

/* An interior, freed or already freeing address of the pool: the driver says what it says of an
 * address that is no allocation. */
static CUresult free_refuse(struct device *device, CUdeviceptr dptr)
{
    latency_of(device);
    latency_slow();
    CUresult result = real_cuMemFree_v2(DRIVER_UNKNOWN_ADDRESS);
    if (result == CUDA_SUCCESS)
        result = CUDA_ERROR_INVALID_VALUE;
    DEVICE_COUNT(device, free_failed, 1);
    DEVICE_COUNT(device, free_invalid, 1);
    if (device != NULL)
        device_refused_free_note(device, dptr);
    return result;
}

/* Frees a block that is ours to free, after the wait of a native free. */
static CUresult free_waiting(struct context *owner, CUcontext current,
                             const struct pool_block *block)
{
    bool later;
    CUresult result = wait_as_free(owner, current, &later);
    if (result != CUDA_SUCCESS) {
        pool_free_cancel(block);
        if (context_of_pool(block->pool, owner) == NULL) /* its context ended during the wait */
            return free_refuse(owner->device, block->address);
        DEVICE_COUNT(owner->device, free_failed, 1);
        return result;
    }
    if (later && (block->tag & TAG_EXPORTED) == 0) {
        uint64_t fence = fence_after_next_wait(owner);
        debug_put_off(owner, block, fence);
        pool_free_pend(block, POOL_NO_STREAM, fence);
        return CUDA_SUCCESS;
    }
    if ((block->tag & TAG_EXPORTED) != 0) {
        ipc_export_end(block);
        pool_free_retire(block);
        return CUDA_SUCCESS;
    }
    debug_freeing(owner, current, block);
    if (pool_free_finish(block) > 0) /* here, since a native free waits for the GPU as well */
        pool_trim(block->pool, UINT64_MAX);
    return CUDA_SUCCESS;
}

/* Frees a block that one kind of call allocated and the other frees: no reuse before all work of
 * the context submitted so far has finished. */
static CUresult free_mixed(struct context *owner, CUcontext current, const struct pool_block *block)
{
    uint64_t fence;
    if (current != owner->handle || (block->tag & TAG_EXPORTED) != 0 || debug_frees_wait() ||
        !fence_after_context(owner, &fence))
        return free_waiting(owner, current, block);
    pool_free_pend(block, POOL_NO_STREAM, fence);
    return CUDA_SUCCESS;
}

/* Begins the free of a pooled address. True: *block and *owner_out are set, and the caller must end
 * it. False: *result_out is the program's answer. */
static bool free_begin(CUdeviceptr dptr, struct context *context, struct pool_block *block,
                       struct context **owner_out, CUresult *result_out)
{
    enum pool_status status = pool_free_begin(dptr, block);
    *owner_out = status == POOL_OK ? context_of_pool(block->pool, context) : NULL;
    if (*owner_out != NULL) {
        latency_of((*owner_out)->device);
        return true;
    }
    if (status == POOL_OK) /* its context is being destroyed at this moment */
        pool_free_cancel(block);
    /* Also what was the pool's a moment ago: its segment, which may begin there, is the driver's
     * until the context has ended. */
    *result_out = free_refuse(device_for(context), dptr);
    return false;
}

/* True when the driver can be called for a pooled address: it works, and we are in no host callback
 * and no orphan. current_out: the current context, which may be none. */
static bool free_is_ours(CUdeviceptr dptr, CUcontext *current_out, struct context **context_out)
{
    *context_out = NULL;
    *current_out = NULL;
    if (dptr == 0 || !pool_owns(dptr) || !process_serves())
        return false;
    if (real_cuCtxGetCurrent(current_out) != CUDA_SUCCESS)
        return false;
    if (*current_out != NULL)
        *context_out = context_of(*current_out);
    return true;
}

static CUresult free_forward(CUdeviceptr dptr)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    return free_by_driver(dptr == 0 ? NULL : device_for_counting(), dptr);
}

static void async_uncount(struct context *owner, const struct pool_block *block, CUresult result)
{
    if (result == CUDA_SUCCESS && (block->tag & TAG_STREAM_ORDERED) != 0)
        stream_use_remove(owner, block->requested_bytes);
}

/* Every free fails while a context is current that was destroyed, whatever is freed (measured). */
static bool current_destroyed(CUcontext current, CUresult *result_out)
{
    if (current == NULL || !__atomic_load_n(&context_was_destroyed, __ATOMIC_RELAXED))
        return false;
    *result_out = real_cuMemFree_v2(DRIVER_UNKNOWN_ADDRESS);
    return *result_out == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult mem_free(CUdeviceptr dptr)
{
    CUcontext current;
    struct context *context;
    struct context *owner;
    struct pool_block block;
    CUresult result;
    int saved_errno = errno;
    if (!free_is_ours(dptr, &current, &context))
        return free_forward(dptr);
    if (free_begin(dptr, context, &block, &owner, &result)) {
        if (current != owner->handle && current_destroyed(current, &result)) {
            pool_free_cancel(&block);
            DEVICE_COUNT(owner->device, free_failed, 1);
        } else if ((block.tag & TAG_STREAM_ORDERED) != 0)
            result = free_mixed(owner, current, &block);
        else if ((block.tag & TAG_EXPORTED) == 0 && !debug_frees_wait() &&
                 deferred_free(owner, &block))
            result = CUDA_SUCCESS;
        else
            result = free_waiting(owner, current, &block);
        async_uncount(owner, &block, result);
    }
    errno = saved_errno;
    return result;
}

/* Freeing nothing is no free. */
static void free_end(CUdeviceptr dptr, uint64_t begin_ns)
{
    if (dptr != 0)
        latency_end(LATENCY_FREE, begin_ns);
}

static CUresult mem_free_timed(CUdeviceptr dptr)
{
    uint64_t begin_ns = latency_begin();
    CUresult result = mem_free(dptr);
    free_end(dptr, begin_ns);
    return result;
}

CUresult hook_cuMemFree_v2(CUdeviceptr dptr)
{
    if (!trace_wanted())
        return mem_free_timed(dptr);
    struct trace_call call = trace_free_begin(__builtin_return_address(0), TRACE_FREE, dptr,
                                              TRACE_STREAM_NONE, dptr != 0 && pool_owns(dptr));
    CUresult result = mem_free_timed(dptr);
    trace_free_end(&call, (int)result);
    return result;
}

/* --- stream-ordered ------------------------------------------------------------------------ */

/* Whether `stream` belongs to `context`. The answer for a real handle is remembered by its
 * identity. */
static bool stream_is_of(const struct context *context, CUstream stream, uint64_t id)
{
    static __thread uint64_t last_id;
    static __thread CUcontext last_context;
    CUcontext owner = NULL;
    if ((uintptr_t)stream < STREAM_HANDLE_FIRST_REAL)
        return true;
    if (last_id == id)
        return last_context == context->handle;
    if (real_cuStreamGetCtx == NULL || real_cuStreamGetCtx(stream, &owner) != CUDA_SUCCESS)
        return false;
    last_id = id;
    last_context = owner;
    return owner == context->handle;
}

/* The stream's identity if stream-ordered calls on it can be served; 0: the driver must answer. */
static uint64_t stream_servable(struct context *context, CUstream stream, bool ptsz)
{
    if (stream_may_capture(stream, ptsz))
        return 0;
    uint64_t id = stream_id(stream, ptsz);
    return id != 0 && stream_is_of(context, stream, id) ? id : 0;
}

static bool alloc_async_serve(struct context *context, CUdeviceptr *dptr, size_t bytes,
                              CUstream stream, bool ptsz, uint32_t origin)
{
    if (dptr == NULL || bytes == 0 || context->device->default_pool == NULL ||
        __atomic_load_n(&context->device->async_to_driver, __ATOMIC_RELAXED) ||
        __atomic_load_n(&context->device->green_made, __ATOMIC_RELAXED))
        return false;
    uint64_t id = stream_servable(context, stream, ptsz);
    if (id == 0 || !alloc_serve(context, bytes, id, TAG_STREAM_ORDERED | origin_tag(origin), dptr))
        return false;
    stream_use_add(context, bytes);
    return true;
}

static CUresult real_alloc_async(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool ptsz)
{
    return ptsz ? real_cuMemAllocAsync_ptsz(dptr, bytes, stream)
                : real_cuMemAllocAsync(dptr, bytes, stream);
}

static CUresult alloc_async(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool ptsz,
                            uint32_t origin)
{
    CUcontext current;
    int saved_errno = errno;
    struct context *context = context_current(&current);
    bool served = context != NULL && alloc_async_serve(context, dptr, bytes, stream, ptsz, origin);
    errno = saved_errno;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct device *device = device_for(context);
    DEVICE_COUNT(device, alloc_async_calls, 1);
    if (served)
        return CUDA_SUCCESS;
    latency_slow();
    CUresult result = real_alloc_async(dptr, bytes, stream, ptsz);
    if (worth_another_try(context, result))
        result = real_alloc_async(dptr, bytes, stream, ptsz);
    fault_note(context, result);
    bool captured = context != NULL && capture_in_progress() && stream_may_capture(stream, ptsz);
    if (captured)
        DEVICE_COUNT(device, passed_capture, 1);
    return alloc_count_forwarded(context, device, result, captured ? 0 : answered(dptr, result),
                                 bytes, NULL, origin);
}

static CUresult alloc_async_timed(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool ptsz,
                                  const void *caller)
{
    uint32_t origin = origin_of_call(caller, bytes);
    uint64_t begin_ns = latency_begin();
    CUresult result = alloc_async(dptr, bytes, stream, ptsz, origin);
    return alloc_end(begin_ns, result, origin, bytes);
}

/* With a trace. */
static CUresult alloc_async_traced(CUdeviceptr *dptr, size_t bytes, CUstream stream, bool ptsz,
                                   const void *caller)
{
    struct trace_call call = trace_alloc_begin(caller);
    CUresult result = alloc_async_timed(dptr, bytes, stream, ptsz, caller);
    return alloc_traced(&call, TRACE_ALLOC_ASYNC, result, dptr, bytes, trace_stream(stream, ptsz));
}

CUresult hook_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    if (trace_wanted())
        return alloc_async_traced(dptr, bytes, stream, false, __builtin_return_address(0));
    return alloc_async_timed(dptr, bytes, stream, false, __builtin_return_address(0));
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
    if (trace_wanted())
        return alloc_async_traced(dptr, bytes, stream, true, __builtin_return_address(0));
    return alloc_async_timed(dptr, bytes, stream, true, __builtin_return_address(0));
}

static CUresult real_free_async(CUdeviceptr dptr, CUstream stream, bool ptsz)
{
    return ptsz ? real_cuMemFreeAsync_ptsz(dptr, stream) : real_cuMemFreeAsync(dptr, stream);
}

/* The stream is another context's, or has no identity: its own synchronise is the order. */
static CUresult free_after_stream_sync(struct context *owner, CUcontext current, CUstream stream,
                                       bool ptsz, const struct pool_block *block)
{
    CUresult (*synchronize)(CUstream) =
        ptsz ? real_cuStreamSynchronize_ptsz : real_cuStreamSynchronize;
    latency_slow();
    CUresult result = synchronize != NULL ? synchronize(stream) : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS) {
        debug_freeing(owner, current, block);
        pool_free_finish(block);
    } else {
        pool_free_cancel(block);
        DEVICE_COUNT(owner->device, free_failed, 1);
    }
    return result;
}

static CUresult free_on_stream(struct context *owner, CUcontext current, CUstream stream, bool ptsz,
                               const struct pool_block *block)
{
    uint64_t fence;
    uint64_t id = stream_id(stream, ptsz);
    if (current != owner->handle || id == 0 || !stream_is_of(owner, stream, id) ||
        debug_frees_wait())
        return free_after_stream_sync(owner, current, stream, ptsz, block);
    CUresult result = lazy_fence_join(owner, stream, ptsz, id, &fence)
                          ? CUDA_SUCCESS
                          : fence_after_stream(owner, stream, ptsz, &fence);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        return free_after_stream_sync(owner, current, stream, ptsz, block);
    if (result == CUDA_SUCCESS) {
        pool_free_pend(block, id, fence);
#ifdef VRAMALLOC_PLANT_LATE_FENCE
        fence_record_late(fence, stream, ptsz);
#endif
    } else {
        pool_free_cancel(block);
        DEVICE_COUNT(owner->device, free_failed, 1);
    }
    return result;
}

/* A capturing stream cannot free memory that its graph did not allocate: the driver's own refusal.
 */
static CUresult free_async_refuse(struct context *context, CUstream stream, bool ptsz)
{
    latency_of(device_for(context));
    latency_slow();
    CUresult result = real_free_async(DRIVER_UNKNOWN_ADDRESS, stream, ptsz);
    if (result == CUDA_SUCCESS)
        result = CUDA_ERROR_INVALID_VALUE;
    DEVICE_COUNT(device_for(context), free_failed, 1);
    return result;
}

static CUresult free_async(CUdeviceptr dptr, CUstream stream, bool ptsz)
{
    CUcontext current;
    struct context *context;
    struct context *owner;
    struct pool_block block;
    CUresult result;
    int saved_errno = errno;
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!free_is_ours(dptr, &current, &context)) {
        struct device *device = dptr == 0 ? NULL : device_for_counting();
        struct forwarded_block taken = forwarded_take(dptr);
        latency_of(device);
        latency_slow();
        result = real_free_async(forwardable(dptr), stream, ptsz);
        return dptr == 0 ? result : free_count_forwarded(device, result, &taken);
    }
    if (stream_may_capture(stream, ptsz)) {
        result = free_async_refuse(context, stream, ptsz);
    } else if (free_begin(dptr, context, &block, &owner, &result)) {
        if ((block.tag & TAG_STREAM_ORDERED) != 0)
            result = free_on_stream(owner, current, stream, ptsz, &block);
        else
            result = free_mixed(owner, current, &block);
        async_uncount(owner, &block, result);
    }
    errno = saved_errno;
    return result;
}

static CUresult free_async_timed(CUdeviceptr dptr, CUstream stream, bool ptsz)
{
    uint64_t begin_ns = latency_begin();
    CUresult result = free_async(dptr, stream, ptsz);
    free_end(dptr, begin_ns);
    return result;
}

/* With a trace. */
static CUresult free_async_traced(CUdeviceptr dptr, CUstream stream, bool ptsz, const void *caller)
{
    struct trace_call call = trace_free_begin(
        caller, TRACE_FREE_ASYNC, dptr, trace_stream(stream, ptsz), dptr != 0 && pool_owns(dptr));
    CUresult result = free_async_timed(dptr, stream, ptsz);
    trace_free_end(&call, (int)result);
    return result;
}

CUresult hook_cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
    if (trace_wanted())
        return free_async_traced(dptr, stream, false, __builtin_return_address(0));
    return free_async_timed(dptr, stream, false);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream stream)
{
    if (trace_wanted())
        return free_async_traced(dptr, stream, true, __builtin_return_address(0));
    return free_async_timed(dptr, stream, true);
}
