/* hooks_capture.c - the calls that begin and end stream captures, and the end of streams.
 *
 * Nothing is changed about them: the shim only learns of the capture (capture.h) and, when a stream
 * ends, that its identity no longer orders anything.
 *
 * Lock: the capture gate, exclusively across the real call that begins a capture.
 */
#include "capture.h"
#include "devices.h"
#include "driver.h"
#include "lazy_fence.h"
#include "process.h"

CUresult hook_cuStreamBeginCapture(CUstream stream)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, false);
    CUresult result = real_cuStreamBeginCapture(stream);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamBeginCapture_ptsz(CUstream stream)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, true);
    CUresult result = real_cuStreamBeginCapture_ptsz(stream);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, false);
    CUresult result = real_cuStreamBeginCapture_v2(stream, mode);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, true);
    CUresult result = real_cuStreamBeginCapture_v2_ptsz(stream, mode);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                          const CUgraphNode *dependencies, const void *edges,
                                          size_t count, CUstreamCaptureMode mode)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, false);
    CUresult result =
        real_cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode *dependencies, const void *edges,
                                               size_t count, CUstreamCaptureMode mode)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    struct capture_key key = capture_begin_enter(stream, true);
    CUresult result =
        real_cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode);
    capture_begin_leave(key, result == CUDA_SUCCESS);
    return result;
}

CUresult hook_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuStreamEndCapture(stream, graph);
    capture_ended(stream, false);
    return result;
}

CUresult hook_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuStreamEndCapture_ptsz(stream, graph);
    capture_ended(stream, true);
    return result;
}

static CUresult stream_destroy(CUstream stream, CUresult (*destroy)(CUstream))
{
    CUcontext current;
    if (stream == NULL || !process_serves())
        return destroy(stream);
    struct capture_key key = capture_destroy_enter(stream);
    lazy_fence_stream_ends(stream);
    CUresult result = destroy(stream);
    if (result != CUDA_SUCCESS)
        return result;
    capture_destroy_leave(key);
    struct context *context = context_current(&current);
    if (context != NULL && key.id != 0)
        pool_forget_stream(context->pool, key.id);
    return result;
}

CUresult hook_cuStreamDestroy(CUstream stream)
{
    return driver_ready() ? stream_destroy(stream, real_cuStreamDestroy)
                          : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
    return driver_ready() ? stream_destroy(stream, real_cuStreamDestroy_v2)
                          : CUDA_ERROR_NOT_INITIALIZED;
}
