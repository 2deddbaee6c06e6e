/* A program that spends its run in a cudaFree that waits for the GPU. usage: rt_advice [ipc]
 * ipc: another process may have opened some of its memory. */
#include "victim.h"
#include "victim_sim.h"

static volatile int kernel_may_end;

static void *end_it(void *arg)
{
    usleep(100000);
    __atomic_store_n(&kernel_may_end, 1, __ATOMIC_RELEASE);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t ending;
    cudaStream_t busy;
    cudaIpcMemHandle_t handle;
    void *block, *large;
    CUresult (*spin)(CUstream, volatile int *, size_t, const struct vrsim_range *) =
        (CUresult(*)(CUstream, volatile int *, size_t, const struct vrsim_range *))sim_function(
            "vrsim_launch_spin");
    MUST(cudaMalloc(&block, 100000));
    MUST(cudaMalloc(&large, 64 * MIB));
    if (argc > 1 && strcmp(argv[1], "ipc") == 0)
        MUST(cudaIpcGetMemHandle(&handle, large));
    MUST(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    struct vrsim_range range = {(CUdeviceptr)(uintptr_t)block, 100000, 1};
    spin(busy, &kernel_may_end, 1, &range);
    pthread_create(&ending, NULL, end_it, NULL);
    MUST(cudaFree(block));
    pthread_join(ending, NULL);
    return 0;
}
