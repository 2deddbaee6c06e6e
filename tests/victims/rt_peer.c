/* Two devices with access to each other's memory: a free waits for the other device's kernels as
 * well. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t stream[2];
    void *a, *b;
    for (int d = 0; d < 2; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&a, 1000)); /* before access is enabled */
        SHOW(cudaDeviceEnablePeerAccess(1 - d, 0));
        MUST(cudaStreamCreateWithFlags(&stream[d], cudaStreamNonBlocking));
        MUST(cudaFree(a));
    }
    for (int i = 0; i < 20; i++) {
        size_t bytes = (size_t)5000 << (i % 12);
        int d = i % 2;
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&a, bytes));
        MUST(cudaSetDevice(1 - d));
        kernel_write(stream[1 - d], 20000000, a, bytes);
        MUST(cudaStreamSynchronize(stream[1 - d]));
        MUST(cudaSetDevice(d));
        MUST(cudaFree(a));
        MUST(cudaMalloc(&b, bytes));
        kernel_write(stream[d], 1000, b, bytes);
        MUST(cudaFree(b));
    }
    SHOW(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
