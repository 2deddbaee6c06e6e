/* A program that sizes itself by what it is told is free, on a card in every state: nine tenths of
 * that in one piece must be had. Card: 1 GiB. */
#include "victim.h"

int main(void)
{
    static void *block[200];
    size_t free_bytes, total;
    int had = 0, asked = 0;
    unsigned random = 12345;
    for (int round = 0; round < 60; round++) {
        void *large;
        for (int i = 0; i < 200; i++) {
            random = random * 1103515245 + 12345;
            if (block[i] != NULL && random >> 16 & 1) {
                MUST(cudaFree(block[i]));
                block[i] = NULL;
            } else if (block[i] == NULL && random >> 17 & 1) {
                size_t bytes = ((random >> 18 & 1023) + 1) << ((random >> 28) % 4 * 4);
                if (cudaMalloc(&block[i], bytes) != cudaSuccess)
                    block[i] = NULL;
            }
        }
        cudaGetLastError();
        MUST(cudaMemGetInfo(&free_bytes, &total));
        asked++;
        if (cudaMalloc(&large, free_bytes / 10 * 9) != cudaSuccess)
            continue;
        had++;
        MUST(cudaFree(large));
    }
    printf("asked %d times, had %d\n", asked, had);
    return 0;
}
