/* Managed, host and explicit-pool memory. */
#include "victim.h"

int main(void)
{
    void *managed, *host, *plain, *pooled;
    cudaMemPool_t pool;
    struct cudaMemPoolProps properties = {0};
    SHOW(cudaMallocManaged(&managed, 10000, cudaMemAttachGlobal));
    SHOW(cudaMallocHost(&host, 5000));
    SHOW(cudaHostAlloc(&plain, 3000, cudaHostAllocDefault));
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    SHOW(cudaMemPoolCreate(&pool, &properties));
    SHOW(cudaMallocFromPoolAsync(&pooled, 20000, pool, 0));
    SHOW(cudaFreeAsync(pooled, 0));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaMemPoolDestroy(pool));
    SHOW(cudaFree(managed));
    SHOW(cudaFreeHost(host));
    SHOW(cudaFreeHost(plain));
    SHOW(cudaMalloc(&plain, 100));
    SHOW(cudaFree(plain));
    SHOW_LAST();
    return 0;
}
