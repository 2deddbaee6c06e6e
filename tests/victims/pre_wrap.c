/* A preload that itself stands before memory functions of driver and runtime and goes on by
 * RTLD_NEXT, as tools that watch or limit memory do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define WRAP(name, params, args)                                                                   \
    int name params                                                                                \
    {                                                                                              \
        static int(*next) params;                                                                  \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return next args;                                                                          \
    }

WRAP(cuMemAlloc_v2, (unsigned long long *block, size_t bytes), (block, bytes))
WRAP(cuMemFree_v2, (unsigned long long block), (block))
WRAP(cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), (free_bytes, total))
WRAP(cudaMalloc, (void **block, size_t bytes), (block, bytes))
WRAP(cudaFree, (void *block), (block))
