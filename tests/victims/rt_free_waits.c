/* A free waits for a running kernel, and while it waits other threads allocate and free
 * stream-ordered memory: nobody may be held up by the waiting thread. */
#include "victim.h"
#include "victim_sim.h"

static void *block;
static volatile int kernel_may_end, freed;

static void *free_it(void *arg)
{
    cudaError_t *result = arg;
    MUST(cudaSetDevice(0));
    *result = cudaFree(block);
    __atomic_store_n(&freed, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(void)
{
    pthread_t waiter;
    cudaError_t result = cudaSuccess;
    cudaStream_t busy, idle;
    void *a, *b;
    CUresult (*spin)(CUstream, volatile int *, size_t, const struct vrsim_range *) =
        (CUresult(*)(CUstream, volatile int *, size_t, const struct vrsim_range *))sim_function(
            "vrsim_launch_spin");
    MUST(cudaMalloc(&block, 100000));
    MUST(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
    struct vrsim_range range = {(CUdeviceptr)(uintptr_t)block, 100000, 1};
    spin(busy, &kernel_may_end, 1, &range);
    pthread_create(&waiter, NULL, free_it, &result);
    usleep(50000);
    for (int i = 0; i < 100; i++) {
        MUST(cudaMalloc(&a, 100000));
        MUST(cudaMallocAsync(&b, 5000, idle));
        MUST(cudaFreeAsync(b, idle));
        printf("%s", a == block ? "the block was handed out before it was free\n" : "");
    }
    printf("freed before the kernel ended: %d\n", __atomic_load_n(&freed, __ATOMIC_ACQUIRE));
    __atomic_store_n(&kernel_may_end, 1, __ATOMIC_RELEASE);
    pthread_join(waiter, NULL);
    printf("freed: %d %s, hazards %d\n", freed, cudaGetErrorName(result), hazards());
    return 0;
}
