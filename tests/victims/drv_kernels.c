/* Kernels over blocks that come and go, by the linked driver API. */
#include "driver.h"

#include "../sim/vrsim.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUstream stream[2];
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuStreamCreate(&stream[0], CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&stream[1], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 10; i++) {
        struct vrsim_range range = {0, MIB, 1};
        MUST(cuMemAlloc(&range.address, MIB));
        vrsim_note_alloc(range.address, MIB);
        MUST(vrsim_launch(stream[i % 2], 10000000, 1, &range));
        vrsim_note_free(range.address);
        SHOW(cuMemFree(range.address));
    }
    SHOW(cuCtxSynchronize());
    printf("hazards %d\n", (int)vrsim_hazards());
    return 0;
}
