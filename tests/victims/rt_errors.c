/* Zero, NULL, huge, double, interior and unknown. */
#include "victim.h"

int main(void)
{
    void *a = (void *)1, *b;
    SHOW(cudaMalloc(&a, 0));
    printf("  pointer is NULL: %d\n", a == NULL);
    SHOW(cudaMalloc(NULL, 100));
    SHOW_LAST();
    a = (void *)1;
    SHOW(cudaMalloc(&a, SIZE_MAX));
    printf("  pointer is NULL: %d\n", a == NULL);
    SHOW_LAST();
    SHOW(cudaMalloc(&a, SIZE_MAX / 2));
    SHOW(cudaPeekAtLastError());
    SHOW_LAST();
    SHOW(cudaFree(NULL));
    SHOW(cudaMalloc(&a, 1000));
    SHOW(cudaMalloc(&b, 3 * MIB));
    SHOW(cudaFree((char *)a + 1));
    SHOW_LAST();
    SHOW(cudaFree((char *)b + MIB));
    SHOW_LAST();
    SHOW(cudaFree((void *)0x1234567800));
    SHOW_LAST();
    SHOW(cudaFree(a));
    SHOW(cudaFree(a));
    SHOW_LAST();
    SHOW(cudaFree(b));
    SHOW(cudaFree(b));
    SHOW_LAST();
    SHOW(cudaMalloc(&a, 1000));
    SHOW(cudaFree(a));
    SHOW_LAST();
    return 0;
}
