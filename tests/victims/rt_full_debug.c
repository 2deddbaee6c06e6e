/* On a full card, while a stream captures, a free can only be put off. What was freed so is looked
 * at and filled all the same, before anybody has it again. "late": and is then written to. */
#include "victim.h"

enum { BLOCKS = 3, BYTES = 3 << 20 };

/* Bytes of a block that are still as the program wrote them. */
static int kept(const void *block)
{
    static unsigned char copy[BYTES];
    int count = 0;
    MUST(cudaMemcpy(copy, block, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++)
        count += copy[i] == 0x77;
    return count;
}

int main(int count, char **arguments)
{
    cudaStream_t capturing;
    cudaGraph_t graph = NULL;
    void *block[BLOCKS], *tiny;
    size_t free_bytes, total;
    int late = count > 1 && strcmp(arguments[1], "late") == 0;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaStreamCreateWithFlags(&capturing, cudaStreamNonBlocking));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cudaMalloc(&block[i], BYTES));
    MUST(cudaMalloc(&tiny, 100));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++)
            MUST(cudaMemset(block[i], 0x77, BYTES + (i == round ? 3 : 0)));
        MUST(cudaDeviceSynchronize());
        MUST(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
        for (int i = 0; i < BLOCKS; i++)
            MUST(cudaFree(block[i]));
        MUST(cudaStreamEndCapture(capturing, &graph));
        MUST(cudaFree(tiny)); /* waits, and with that what was put off is over */
        MUST(cudaMemGetInfo(&free_bytes, &total));
        MUST(cudaMalloc(&tiny, 100));
        if (late) {
            MUST(cudaMalloc(&block[0], 50 << 20)); /* needs all of it, and takes it in hand */
            MUST(cudaFree(block[0]));
            MUST(cudaMemset((char *)block[0] + 60000, 1, 1));
            MUST(cudaDeviceSynchronize());
            MUST(cudaMalloc(&tiny, 50 << 20));
            MUST(cudaFree(tiny));
            MUST(cudaMalloc(&tiny, 100));
        }
        for (int i = 0; i < BLOCKS; i++) {
            MUST(cudaMalloc(&block[i], BYTES));
            printf("round %d, block %d: left %d\n", round, i, kept(block[i]));
        }
    }
    return 0;
}
