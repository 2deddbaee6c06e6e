/* Frees on the capturing thread itself, in each mode, and captures that end in other ways: a stream
 * destroyed, a second begin refused, an end on another thread. */
#include "victim.h"

static cudaStream_t stream;
static cudaGraph_t graph;

static void *end_it(void *arg)
{
    (void)arg;
    MUST(cudaSetDevice(0));
    printf("  end on another thread: %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    cudaGetLastError();
    return NULL;
}

static void in_mode(enum cudaStreamCaptureMode mode)
{
    void *a, *b;
    pthread_t other;
    MUST(cudaMalloc(&a, 5000));
    MUST(cudaMalloc(&b, 40 * MIB));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("mode %d\n", (int)mode);
    SHOW(cudaStreamBeginCapture(stream, mode));
    SHOW(cudaFree(a));
    SHOW(cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    SHOW(cudaStreamBeginCapture(stream, mode));
    SHOW(cudaStreamBeginCapture(stream, mode));
    SHOW(cudaFree((void *)0x1234567800));
    SHOW(cudaStreamEndCapture(stream, &graph));
    cudaGetLastError();
    SHOW(cudaStreamBeginCapture(stream, mode));
    pthread_create(&other, NULL, end_it, NULL);
    pthread_join(other, NULL);
    SHOW(cudaStreamDestroy(stream));
    SHOW(cudaFree(b));
    SHOW(cudaMalloc(&b, 40 * MIB));
    SHOW(cudaFree(b));
    SHOW_LAST();
}

int main(void)
{
    for (int mode = 0; mode < 3; mode++)
        in_mode((enum cudaStreamCaptureMode)mode);
    return 0;
}
