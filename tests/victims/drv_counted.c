/* Arrays and cuMemCreate: passed through. */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR description = {64, 64, CU_AD_FORMAT_FLOAT, 1};
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {0};
    CUdeviceptr a;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    SHOW(cuArrayCreate(&array, &description));
    SHOW(cuArrayDestroy(array));
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    SHOW(cuMemCreate(&handle, 2 * MIB, &properties, 0));
    SHOW(cuMemRelease(handle));
    SHOW(cuMemAlloc(&a, 1000));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(a));
    SHOW(cuMemAlloc(&a, 0));
    SHOW(cuMemAlloc(NULL, 10));
    SHOW(cuMemFree(0));
    return 0;
}
