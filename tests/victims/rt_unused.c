/* Uses CUDA but never allocates device memory. */
#include "victim.h"

int main(void)
{
    cudaStream_t stream;
    void *host;
    SHOW(cudaFree(0));
    SHOW(cudaStreamCreate(&stream));
    SHOW(cudaStreamSynchronize(stream));
    SHOW(cudaMallocHost(&host, 1000));
    SHOW(cudaFreeHost(host));
    return 0;
}
