/* Memory the library holds idle must not starve allocations that go to the driver. Card: 1 GiB. */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUdeviceptr a;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {0};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuMemAlloc(&a, 800 * MIB));
    MUST(cuMemFree(a));
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    SHOW(cuMemCreate(&handle, 700 * MIB, &properties, 0));
    SHOW(cuMemRelease(handle));
    MUST(cuMemAlloc(&a, 800 * MIB));
    MUST(cuMemFree(a));
    SHOW(cuMemAllocManaged(&a, 700 * MIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree(a));
    return 0;
}
