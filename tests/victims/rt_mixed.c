/* Blocks allocated by one kind of call and freed by the other. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    void *a, *b, *c, *d;
    cudaStream_t one, two;
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    for (int i = 0; i < 20; i++) {
        size_t bytes = MIB / 4 << (i % 5);
        MUST(cudaMallocAsync(&a, bytes, one));
        kernel_write(one, 100000, a, bytes);
        MUST(cudaFree(a));
        MUST(cudaMalloc(&b, bytes));
        kernel_write(two, 1000, b, bytes);
        MUST(cudaFreeAsync(b, two));
        MUST(cudaMallocAsync(&c, bytes, one));
        kernel_write(one, 1000, c, bytes);
        MUST(cudaMallocAsync(&d, bytes, two));
        kernel_write(two, 1000, d, bytes);
        MUST(cudaFreeAsync(c, one));
        MUST(cudaFreeAsync(d, two));
    }
    SHOW(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
