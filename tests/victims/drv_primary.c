/* The primary context retained, released, reset and retained again, with blocks alive. */
#include "driver.h"

static unsigned fill(CUdeviceptr block, unsigned char value)
{
    unsigned char out = 0;
    MUST(cuMemsetD8(block, value, 1000));
    MUST(cuMemcpyDtoH(&out, block + 999, 1));
    return out;
}

int main(void)
{
    CUdevice device;
    CUcontext primary, other;
    CUctxCreateParams params = {0};
    CUdeviceptr a, b, c;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    MUST(cuMemAlloc(&a, 1000));
    MUST(cuMemAlloc(&b, 20 * MIB));
    SHOW(cuDevicePrimaryCtxRelease(device)); /* one of two */
    printf("still right: %u %u\n", fill(a, 17), fill(b, 18));
    SHOW(cuMemFree(a));
    MUST(cuCtxCreate(&other, &params, 0, device));
    MUST(cuMemAlloc(&c, 1000));
    SHOW(cuDevicePrimaryCtxReset(device));
    printf("another context's block: %u\n", fill(c, 19));
    SHOW(cuMemFree(c));
    SHOW(cuMemFree(b)); /* gone with the reset */
    SHOW(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    SHOW(cuMemAlloc(&a, 1000));
    printf("right after the reset: %u\n", fill(a, 20));
    SHOW(cuMemFree(a));
    SHOW(cuDevicePrimaryCtxRelease(device));
    SHOW(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    SHOW(cuMemAlloc(&a, 1000));
    printf("right after the release: %u\n", fill(a, 21));
    SHOW(cuMemFree(a));
    SHOW(cuCtxDestroy(other));
    return 0;
}
