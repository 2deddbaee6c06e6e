/* stream.c - streams, events, host functions, captures and graphs: each call enters the context,
 * passes on to the driver, and remembers the error. The _ptsz variants pass on to the driver's own.
 *
 * Lock: none.
 */
#include "runtime.h"

RUNTIME_API cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamCreate(stream, CU_STREAM_DEFAULT));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamCreate(stream, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamDestroy_v2(stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamSynchronize[0](stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamSynchronize[1](stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamQuery[0](stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamQuery[1](stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                            unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamWaitEvent[0](stream, event, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event,
                                                 unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamWaitEvent[1](stream, event, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                              void *data, unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(
            driver.cuStreamAddCallback[0](stream, (CUstreamCallback)function, data, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream,
                                                   cudaStreamCallback_t function, void *data,
                                                   unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(
            driver.cuStreamAddCallback[1](stream, (CUstreamCallback)function, data, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuLaunchHostFunc[0](stream, function, data));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function,
                                                void *data)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuLaunchHostFunc[1](stream, function, data));
    return runtime_leave(error);
}

/* --- events --- */

RUNTIME_API cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventCreate(event, CU_EVENT_DEFAULT));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventCreate(event, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventDestroy_v2(event));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventRecord[0](event, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventRecord[1](event, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventQuery(event));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventSynchronize(event));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuEventElapsedTime(ms, from, to));
    return runtime_leave(error);
}

/* --- captures and graphs --- */

RUNTIME_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamBeginCapture_v2[0](stream, (CUstreamCaptureMode)mode));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                                    enum cudaStreamCaptureMode mode)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamBeginCapture_v2[1](stream, (CUstreamCaptureMode)mode));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamEndCapture[0](stream, graph));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamEndCapture[1](stream, graph));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                              enum cudaStreamCaptureStatus *status)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamIsCapturing[0](stream, (CUstreamCaptureStatus *)status));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream,
                                                   enum cudaStreamCaptureStatus *status)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuStreamIsCapturing[1](stream, (CUstreamCaptureStatus *)status));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                             unsigned long long flags)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuGraphInstantiateWithFlags(exec, graph, flags));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuGraphLaunch[0](exec, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuGraphLaunch[1](exec, stream));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuGraphDestroy(graph));
    return runtime_leave(error);
}

RUNTIME_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    cudaError_t error = runtime_enter();
    if (error == cudaSuccess)
        error = error_of(driver.cuGraphExecDestroy(exec));
    return runtime_leave(error);
}
