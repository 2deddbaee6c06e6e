/* A hundred thousand small blocks alive at once: aligned, apart from each other, all freed. */
#include "victim.h"

enum { COUNT = 100000 };

static int by_address(const void *a, const void *b)
{
    uintptr_t one = *(const uintptr_t *)a, two = *(const uintptr_t *)b;
    return one < two ? -1 : one > two;
}

int main(void)
{
    static uintptr_t block[COUNT];
    long misaligned = 0, overlapping = 0, failed = 0;
    for (int i = 0; i < COUNT; i++) {
        failed += cudaMalloc((void **)&block[i], 256) != cudaSuccess;
        misaligned += block[i] % 512 != 0;
    }
    qsort(block, COUNT, sizeof(*block), by_address);
    for (int i = 1; i < COUNT; i++)
        overlapping += block[i] - block[i - 1] < 256;
    for (int i = 0; i < COUNT; i++) /* every third, then the rest */
        failed += cudaFree((void *)block[(long)i * 33331 % COUNT]) != cudaSuccess;
    printf("misaligned %ld, overlapping %ld, failed %ld\n", misaligned, overlapping, failed);
    return 0;
}
