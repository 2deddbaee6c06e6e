/* More than half of the card, more than the rest, and again after a free. Card: 8 GiB. */
#include "victim.h"

int main(void)
{
    void *a, *b = (void *)1;
    SHOW(cudaMalloc(&a, 5 * GIB));
    SHOW(cudaMalloc(&b, 4 * GIB));
    printf("  pointer is NULL: %d\n", b == NULL);
    SHOW(cudaPeekAtLastError());
    SHOW_LAST();
    SHOW(cudaFree(a));
    SHOW(cudaMalloc(&b, 7 * GIB));
    SHOW_LAST();
    SHOW(cudaMalloc(&a, 900 * MIB));
    SHOW(cudaFree(b));
    SHOW(cudaMallocAsync(&b, 7 * GIB, 0));
    SHOW(cudaMallocAsync(&a, 2 * GIB, 0));
    SHOW_LAST();
    return 0;
}
