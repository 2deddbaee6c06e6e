/* Holds three blocks until a line comes: for those who look from outside. */
#include "victim.h"

int main(void)
{
    void *block[3];
    for (int i = 0; i < 3; i++)
        MUST(cudaMalloc(&block[i], 5 * MIB));
    MUST(cudaFree(block[1]));
    printf("ready\n");
    fflush(stdout);
    int ended = getchar();
    for (int i = 0; i < 3; i += 2)
        MUST(cudaFree(block[i]));
    return ended == EOF;
}
