/* Cases 14 and 15: allocation and free while a stream captures, on the same and on another thread,
 * in each mode. What the capture becomes must not depend on the library, unless for the better.
 *
 * usage: rt_capture held      memory of the size is held by the process already
 *        rt_capture other     the other thread frees (a barrier) in each mode
 *        rt_capture nodes     stream-ordered calls become graph nodes
 */
#include "victim.h"

static void *blocks[8];

static void *other_thread(void *arg)
{
    enum cudaStreamCaptureMode mode = *(enum cudaStreamCaptureMode *)arg;
    MUST(cudaSetDevice(0));
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t result = cudaFree(blocks[0]);
    printf("  other thread: cudaFree %s\n", cudaGetErrorName(result));
    cudaGetLastError();
    return NULL;
}

static void on_other_thread(enum cudaStreamCaptureMode capture, enum cudaStreamCaptureMode thread)
{
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    pthread_t worker;
    MUST(cudaMalloc(&blocks[0], 5000));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("capture mode %d, thread mode %d\n", (int)capture, (int)thread);
    MUST(cudaStreamBeginCapture(stream, capture));
    pthread_create(&worker, NULL, other_thread, &thread);
    pthread_join(worker, NULL);
    printf("  end: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    cudaGetLastError();
    MUST(cudaStreamDestroy(stream));
}

static void *allocate(void *arg)
{
    MUST(cudaSetDevice(0));
    printf("  other thread: cudaMalloc %s\n", cudaGetErrorName(cudaMalloc(arg, 256)));
    return NULL;
}

static void served_from_held_memory(void)
{
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    pthread_t worker;
    void *a;
    MUST(cudaMalloc(&a, 256)); /* makes the process hold memory */
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    pthread_create(&worker, NULL, allocate, &blocks[1]);
    pthread_join(worker, NULL);
    printf("  end: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    printf("  same thread, relaxed: cudaMalloc %s\n",
           cudaGetErrorName(cudaMalloc(&blocks[2], 256)));
    printf("  end: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    SHOW(cudaFree(blocks[1]));
    SHOW(cudaFree(blocks[2]));
}

static void graph_nodes(void)
{
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec;
    void *node = NULL, *pooled;
    MUST(cudaMallocAsync(&pooled, 1000, 0));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    SHOW(cudaMallocAsync(&node, 5000, stream));
    SHOW(cudaMemsetAsync(node, 3, 5000, stream));
    SHOW(cudaFreeAsync(node, stream));
    SHOW(cudaStreamEndCapture(stream, &graph));
    SHOW(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        SHOW(cudaGraphLaunch(exec, stream));
    SHOW(cudaStreamSynchronize(stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    SHOW(cudaFreeAsync(pooled, stream)); /* not the graph's memory */
    SHOW_LAST();
    printf("  end: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    SHOW(cudaFreeAsync(pooled, 0));
    SHOW(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "other";
    if (strcmp(what, "held") == 0)
        served_from_held_memory();
    else if (strcmp(what, "nodes") == 0)
        graph_nodes();
    else
        for (int capture = 0; capture < 3; capture++)
            for (int thread = 0; thread < 3; thread++)
                on_other_thread((enum cudaStreamCaptureMode)capture,
                                (enum cudaStreamCaptureMode)thread);
    return 0;
}
