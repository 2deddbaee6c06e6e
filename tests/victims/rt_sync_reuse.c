/* Case 11: a long kernel on a non-blocking stream uses a block that is freed and allocated again.
 */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t one, two;
    MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    for (size_t bytes = 512; bytes <= 256 * MIB; bytes *= 8) {
        for (int i = 0; i < 5; i++) {
            void *a, *b;
            MUST(cudaMalloc(&a, bytes));
            kernel_write(one, 50000000, a, bytes);
            MUST(cudaFree(a));
            MUST(cudaMalloc(&b, bytes));
            MUST(cudaMemsetAsync(b, 1, bytes < MIB ? bytes : MIB, two));
            kernel_write(two, 1000, b, bytes);
            MUST(cudaFree(b));
        }
    }
    printf("hazards %d\n", hazards());
    return 0;
}
