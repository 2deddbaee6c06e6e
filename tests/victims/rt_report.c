/* Holds as many blocks of 40 MiB as it is told to, and gives them back; "oom": asks for more than
 * any card has, too. */
#include "victim.h"

enum { BLOCKS_MAX = 64 };

int main(int argc, char **argv)
{
    static void *block[BLOCKS_MAX];
    int count = argc > 1 ? atoi(argv[1]) : 1;
    if (count < 1 || count > BLOCKS_MAX)
        return 2;
    for (int i = 0; i < count; i++)
        MUST(cudaMalloc(&block[i], 40 * MIB));
    if (argc > 2 && cudaMalloc(&block[count], (size_t)1 << 42) != cudaErrorMemoryAllocation)
        return 1;
    for (int i = 0; i < count; i++)
        MUST(cudaFree(block[i]));
    return 0;
}
