/* Allocates, writes, reads back and frees blocks of many sizes. */
#include "victim.h"

int main(void)
{
    static void *block[200];
    int wrong = 0, failed = 0;
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)(i + 1) * (size_t)(i + 1) * 1009;
        failed += cudaMalloc(&block[i], bytes) != cudaSuccess;
        if (block[i] != NULL)
            wrong += !pattern_ok(block[i], bytes, (unsigned)i);
    }
    for (int i = 0; i < 200; i++)
        failed += cudaFree(block[i * 7 % 200]) != cudaSuccess;
    printf("wrong %d, failed %d\n", wrong, failed);
    SHOW_LAST();
    return 0;
}
