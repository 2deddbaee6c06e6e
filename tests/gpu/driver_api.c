/* driver_api.c - the driver API by itself: allocate, fill, copy, compare, free. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult status_ = (call);                                                                 \
        if (status_ != CUDA_SUCCESS) {                                                             \
            printf("%s: %d\n", #call, (int)status_);                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr block[50];
    static unsigned char host[1 << 20];
    int wrong = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 50; i++) {
            CHECK(cuMemAlloc(&block[i], (size_t)(i + 1) * 20011));
            CHECK(cuMemsetD8(block[i], (unsigned char)(i + round), (size_t)(i + 1) * 20011));
        }
        for (int i = 0; i < 50; i++) {
            size_t bytes = (size_t)(i + 1) * 20011;
            bytes = bytes < sizeof(host) ? bytes : sizeof(host);
            CHECK(cuMemcpyDtoH(host, block[i], bytes));
            for (size_t k = 0; k < bytes; k += 997)
                wrong += host[k] != (unsigned char)(i + round);
            CHECK(cuMemFree(block[i]));
        }
    }
    printf("wrong bytes %d\n", wrong);
    CHECK(cuDevicePrimaryCtxRelease(device));
    return wrong != 0;
}
