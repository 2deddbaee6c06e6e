/* victim.h - helpers of the victims: small programs that know nothing of vramalloc and print what
 * they see.
 *
 * No address is ever printed, so that runs with and without the library can be compared line by
 * line.
 */
#ifndef VRAMALLOC_TESTS_VICTIM_H
#define VRAMALLOC_TESTS_VICTIM_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/cuda_runtime_min.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Prints a runtime call and its result. */
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        cudaError_t shown_ = (call);                                                               \
        printf("%s -> %d %s\n", #call, (int)shown_, cudaGetErrorName(shown_));                     \
    } while (0)

/* Prints and clears the runtime's last error. */
#define SHOW_LAST() printf("  last error %s\n", cudaGetErrorName(cudaGetLastError()))

/* Ends the program if a call fails that must not. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t must_ = (call);                                                                \
        if (must_ != cudaSuccess) {                                                                \
            printf("%s failed: %s\n", #call, cudaGetErrorName(must_));                             \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

/* A number from 0 to below - 1, the same from run to run. */
static inline unsigned roll(uint64_t *random, unsigned below)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*random >> 33) % below;
}

/* Writes a pattern to a block, reads it back. Returns whether it is right. */
static inline int pattern_ok(void *block, size_t bytes, unsigned seed)
{
    size_t length = bytes < 4096 ? bytes : 4096;
    unsigned char out[4096], in[4096];
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)(seed * 31 + i * 7);
    size_t tail = bytes - length;
    MUST(cudaMemcpy((char *)block + tail, out, length, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(in, (char *)block + tail, length, cudaMemcpyDeviceToHost));
    return memcmp(out, in, length) == 0;
}

#endif
