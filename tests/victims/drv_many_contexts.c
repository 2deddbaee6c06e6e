/* More contexts than anybody needs, all with blocks alive at once. */
#include "driver.h"

enum { CONTEXTS = 300 };

int main(void)
{
    static CUcontext context[CONTEXTS];
    static CUdeviceptr block[CONTEXTS];
    CUdevice device;
    CUctxCreateParams params = {0};
    int right = 0;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    for (int i = 0; i < CONTEXTS; i++) {
        MUST(cuCtxCreate(&context[i], &params, 0, device));
        MUST(cuMemAlloc(&block[i], 5000));
        MUST(cuMemsetD8(block[i], (unsigned char)i, 5000));
    }
    for (int i = 0; i < CONTEXTS; i++) { /* with whatever context is current */
        unsigned char seen = 0;
        MUST(cuCtxSetCurrent(context[i]));
        MUST(cuMemcpyDtoH(&seen, block[i] + 4999, 1));
        right += seen == (unsigned char)i;
        MUST(cuCtxSetCurrent(context[(i * 7) % CONTEXTS]));
        MUST(cuMemFree(block[i]));
    }
    for (int i = 0; i < CONTEXTS; i++)
        MUST(cuCtxDestroy(context[i]));
    printf("right %d\n", right);
    return 0;
}
