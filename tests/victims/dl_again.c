/* The driver opened, used, closed, opened and used again. */
#include "driver.h"

static void use(int round)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr a;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        printf("no driver\n");
        return;
    }
    MUST(((CUresult(*)(unsigned))dlsym(driver, "cuInit"))(0));
    MUST(((CUresult(*)(CUdevice *, int))dlsym(driver, "cuDeviceGet"))(&device, 0));
    MUST(((CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context,
                                                                                         device));
    MUST(((CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent"))(context));
    MUST(((CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2"))(&a, 5000));
    MUST(((CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2"))(a));
    MUST(((CUresult(*)(CUdevice))dlsym(driver, "cuDevicePrimaryCtxRelease_v2"))(device));
    printf("round %d, closed %d\n", round, dlclose(driver));
}

int main(void)
{
    for (int round = 0; round < 3; round++)
        use(round);
    return 0;
}
