/* contend.h - what the GPU benchmark's programs have in common: a contender, which is some way to
 * allocate device memory, and what a machine with a GPU and the simulated driver do differently.
 * Plain C, also for C++.
 *
 * contend.c measures; contend_runtime.c has the contenders that are calls of the runtime, others
 * are libraries that export `contend_contenders` (contend_cub.cpp, contend_rmm.cpp,
 * contend_torch.cpp). contend_gpu.cu or contend_sim.c is the device. No locks: contenders are
 * called by several threads at once and look after themselves.
 */
#ifndef VRAMALLOC_TESTS_CONTEND_H
#define VRAMALLOC_TESTS_CONTEND_H

#include <stddef.h>

#ifdef CONTEND_SIM
#    include "../runtime/cuda_runtime_min.h"
#else
#    include <cuda_runtime_api.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Functions return NULL, or what went wrong: a text that stays valid. */
struct contender {
    const char *name;    /* NULL: the end of a list */
    const char *version; /* of what it is made of; NULL: the runtime's */
    const char *(*open)(void);
    const char *(*allocate)(void **block, size_t bytes, cudaStream_t stream);
    const char *(*release)(void *block, size_t bytes, cudaStream_t stream);
};

extern const struct contender contend_runtime_contenders[];

/* Makes sure that launching takes no more memory of the card. */
const char *device_prepare(void);

/* A kernel of that length, which writes the word at the end. */
const char *device_launch(cudaStream_t stream, unsigned long long ns, void *word);

/* Bytes of the card that are used by anybody, as the driver counts; -1: unknown. */
long long device_used(void);

#ifdef __cplusplus
}
#endif
#endif
