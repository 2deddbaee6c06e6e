/* Memory calls inside a host callback. usage: rt_callback [old]: by the older call */
#include "victim.h"

static void *block;
static cudaError_t results[5];

static void callback(void *data)
{
    void *a = (void *)1;
    (void)data;
    results[0] = cudaMalloc(&a, 100);
    results[1] = cudaFree(block);
    results[2] = cudaMallocAsync(&a, 100, 0);
    results[3] = cudaFreeAsync(block, 0);
}

static void callback_old(cudaStream_t stream, cudaError_t status, void *data)
{
    callback(data);
    results[4] = stream == NULL ? cudaErrorUnknown : status;
}

int main(int argc, char **argv)
{
    cudaStream_t stream;
    MUST(cudaMalloc(&block, 1000));
    MUST(cudaStreamCreate(&stream));
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        SHOW(cudaStreamAddCallback(stream, callback_old, NULL, 0));
    else
        SHOW(cudaLaunchHostFunc(stream, callback, NULL));
    SHOW(cudaStreamSynchronize(stream));
    for (int i = 0; i < 5; i++)
        printf("in callback: %d\n", (int)results[i]);
    cudaGetLastError();
    SHOW(cudaFree(block));
    SHOW_LAST();
    return 0;
}
