/* Memory that one context left idle is another's to have, by every way of asking for it, and is
 * told of as free. */
#include "driver.h"

static void idle_leave(CUcontext context)
{
    CUdeviceptr a;
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&a, 30 * MIB));
    MUST(cuMemFree(a));
}

int main(void)
{
    CUdevice device;
    CUcontext one, two;
    CUdeviceptr a;
    CUctxCreateParams params = {0};
    size_t room, total, pitch;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&one, &params, 0, device));
    MUST(cuCtxCreate(&two, &params, 0, device));
    idle_leave(one);
    MUST(cuCtxSetCurrent(two));
    MUST(cuMemGetInfo(&room, &total));
    printf("told of %zu of %zu MiB\n", room / MIB, total / MIB);
    SHOW(cuMemAlloc(&a, 50 * MIB));
    SHOW(cuMemFree(a));
    idle_leave(one);
    MUST(cuCtxSetCurrent(two));
    SHOW(cuMemAllocPitch(&a, &pitch, MIB, 50, 4));
    SHOW(cuMemFree(a));
    idle_leave(one);
    MUST(cuCtxSetCurrent(two));
    SHOW(cuMemAllocManaged(&a, 50 * MIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree(a));
    idle_leave(one);
    MUST(cuCtxSetCurrent(two));
    SHOW(cuMemAllocAsync(&a, 50 * MIB, NULL));
    SHOW(cuMemFreeAsync(a, NULL));
    SHOW(cuCtxSynchronize());
    idle_leave(two);
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemGetInfo(&room, &total));
    SHOW(cuMemAlloc(&a, room / 10 * 9));
    SHOW(cuMemFree(a));
    SHOW(cuMemAlloc(&a, 90 * MIB));
    return 0;
}
