/* IPC handles: of a block that starts its driver allocation, and of one that does not. */
#include "victim.h"

int main(void)
{
    void *first, *second, *large;
    cudaIpcMemHandle_t handle;
    MUST(cudaMalloc(&first, 100000));
    MUST(cudaMalloc(&second, 100000));
    MUST(cudaMalloc(&large, 64 * MIB));
    SHOW(cudaIpcGetMemHandle(&handle, large));
    SHOW(cudaIpcGetMemHandle(&handle, first));
    cudaError_t inside = cudaIpcGetMemHandle(&handle, second);
    printf("inside a segment: %s\n", cudaGetErrorName(inside));
    cudaGetLastError();
    MUST(cudaFree(second));
    SHOW(cudaIpcGetMemHandle(&handle, second));
    MUST(cudaMallocAsync(&second, 32 * MIB, 0)); /* memory of a pool has no such handle */
    SHOW(cudaIpcGetMemHandle(&handle, second));
    SHOW_LAST();
    MUST(cudaFreeAsync(second, 0));
    return 0;
}
