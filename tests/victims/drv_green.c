/* A green context of the device allocates, frees and runs kernels beside the primary context. The
 * simulator takes any description of its share of the processors. */
#include "driver.h"

#include "../sim/vrsim.h"

int main(void)
{
    CUdevice device;
    CUcontext primary, of_green;
    CUgreenCtx green;
    CUstream stream, quick;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    MUST(cuStreamCreate(&quick, CU_STREAM_NON_BLOCKING));
    MUST(cuGreenCtxCreate(&green, (CUdevResourceDesc)&device, device, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuCtxFromGreenCtx(&of_green, green));
    MUST(cuCtxSetCurrent(of_green));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 20; i++) {
        struct vrsim_range range = {0, MIB, 1};
        CUdeviceptr in_green, ordered;
        MUST(cuCtxSetCurrent(primary));
        MUST(cuMemAlloc(&range.address, MIB));
        vrsim_note_alloc(range.address, MIB);
        MUST(cuCtxSetCurrent(of_green));
        MUST(cuMemAlloc(&in_green, 5000));
        MUST(cuMemFree(in_green));
        MUST(cuMemAllocAsync(&ordered, 5000, stream));
        MUST(cuMemFreeAsync(ordered, stream));
        MUST(vrsim_launch(stream, 10000000, 1, &range)); /* nothing else waits for it */
        if (i % 2)
            MUST(cuCtxSetCurrent(primary));
        vrsim_note_free(range.address);
        MUST(cuMemFree(range.address));
        MUST(cuCtxSetCurrent(primary)); /* whoever has the memory next uses it at once */
        MUST(cuMemAlloc(&range.address, MIB));
        vrsim_note_alloc(range.address, MIB);
        MUST(vrsim_launch(quick, 1000, 1, &range));
        vrsim_note_free(range.address);
        MUST(cuMemFree(range.address));
    }
    printf("hazards %d\n", (int)vrsim_hazards());
    return 0;
}
