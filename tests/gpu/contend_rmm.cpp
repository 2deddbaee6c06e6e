/* contend_rmm.cpp - RMM's pool and arena memory resources over cudaMalloc as contenders. The pool starts with nothing and
 * grows; the arena takes half of the free memory when it is made, which is its default.
 */
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/version_config.hpp>

#include "contend.h"

#include <exception>
#include <string>

/* One text is enough: a row ends with the first failure of a thread. */
static const char *said(const std::exception &error)
{
    static thread_local std::string text;
    text = error.what();
    return text.c_str();
}

/* Calls are made on the resource itself, as a program that names its type does. Never destroyed. */
template <typename Resource> struct family {
    static Resource *resource;

    template <typename... Arguments> static const char *open(Arguments... arguments)
    {
        try {
            resource = new Resource(rmm::mr::cuda_memory_resource{}, arguments...);
            return NULL;
        } catch (const std::exception &error) {
            return said(error);
        }
    }

    static const char *allocate(void **block, size_t bytes, cudaStream_t stream)
    {
        try {
            *block = resource->allocate(cuda::stream_ref{stream}, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
            return NULL;
        } catch (const std::exception &error) {
            return said(error);
        }
    }

    static const char *release(void *block, size_t bytes, cudaStream_t stream)
    {
        resource->deallocate(cuda::stream_ref{stream}, block, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
        return NULL;
    }
};

template <typename Resource> Resource *family<Resource>::resource;

using pool = family<rmm::mr::pool_memory_resource>;
using arena = family<rmm::mr::arena_memory_resource>;

static const char *open_pool(void)
{
    return pool::open(std::size_t{0});
}

static const char *open_arena(void)
{
    return arena::open();
}

#define VERSION "RMM " RMM_VERSION

extern "C" const struct contender contend_contenders[] = {
    {"rmm-pool", VERSION, open_pool, pool::allocate, pool::release},
    {"rmm-arena", VERSION, open_arena, arena::allocate, arena::release},
    {NULL, NULL, NULL, NULL, NULL},
};
