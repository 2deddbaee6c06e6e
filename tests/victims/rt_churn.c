/* Blocks of changing size, used by long kernels on several streams, freed and allocated without
 * end. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t stream[3];
    void *block[24] = {0};
    unsigned random = 7;
    for (int s = 0; s < 3; s++)
        MUST(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    for (int i = 0; i < 6000; i++) {
        random = random * 1103515245 + 12345;
        int k = (int)(random >> 16) % 24;
        if (block[k] != NULL) {
            MUST(cudaFree(block[k]));
            block[k] = NULL;
            continue;
        }
        size_t bytes = ((size_t)1 << (9 + (random >> 8) % 17)) + (random >> 20);
        MUST(cudaMalloc(&block[k], bytes));
        kernel_write(stream[(random >> 12) % 3], 1000 + random % 400000, block[k], bytes);
    }
    for (int k = 0; k < 24; k++)
        MUST(cudaFree(block[k]));
    MUST(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
