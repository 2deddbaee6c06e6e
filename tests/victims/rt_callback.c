/* Memory calls inside a host callback. */
#include "victim.h"

static void *block;

static void callback(void *data)
{
    void *a = (void *)1;
    (void)data;
    printf("in callback: cudaMalloc %d, cudaFree %d, cudaMallocAsync %d, cudaFreeAsync %d\n",
           (int)cudaMalloc(&a, 100), (int)cudaFree(block), (int)cudaMallocAsync(&a, 100, 0),
           (int)cudaFreeAsync(block, 0));
}

int main(void)
{
    cudaStream_t stream;
    MUST(cudaMalloc(&block, 1000));
    MUST(cudaStreamCreate(&stream));
    SHOW(cudaLaunchHostFunc(stream, callback, NULL));
    SHOW(cudaStreamSynchronize(stream));
    cudaGetLastError();
    SHOW(cudaFree(block));
    SHOW_LAST();
    return 0;
}
