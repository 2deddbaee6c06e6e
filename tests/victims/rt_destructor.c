/* Frees from atexit and from a destructor, when the driver may be gone. */
#include "victim.h"

static void *first, *second, *third;

static void at_exit(void)
{
    printf("atexit %d\n", (int)cudaFree(first));
}

__attribute__((destructor)) static void at_end(void)
{
    cudaError_t result = cudaFree(second);
    printf("destructor %s\n",
           result == cudaSuccess || result == cudaErrorCudartUnloading ? "survived" : "odd");
    fflush(stdout);
}

int main(void)
{
    MUST(cudaMalloc(&first, 1000));
    MUST(cudaMalloc(&second, 2 * MIB));
    MUST(cudaMalloc(&third, 100));
    atexit(at_exit);
    return 5;
}
