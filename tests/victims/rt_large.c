/* Sizes beyond 32 bits, on a card of 2 TiB. Case 1 among them: 2^30 + 8. */
#include "victim.h"

int main(void)
{
    static const size_t sizes[] = {GIB + 8,      2 * GIB - 1, 4 * GIB,   4 * GIB + 1,
                                   5 * GIB + 77, 70 * GIB,    600 * GIB, 900 * GIB + 3};
    void *block[8], *refused;
    size_t free_bytes, total, after;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    for (int i = 0; i < 8; i++)
        SHOW(cudaMalloc(&block[i], sizes[i]));
    for (int i = 0; i < 8; i++)
        printf("%zu: right %d\n", sizes[i], pattern_ok(block[i], sizes[i], (unsigned)i));
    SHOW(cudaMalloc(&refused, 600 * GIB));
    SHOW_LAST();
    for (int i = 0; i < 8; i++)
        SHOW(cudaFree(block[i]));
    SHOW(cudaMalloc(&block[1], 1900 * GIB));
    SHOW(cudaFree(block[1]));
    MUST(cudaMemGetInfo(&after, &total));
    printf("taken of the card: %zu MiB\n", (free_bytes - after) / MIB);
    return 0;
}
