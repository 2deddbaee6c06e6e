/* contend_sim.c - the device of the GPU benchmark on the simulated driver: kernels take virtual
 * time. */
#include <dlfcn.h>
#include <stdint.h>

#include "contend.h"

#include "../victims/victim_sim.h"

const char *device_prepare(void)
{
    return NULL;
}

const char *device_launch(cudaStream_t stream, unsigned long long ns, void *word)
{
    kernel_write(stream, ns, word, 4);
    return NULL;
}

long long device_used(void)
{
    uint64_t (*used)(CUdevice) = (uint64_t(*)(CUdevice))sim_function("vrsim_card_used");
    return used != NULL ? (long long)used(0) : -1;
}
