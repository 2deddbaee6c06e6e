/* Every other block freed: much is free, in short pieces. Card: 64 MiB. */
#include "victim.h"

int main(void)
{
    void *block[14], *large;
    int got = 0;
    while (got < 14 && cudaMalloc(&block[got], 4 * MIB) == cudaSuccess)
        got++;
    for (int i = 0; i < got; i += 2)
        MUST(cudaFree(block[i]));
    SHOW(cudaMalloc(&large, 20 * MIB));
    SHOW_LAST();
    for (int i = 1; i < got; i += 2)
        MUST(cudaFree(block[i]));
    SHOW(cudaMalloc(&large, 40 * MIB));
    SHOW(cudaFree(large));
    return 0;
}
