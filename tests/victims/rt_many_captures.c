/* Three hundred captures at once, frees meanwhile and afterwards. */
#include "victim.h"

enum { STREAMS = 300 };

static void *free_relaxed(void *block)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaSetDevice(0));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    return (void *)(intptr_t)(cudaFree(block) == cudaSuccess);
}

int main(void)
{
    static cudaStream_t stream[STREAMS];
    cudaGraph_t graph;
    void *block[10], *freed;
    int ended = 0, right = 0;
    for (int i = 0; i < 10; i++)
        MUST(cudaMalloc(&block[i], 5000));
    for (int s = 0; s < STREAMS; s++) {
        MUST(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
        MUST(cudaStreamBeginCapture(stream[s], cudaStreamCaptureModeThreadLocal));
    }
    for (int i = 0; i < 5; i++) {
        pthread_t other;
        pthread_create(&other, NULL, free_relaxed, block[i]);
        pthread_join(other, &freed);
        right += freed != NULL;
    }
    for (int s = 0; s < STREAMS; s++)
        ended += cudaStreamEndCapture(stream[s], &graph) == cudaSuccess;
    for (int i = 5; i < 10; i++)
        right += cudaFree(block[i]) == cudaSuccess;
    printf("captures ended well %d, freed %d\n", ended, right);
    SHOW(cudaDeviceSynchronize());
    return 0;
}
