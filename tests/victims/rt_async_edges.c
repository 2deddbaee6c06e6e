/* Stream-ordered calls at the edges: zero, NULL, huge, interior, unknown, freed. */
#include "victim.h"

int main(void)
{
    void *a = (void *)1, *b;
    cudaStream_t stream;
    MUST(cudaStreamCreate(&stream));
    SHOW(cudaMallocAsync(&a, 0, stream));
    printf("  pointer is NULL: %d\n", a == NULL);
    SHOW(cudaMallocAsync(NULL, 100, stream));
    SHOW_LAST();
    SHOW(cudaMallocAsync(&a, SIZE_MAX, stream));
    SHOW_LAST();
    SHOW(cudaMallocAsync(&a, SIZE_MAX / 2, stream));
    SHOW_LAST();
    SHOW(cudaFreeAsync(NULL, stream));
    SHOW_LAST();
    SHOW(cudaFreeAsync((void *)0x1234567800, stream));
    SHOW_LAST();
    SHOW(cudaMallocAsync(&a, 100000, stream));
    SHOW(cudaFreeAsync((char *)a + 512, stream));
    SHOW_LAST();
    SHOW(cudaFree((char *)a + 512));
    SHOW_LAST();
    SHOW(cudaFreeAsync(a, stream));
    SHOW(cudaStreamSynchronize(stream));
    SHOW(cudaFree(a));
    SHOW_LAST();
    SHOW(cudaMallocAsync(&b, 5 * MIB, cudaStreamLegacy));
    SHOW(cudaFreeAsync(b, cudaStreamPerThread));
    SHOW(cudaMallocAsync(&b, 5 * MIB, cudaStreamPerThread));
    SHOW(cudaFree(b));
    SHOW(cudaDeviceSynchronize());
    SHOW_LAST();
    return 0;
}
