/* wait.c - the wait of a free. See wait.h.
 *
 * The usual way is cuCtxSynchronize, inside the capture gate. While a stream captures, that call
 * would spoil the capture although a native free might not; and where green contexts or peers
 * use the device, it might not see theirs. Then the free of a tiny block of our own is the wait:
 * the driver does for it what it would have done for the program's block, errors included.
 *
 * The tiny block (the spare) is allocated again at once, beside a neighbour that keeps its 2 MiB
 * mapped: measured 2.5 us for the pair, against 84 us without the neighbour.
 *
 * Lock: none; the spare is exchanged atomically.
 */
#include "wait.h"

#include "capture.h"
#include "clock.h"
#include "driver.h"
#include "trace.h"

enum { SPARE_BYTES = 256 };

bool wait_enter(CUcontext context, CUcontext current)
{
    return current != context && real_cuCtxPushCurrent_v2 != NULL &&
           real_cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void wait_leave(bool entered)
{
    CUcontext popped;
    if (entered && real_cuCtxPopCurrent_v2 != NULL)
        real_cuCtxPopCurrent_v2(&popped);
}

bool wait_error_lasts(CUresult result)
{
    return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_PERMITTED &&
           result != CUDA_ERROR_DEINITIALIZED && result != CUDA_ERROR_NOT_INITIALIZED &&
           result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_OUT_OF_MEMORY &&
           (result < CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
            result > CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* Keeps a tiny block ready for the next wait. Not having one is no error. */
static void spare_refill(struct context *context)
{
    CUstreamCaptureMode mode;
    CUdeviceptr block;
    capture_relax(&mode);
    if (!__atomic_load_n(&context->barrier_neighbour, __ATOMIC_RELAXED) &&
        real_cuMemAlloc_v2(&block, SPARE_BYTES) == CUDA_SUCCESS)
        __atomic_store_n(&context->barrier_neighbour, true, __ATOMIC_RELAXED);
    if (__atomic_load_n(&context->barrier_spare, __ATOMIC_RELAXED) == 0 &&
        real_cuMemAlloc_v2(&block, SPARE_BYTES) == CUDA_SUCCESS)
        __atomic_store_n(&context->barrier_spare, block, __ATOMIC_RELEASE);
    capture_restore(&mode);
}

/* The free of a tiny block: what a native free waits for and returns. */
static CUresult barrier_wait(struct context *context, CUcontext current, bool *later_out)
{
    bool entered = wait_enter(context->handle, current);
    CUdeviceptr spare = __atomic_exchange_n(&context->barrier_spare, 0, __ATOMIC_ACQ_REL);
    CUresult result = CUDA_SUCCESS;
    if (spare == 0)
        result = real_cuMemAlloc_v2(&spare, SPARE_BYTES);
    bool trimmed = result == CUDA_ERROR_OUT_OF_MEMORY && pool_trim(context->pool, 0) > 0;
    if (trimmed && context->vmm) /* parts go back without a wait, but now there may be room */
        result = real_cuMemAlloc_v2(&spare, SPARE_BYTES);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        result = CUDA_SUCCESS; /* giving back a whole segment is a native free as well */
        *later_out = !trimmed || context->vmm;
    } else if (result == CUDA_SUCCESS) {
        result = real_cuMemFree_v2(spare);
        if (result == CUDA_SUCCESS)
            spare_refill(context);
        else
            __atomic_store_n(&context->barrier_spare, spare, __ATOMIC_RELEASE);
    }
    wait_leave(entered);
    return result;
}

static CUresult context_synchronize(const struct context *context, CUcontext current)
{
    bool entered = wait_enter(context->handle, current);
    CUresult result = real_cuCtxSynchronize();
    wait_leave(entered);
    return result;
}

/* A wait that began as number `turn` has ended well: later fences that needed it have passed. */
static void wait_record(struct context *context, uint32_t turn)
{
    uint32_t ended = __atomic_load_n(&context->waits_ended, __ATOMIC_RELAXED);
    while ((int32_t)(turn - ended) > 0 &&
           !__atomic_compare_exchange_n(&context->waits_ended, &ended, turn, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

/* Waits are numbered only while somebody needs to know: context.waits_needed is the newest number
 * that a fence waits for. */
static uint32_t wait_number(struct context *context)
{
    uint32_t needed = __atomic_load_n(&context->waits_needed, __ATOMIC_SEQ_CST);
    return needed == __atomic_load_n(&context->waits_ended, __ATOMIC_RELAXED) ? 0 : needed;
}

CUresult wait_as_free(struct context *context, CUcontext current, bool *later_out)
{
    CUresult result;
    uint32_t number = wait_number(context);
    uint64_t begin_ns = clock_coarse_ns(), trace_ns = trace_recent();
    *later_out = false;
    if (!device_reached_from_outside(context->device) && capture_gate_enter()) {
        result = context_synchronize(context, current);
        capture_gate_leave();
    } else {
        result = barrier_wait(context, current, later_out);
    }
    if (trace_ns != 0)
        trace_wait(trace_ns, (int)result, context_number(context));
    uint64_t waited_ns = clock_coarse_ns() - begin_ns;
    if (waited_ns > 0) {
        DEVICE_COUNT(context->device, free_wait_ns, waited_ns);
        latency_waited(waited_ns);
        pool_observe(context->pool);
    }
    if (result == CUDA_SUCCESS) {
        if (number != 0 && !*later_out)
            wait_record(context, number);
        return result;
    }
    DEVICE_COUNT(context->device, free_waits, 1);
    if (wait_error_lasts(result))
        __atomic_store_n(&context->faulted, true, __ATOMIC_RELAXED);
    return result;
}
