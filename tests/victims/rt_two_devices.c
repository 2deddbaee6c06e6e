/* Blocks of two devices, each freed while the other is current. */
#include "victim.h"

int main(void)
{
    void *a[2], *b[2];
    int count;
    MUST(cudaGetDeviceCount(&count));
    printf("devices %d\n", count);
    for (int d = 0; d < 2; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&a[d], 100000));
        MUST(cudaMalloc(&b[d], 50 * MIB));
        printf("right %d\n", pattern_ok(b[d], 50 * MIB, (unsigned)d));
    }
    for (int d = 0; d < 2; d++) {
        int now;
        MUST(cudaSetDevice(d));
        SHOW(cudaFree(a[1 - d]));
        SHOW(cudaFree(b[1 - d]));
        MUST(cudaGetDevice(&now));
        printf("  current device %d\n", now);
    }
    struct cudaPointerAttributes attributes;
    for (int d = 0; d < 2; d++) {
        MUST(cudaSetDevice(d));
        MUST(cudaMalloc(&a[d], 1000));
        MUST(cudaPointerGetAttributes(&attributes, a[d]));
        printf("block of device %d\n", attributes.device);
    }
    return 0;
}
