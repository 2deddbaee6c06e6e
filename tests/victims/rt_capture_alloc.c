/* Case 15: allocations beside a capture, small ones and one that needs memory from the driver, from
 * another thread and from the capturing one, in each mode. With the library none of them fails and
 * the capture survives; without it most of them spoil the capture. */
#include "victim.h"

static void *allocate(void *arg)
{
    size_t bytes = *(size_t *)arg;
    void *a;
    MUST(cudaSetDevice(0));
    printf(" %s", cudaGetErrorName(cudaMalloc(&a, bytes)));
    cudaGetLastError();
    return NULL;
}

static void beside(cudaStream_t stream, enum cudaStreamCaptureMode mode, int same, size_t bytes)
{
    cudaGraph_t graph = NULL;
    pthread_t other;
    printf("mode %d, %s thread, %zu bytes:", (int)mode, same ? "same" : "other", bytes);
    MUST(cudaStreamBeginCapture(stream, mode));
    if (same) {
        allocate(&bytes);
    } else {
        pthread_create(&other, NULL, allocate, &bytes);
        pthread_join(other, NULL);
    }
    printf(", end %s\n", cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    cudaGetLastError();
}

int main(void)
{
    cudaStream_t stream;
    void *a;
    MUST(cudaMalloc(&a, 256));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int mode = 0; mode < 3; mode++)
        for (int same = 0; same < 2; same++)
            for (size_t bytes = 1000; bytes < GIB; bytes *= 400000)
                beside(stream, (enum cudaStreamCaptureMode)mode, same, bytes);
    return 0;
}
