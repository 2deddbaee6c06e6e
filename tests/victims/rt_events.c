/* Blocks that wander between streams, ordered by events: freed on another stream than they came
 * from. */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    cudaStream_t stream[3];
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int s = 0; s < 3; s++)
        MUST(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    for (int i = 0; i < 300; i++) {
        cudaStream_t from = stream[i % 3], to = stream[(i + 1 + i / 3 % 2) % 3];
        size_t bytes = (size_t)1 << (9 + i * 5 % 16);
        void *a, *b;
        MUST(cudaMallocAsync(&a, bytes, from));
        kernel_write(from, 300000, a, bytes);
        MUST(cudaEventRecord(event, from));
        MUST(cudaStreamWaitEvent(to, event, 0));
        kernel_write(to, 500000, a, bytes);
        MUST(cudaFreeAsync(a, to));
        MUST(cudaMallocAsync(&b, bytes, from)); /* while `to` is still at it */
        kernel_write(from, 1000, b, bytes);
        MUST(cudaFreeAsync(b, from));
    }
    SHOW(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
