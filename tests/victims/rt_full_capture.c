/* On a full card, while a stream captures, nothing is left to wait with: what is freed then stays
 * away from everybody until the GPU is done. */
#include "victim.h"
#include "victim_sim.h"

enum { BLOCKS = 3 };

int main(void)
{
    cudaStream_t capturing, slow, quick;
    cudaGraph_t graph = NULL;
    void *a[BLOCKS], *b;
    size_t free_bytes, total;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&slow, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&quick, cudaStreamNonBlocking));
    cudaThreadExchangeStreamCaptureMode(&mode);
    for (int i = 0; i < BLOCKS; i++)
        MUST(cudaMalloc(&a[i], 3 * MIB));
    for (int round = 0; round < 2; round++) {
        MUST(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
        for (int i = 0; i < BLOCKS; i++) {
            kernel_write(slow, 5000000, a[i], 3 * MIB);
            MUST(cudaFree(a[i]));
            MUST(cudaMemGetInfo(&free_bytes, &total)); /* a look for what has passed */
            MUST(cudaMalloc(&b, 3 * MIB));
            kernel_write(quick, 1000, b, 3 * MIB);
            a[i] = b;
        }
        SHOW(cudaStreamEndCapture(capturing, &graph));
        for (int i = 0; i < BLOCKS; i++) {
            MUST(cudaFree(a[i]));
            MUST(cudaMalloc(&a[i], 3 * MIB));
        }
    }
    MUST(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cudaFree(a[i]));
    MUST(cudaStreamEndCapture(capturing, &graph));
    SHOW(cudaMalloc(&b, 50 * MIB)); /* needs what waits */
    MUST(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
