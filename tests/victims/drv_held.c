/* Four contexts, each with memory of its own at once; blocks of the driver's own, live at exit,
 * freed, and gone with their context. */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext context[4];
    CUdeviceptr a, b;
    CUctxCreateParams params = {0};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    for (int i = 0; i < 4; i++) {
        MUST(cuCtxCreate(&context[i], &params, 0, device));
        MUST(cuMemAlloc(&a, 100 * MIB));
        MUST(cuMemAlloc(&b, 1000));
        SHOW(cuMemFree(b + 512));
        SHOW(cuMemFree(b));
        SHOW(cuMemFree(b));
    }
    SHOW(cuCtxDestroy(context[3]));
    return 0;
}
