/* Working sets that fill a card exactly, one after the other. Card: 64 MiB. */
#include "victim.h"

static int fill(size_t bytes, int count)
{
    static void *block[4096];
    int got = 0;
    while (got < count && cudaMalloc(&block[got], bytes) == cudaSuccess)
        got++;
    for (int i = 0; i < got; i++)
        MUST(cudaFree(block[i]));
    return got;
}

int main(void)
{
    static const size_t sizes[] = {2, 62, 4, 30, 6, 20, 2, 60};
    for (int i = 0; i < 8; i++)
        printf("%zu MiB: %d of %zu\n", sizes[i], fill(sizes[i] * MIB, (int)(62 / sizes[i])),
               62 / sizes[i]);
    printf("1 MiB: %d\n", fill(MIB, 60));
    printf("512 B: %d\n", fill(512, 4000));
    return 0;
}
