/* A second cudaFreeAsync of the same block. On the real driver it hangs for a cudaMalloc block. */
#include "victim.h"

int main(void)
{
    void *a;
    MUST(cudaMallocAsync(&a, 1000, 0));
    SHOW(cudaFreeAsync(a, 0));
    SHOW(cudaFreeAsync(a, 0));
    SHOW_LAST();
    MUST(cudaMalloc(&a, 1000));
    SHOW(cudaFreeAsync(a, 0));
    SHOW(cudaFreeAsync(a, 0));
    SHOW_LAST();
    SHOW(cudaDeviceSynchronize());
    return 0;
}
