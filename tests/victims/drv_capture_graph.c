/* A stream that captures into an existing graph, with frees beside it: as any other capture. */
#include "driver.h"

#include <pthread.h>

static CUcontext context;
static CUdeviceptr block;

static void *free_it(void *arg)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)arg;
    MUST(cuCtxSetCurrent(context));
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    SHOW(cuMemFree(block));
    return NULL;
}

int main(void)
{
    CUdevice device;
    CUctxCreateParams params = {0};
    CUstream stream;
    CUgraph graph, same;
    pthread_t other;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuGraphCreate(&graph, 0));
    for (int mode = 0; mode < 3; mode++) {
        MUST(cuMemAlloc(&block, 5000));
        SHOW(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, (CUstreamCaptureMode)mode));
        pthread_create(&other, NULL, free_it, NULL);
        pthread_join(other, NULL);
        SHOW(cuStreamEndCapture(stream, &same));
        printf("the same graph: %d\n", same == graph);
    }
    return 0;
}
