/* contend_runtime.c - the contenders that are calls of the CUDA runtime: cudaMalloc, and
 * cudaMallocAsync with the default pool's release threshold as it is, 0, or at most. vramalloc is
 * any of them, preloaded. "doorway" allocates nothing: it calls cudaFree(NULL) for each of the two,
 * which is what entering the runtime costs at least, and hands out one block again and again.
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

static void *doorway_block;

static const char *open_doorway(void)
{
    return said(cudaMalloc(&doorway_block, 256));
}

static const char *allocate_doorway(void **block, size_t bytes, cudaStream_t stream)
{
    (void)bytes, (void)stream;
    *block = doorway_block;
    return said(cudaFree(NULL));
}

static const char *release_doorway(void *block, size_t bytes, cudaStream_t stream)
{
    (void)block, (void)bytes, (void)stream;
    return said(cudaFree(NULL));
}

const struct contender contend_runtime_contenders[] = {
    {"malloc", NULL, open_nothing, allocate, release},
    {"async", NULL, open_nothing, allocate_async, release_async},
    {"async-0", NULL, open_zero, allocate_async, release_async},
    {"async-max", NULL, open_max, allocate_async, release_async},
    {"doorway", NULL, open_doorway, allocate_doorway, release_doorway},
    {NULL, NULL, NULL, NULL, NULL},
};
