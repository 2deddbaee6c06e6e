/* cudaMemGetInfo: NULL arguments, and a free that brings back what an allocation took. */
#include "victim.h"

int main(void)
{
    size_t before, total, during, after;
    void *a, *b;
    MUST(cudaFree(0));
    SHOW(cudaMemGetInfo(NULL, &total));
    SHOW(cudaMemGetInfo(&before, NULL));
    SHOW(cudaMemGetInfo(&before, &total));
    printf("free is at most total: %d\n", before <= total);
    MUST(cudaMalloc(&a, 100 * MIB));
    MUST(cudaMemGetInfo(&during, &total));
    printf("100 MiB less: %d\n", before - during == 100 * MIB);
    MUST(cudaFree(a));
    MUST(cudaMemGetInfo(&after, &total));
    printf("all back: %d\n", after == before);
    MUST(cudaMalloc(&a, 5 * MIB));
    MUST(cudaFree(a));
    MUST(cudaMemGetInfo(&after, &total));
    printf("a smaller one as well: %d\n", after == before);
    SHOW(cudaMalloc(&b, after / 10 * 9));
    SHOW(cudaFree(b));
    return 0;
}
