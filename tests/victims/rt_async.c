/* Stream-ordered blocks on several streams, written by kernels (on the simulator) and copies. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t stream[4];
    void *block[4][8] = {{0}};
    int failed = 0;
    for (int s = 0; s < 4; s++)
        MUST(cudaStreamCreateWithFlags(&stream[s],
                                       s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    for (int i = 0; i < 400; i++) {
        int s = i % 4, k = i / 4 % 8;
        size_t bytes = (size_t)1 << (10 + i * 7 % 14);
        if (block[s][k] != NULL)
            failed += cudaFreeAsync(block[s][k], stream[s]) != cudaSuccess;
        failed += cudaMallocAsync(&block[s][k], bytes, stream[s]) != cudaSuccess;
        kernel_write(stream[s], 50000, block[s][k], bytes);
        if (i % 50 == 49)
            failed += cudaStreamSynchronize(stream[s]) != cudaSuccess;
    }
    for (int s = 0; s < 4; s++)
        for (int k = 0; k < 8; k++)
            failed += cudaFreeAsync(block[s][k], stream[s]) != cudaSuccess;
    MUST(cudaDeviceSynchronize());
    printf("failed %d, hazards %d\n", failed, hazards());
    return 0;
}
