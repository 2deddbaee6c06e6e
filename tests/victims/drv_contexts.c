/* Contexts: two on a device, frees with another and with none current, destruction, stale frees. */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext one, two, now;
    CUdeviceptr a, b, c;
    CUctxCreateParams params = {0};
    SHOW(cuMemAlloc(&a, 1000)); /* not initialised */
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&one, &params, 0, device));
    MUST(cuMemAlloc(&a, 1000));
    MUST(cuMemAlloc(&b, 50 * MIB));
    MUST(cuCtxCreate(&two, &params, 0, device));
    MUST(cuMemAlloc(&c, 1000));
    SHOW(cuMemFree(a));
    MUST(cuCtxGetCurrent(&now));
    printf("still the second: %d\n", now == two);
    MUST(cuCtxSetCurrent(NULL));
    SHOW(cuMemFree(c));
    MUST(cuCtxGetCurrent(&now));
    printf("still none: %d\n", now == NULL);
    MUST(cuCtxSetCurrent(one));
    SHOW(cuMemAlloc(&a, 2000));
    SHOW(cuCtxDestroy(one));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(b));
    MUST(cuCtxSetCurrent(two));
    SHOW(cuMemAlloc(&c, 1000)); /* perhaps at an address of the first context's */
    SHOW(cuMemFree(c));
    for (int i = 0; i < 5; i++) {
        MUST(cuCtxCreate(&one, &params, 0, device));
        MUST(cuMemAlloc(&a, 3 * MIB));
        MUST(cuMemAlloc(&b, 100));
        MUST(cuMemFree(b));
        MUST(cuCtxDestroy(one));
    }
    SHOW(cuCtxDestroy(two));
    return 0;
}
