/* Memory calls inside a host callback. */
#include "victim.h"

static void *block;
static cudaError_t results[4];

static void callback(void *data)
{
    void *a = (void *)1;
    (void)data;
    results[0] = cudaMalloc(&a, 100);
    results[1] = cudaFree(block);
    results[2] = cudaMallocAsync(&a, 100, 0);
    results[3] = cudaFreeAsync(block, 0);
}

int main(void)
{
    cudaStream_t stream;
    MUST(cudaMalloc(&block, 1000));
    MUST(cudaStreamCreate(&stream));
    SHOW(cudaLaunchHostFunc(stream, callback, NULL));
    SHOW(cudaStreamSynchronize(stream));
    for (int i = 0; i < 4; i++)
        printf("in callback: %d\n", (int)results[i]);
    cudaGetLastError();
    SHOW(cudaFree(block));
    SHOW_LAST();
    return 0;
}
