/* hooked.c - what a pair of allocation and free costs a program through the hooks, on the simulated
 * driver: one line, nanoseconds a pair, the least of some rounds.
 *
 * usage: hooked [BYTES [PAIRS [async]]]. async: cuMemAllocAsync and cuMemFreeAsync on one stream.
 * tests/bench/versus runs it with two libraries in turn. */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 10 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "hooked: %s answered %d\n", call, result);
    exit(1);
}

static void pair(size_t bytes)
{
    CUdeviceptr block;
    check(cuMemAlloc(&block, bytes), "cuMemAlloc");
    check(cuMemFree(block), "cuMemFree");
}

static void pair_async(size_t bytes, CUstream stream)
{
    CUdeviceptr block;
    check(cuMemAllocAsync(&block, bytes, stream), "cuMemAllocAsync");
    check(cuMemFreeAsync(block, stream), "cuMemFreeAsync");
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    long pairs = argc > 2 ? strtol(argv[2], NULL, 10) : 1000000;
    bool async = argc > 3 && strcmp(argv[3], "async") == 0;
    double least_ns = 1e18;
    CUstream stream;
    CUdevice device;
    CUcontext context;
    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (int round = 0; round < ROUNDS; round++) {
        double begin_ns = now_ns();
        for (long i = 0; i < pairs / ROUNDS; i++) {
            if (async)
                pair_async(bytes, stream);
            else
                pair(bytes);
        }
        double pair_ns = (now_ns() - begin_ns) / (double)(pairs / ROUNDS);
        least_ns = pair_ns < least_ns ? pair_ns : least_ns;
    }
    printf("%.2f\n", least_ns);
    return 0;
}
