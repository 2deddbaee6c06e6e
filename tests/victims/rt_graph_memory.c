/* Memory that a graph allocates for itself, on a card that the pool may have filled: every launch
 * gives the right contents. Case 14.
 */
#include "victim.h"

enum { BYTES = 300000 };

static int right(const unsigned char *bytes, unsigned char value)
{
    for (int i = 0; i < BYTES; i++)
        if (bytes[i] != value)
            return 0;
    return 1;
}

int main(void)
{
    static unsigned char back[BYTES];
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    void *node = NULL, *plain, *pooled;
    MUST(cudaMalloc(&plain, BYTES));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    SHOW(cudaMallocAsync(&node, BYTES, stream));
    SHOW(cudaMemcpyAsync(node, plain, BYTES, cudaMemcpyDeviceToDevice, stream));
    SHOW(cudaMemsetAsync(plain, 200, BYTES, stream));
    SHOW(cudaMemcpyAsync(plain, node, BYTES, cudaMemcpyDeviceToDevice, stream));
    SHOW(cudaFreeAsync(node, stream));
    SHOW(cudaStreamEndCapture(stream, &graph));
    SHOW(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        MUST(cudaMallocAsync(&pooled, BYTES, stream)); /* beside the graph's */
        MUST(cudaMemsetAsync(pooled, 99, BYTES, stream));
        MUST(cudaMemsetAsync(plain, i + 1, BYTES, stream));
        SHOW(cudaGraphLaunch(exec, stream));
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaMemcpy(back, plain, BYTES, cudaMemcpyDeviceToHost));
        printf("launch %d right: %d\n", i, right(back, (unsigned char)(i + 1)));
        MUST(cudaMemcpy(back, pooled, BYTES, cudaMemcpyDeviceToHost));
        printf("  beside it right: %d\n", right(back, 99));
        MUST(cudaFreeAsync(pooled, stream));
    }
    SHOW(cudaStreamSynchronize(stream));
    SHOW(cudaFree(plain));
    return 0;
}
