/* contend_runtime.c - the contenders that are calls of the CUDA runtime: cudaMalloc, and
 * cudaMallocAsync with the default pool's release threshold as it is, 0, or at most. vramalloc is
 * any of them, preloaded.
 */
#include "contend.h"

#include <stdint.h>

static const char *said(cudaError_t status)
{
    return status == cudaSuccess ? NULL : cudaGetErrorName(status);
}

static const char *open_nothing(void)
{
    return NULL;
}

static const char *threshold_set(uint64_t bytes)
{
    cudaMemPool_t pool;
    cudaError_t status = cudaDeviceGetDefaultMemPool(&pool, 0);
    if (status == cudaSuccess)
        status = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes);
    return said(status);
}

static const char *open_zero(void)
{
    return threshold_set(0);
}

static const char *open_max(void)
{
    return threshold_set(UINT64_MAX);
}

static const char *allocate(void **block, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    return said(cudaMalloc(block, bytes));
}

static const char *release(void *block, size_t bytes, cudaStream_t stream)
{
    (void)bytes, (void)stream;
    return said(cudaFree(block));
}

static const char *allocate_async(void **block, size_t bytes, cudaStream_t stream)
{
    return said(cudaMallocAsync(block, bytes, stream));
}

static const char *release_async(void *block, size_t bytes, cudaStream_t stream)
{
    (void)bytes;
    return said(cudaFreeAsync(block, stream));
}

const struct contender contend_runtime_contenders[] = {
    {"malloc", NULL, open_nothing, allocate, release},
    {"async", NULL, open_nothing, allocate_async, release_async},
    {"async-0", NULL, open_zero, allocate_async, release_async},
    {"async-max", NULL, open_max, allocate_async, release_async},
    {NULL, NULL, NULL, NULL, NULL},
};
