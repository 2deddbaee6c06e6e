/* contend_cub.cpp - CUB's CachingDeviceAllocator as contenders: as it comes, which keeps blocks of up to 2 MiB and 6 MB in
 * all, and with powers of two up to 1 GiB and no bound. Both take a lock and record an event at each free.
 */
#include <cub/util_allocator.cuh>

#include "contend.h"

static const char *said(cudaError_t status)
{
    return status == cudaSuccess ? NULL : cudaGetErrorName(status);
}

/* Never destroyed: at exit the runtime may be gone. */
static cub::CachingDeviceAllocator *cache;

static const char *open_plain(void)
{
    cache = new cub::CachingDeviceAllocator();
    return NULL;
}

static const char *open_wide(void)
{
    const unsigned growth = 2, least = 8, most = 30; /* 256 B to 1 GiB */
    cache = new cub::CachingDeviceAllocator(growth, least, most);
    return NULL;
}

static const char *allocate(void **block, size_t bytes, cudaStream_t stream)
{
    return said(cache->DeviceAllocate(block, bytes, stream));
}

static const char *release(void *block, size_t, cudaStream_t)
{
    return said(cache->DeviceFree(block));
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define VERSION  "CUB " TEXT(CUB_VERSION)

extern "C" const struct contender contend_contenders[] = {
    {"cub", VERSION, open_plain, allocate, release},
    {"cub-wide", VERSION, open_wide, allocate, release},
    {NULL, NULL, NULL, NULL, NULL},
};
