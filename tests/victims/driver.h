/* driver.h - helpers of the victims that use the driver API. */
#ifndef VRAMALLOC_TESTS_DRIVER_H
#define VRAMALLOC_TESTS_DRIVER_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define MIB ((size_t)1 << 20)

/* Prints a driver call and its result. */
#define SHOW(call) printf("%s -> %d\n", #call, (int)(call))

#define MUST(call)                                                                                 \
    do {                                                                                           \
        CUresult must_ = (call);                                                                   \
        if (must_ != CUDA_SUCCESS) {                                                               \
            printf("%s failed: %d\n", #call, (int)must_);                                          \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

#endif
