/* cudaDeviceReset with blocks alive; stale frees; allocation again. */
#include "victim.h"

int main(void)
{
    void *a, *b;
    for (int round = 0; round < 3; round++) {
        MUST(cudaMalloc(&a, 1000));
        MUST(cudaMalloc(&b, 40 * MIB));
        printf("right %d %d\n", pattern_ok(a, 1000, 1), pattern_ok(b, 40 * MIB, 2));
        SHOW(cudaDeviceReset());
    }
    MUST(cudaMalloc(&b, 1000));
    SHOW(cudaFree(b));
    SHOW(cudaDeviceSynchronize());
    return 0;
}
