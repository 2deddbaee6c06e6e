/* Case 13: a stream is destroyed after it freed blocks; a new stream may get its handle. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    for (int i = 0; i < 50; i++) {
        void *a, *b;
        cudaStream_t stream;
        size_t bytes = MIB << (i % 4);
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        MUST(cudaMallocAsync(&a, bytes, stream));
        kernel_write(stream, 10000000, a, bytes);
        MUST(cudaFreeAsync(a, stream));
        MUST(cudaStreamDestroy(stream));
        MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        MUST(cudaMallocAsync(&b, bytes, stream));
        kernel_write(stream, 1000, b, bytes);
        MUST(cudaFreeAsync(b, stream));
        MUST(cudaStreamDestroy(stream));
    }
    MUST(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
