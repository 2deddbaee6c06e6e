/* backing_malloc.c - segments from cuMemAlloc, so that IPC, RDMA and peers see ordinary memory.
 *
 * Each call is made in relaxed capture mode: growing or shrinking the arena never spoils a capture.
 * The driver aligns allocations of 2 MiB and more to 2 MiB; one that is not is given back and
 * counts as a refusal.
 *
 * What it leaves out: caching, sizes, when to do it (the pool decides). Lock: none.
 */
#include "backing_malloc.h"

#include "capture.h"
#include "clock.h"
#include "debug.h"
#include "deferred.h"
#include "driver.h"
#include "fence.h"
#include "options.h"
#include "process.h"
#include "trace.h"

static enum backing_status status_of(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return BACKING_OK;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? BACKING_NO_MEMORY : BACKING_FAILED;
}

static CUresult segment_free(struct context *context, CUdeviceptr address, uint64_t bytes)
{
    CUstreamCaptureMode mode;
    latency_slow();
    uint64_t begin_ns = trace_clock();
    capture_relax(&mode);
    CUresult result = real_cuMemFree_v2(address);
    capture_restore(&mode);
    DEVICE_COUNT(context->device, driver_calls, 1);
    trace_event(TRACE_SHRINK, begin_ns, address, bytes, (int)result, context_number(context));
    return result;
}

static enum backing_status acquire(void *self, uint64_t bytes, uint64_t *address_out)
{
    struct context *context = self;
    CUstreamCaptureMode mode;
    CUdeviceptr address = 0;
    process_memory_asked(context->device->total_bytes);
    latency_slow();
    uint64_t begin_ns = clock_ns();
    capture_relax(&mode);
    CUresult result = real_cuMemAlloc_v2(&address, bytes);
    capture_restore(&mode);
    DEVICE_COUNT(context->device, driver_calls, 1);
    trace_event(TRACE_GROW, begin_ns, address, bytes, (int)result, context_number(context));
    if (result != CUDA_SUCCESS)
        return status_of(result);
    if (address % BACKING_SEGMENT_ALIGN_BYTES != 0) {
        segment_free(context, address, bytes);
        return BACKING_FAILED;
    }
    debug_segment(context, address, bytes);
    latency_growth(context->device, begin_ns);
    *address_out = address;
    return BACKING_OK;
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes)
{
    return status_of(segment_free(self, address, bytes));
}

struct backing backing_malloc(struct context *context)
{
    return (struct backing){.self = context,
                            .room = context_room,
                            .acquire = acquire,
                            .release = release,
                            .fence_poll = fence_poll,
                            .fence_wait = fence_wait,
                            .fence_drop = fence_drop,
                            .frees_due = deferred_due,
                            .clock_ns = context_clock_ns};
}
