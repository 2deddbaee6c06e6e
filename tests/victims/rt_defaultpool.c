/* A program that configures and measures the default memory pool gets the driver's. */
#include "victim.h"

int main(void)
{
    cudaMemPool_t pool;
    uint64_t value = UINT64_MAX;
    void *a;
    MUST(cudaFree(0));
    SHOW(cudaDeviceGetDefaultMemPool(&pool, 0));
    SHOW(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    value = 0;
    SHOW(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    printf("threshold kept: %d\n", value == UINT64_MAX);
    SHOW(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
    printf("used %llu\n", (unsigned long long)value);
    SHOW(cudaMallocAsync(&a, 10000, 0));
    SHOW(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value));
    printf("used %llu\n", (unsigned long long)value);
    SHOW(cudaFreeAsync(a, 0));
    SHOW(cudaDeviceSynchronize());
    return 0;
}
