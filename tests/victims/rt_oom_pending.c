/* A card full of blocks whose frees are pending on busy streams: the next allocation must find room
 * as it does without a pool. Card: 64 MiB. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t one, two;
    void *a, *b;
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    for (int i = 0; i < 8; i++) {
        size_t bytes = (i % 2 ? 40 : 36) * MIB;
        SHOW(cudaMallocAsync(&a, bytes, one));
        kernel_write(one, 5000000, a, bytes);
        SHOW(cudaFreeAsync(a, one));
        if (i % 4 < 2) {
            SHOW(cudaMalloc(&b, bytes));
            kernel_write(two, 5000000, b, bytes);
            SHOW(cudaFree(b));
        } else {
            SHOW(cudaMallocAsync(&b, bytes, two));
            kernel_write(two, 5000000, b, bytes);
            SHOW(cudaFreeAsync(b, two));
        }
        SHOW_LAST();
    }
    SHOW(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
