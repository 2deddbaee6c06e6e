/* victim_sim.h - simulated kernels where the simulated driver is there; nothing on a real one. */
#ifndef VRAMALLOC_TESTS_VICTIM_SIM_H
#define VRAMALLOC_TESTS_VICTIM_SIM_H

#include <cuda.h>

#include "../sim/vrsim.h"

static inline void *sim_function(const char *name)
{
    static void *driver;
    void *found = __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
    if (found == NULL) {
        found = dlopen("libcuda.so.1", RTLD_NOW);
        __atomic_store_n(&driver, found, __ATOMIC_RELEASE);
    }
    return found != NULL ? dlsym(found, name) : NULL;
}

static inline void kernel_touch(cudaStream_t stream, uint64_t ns, void *block, size_t bytes,
                                int write)
{
    CUresult (*launch)(CUstream, uint64_t, size_t, const struct vrsim_range *) = (CUresult(*)(
        CUstream, uint64_t, size_t, const struct vrsim_range *))sim_function("vrsim_launch");
    struct vrsim_range range = {(CUdeviceptr)(uintptr_t)block, bytes, write};
    if (launch != NULL)
        launch(stream, ns, 1, &range);
}

/* A kernel of that length that writes a whole block. */
static inline void kernel_write(cudaStream_t stream, uint64_t ns, void *block, size_t bytes)
{
    kernel_touch(stream, ns, block, bytes, 1);
}

static inline int hazards(void)
{
    uint64_t (*ask)(void) = (uint64_t(*)(void))sim_function("vrsim_hazards");
    return ask != NULL ? (int)ask() : 0;
}

#endif
