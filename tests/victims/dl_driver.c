/* The driver opened by dlopen, functions found by dlsym. usage: dl_driver [NAME] */
#include "driver.h"

int main(int argc, char **argv)
{
    void *driver = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL) {
        printf("no driver\n");
        return 4;
    }
#define GET(name, ...)                                                                             \
    CUresult (*name##_)(__VA_ARGS__) = (CUresult(*)(__VA_ARGS__))dlsym(driver, #name)
    GET(cuInit, unsigned);
    GET(cuDeviceGet, CUdevice *, int);
    GET(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
    GET(cuCtxSetCurrent, CUcontext);
    GET(cuMemAlloc_v2, CUdeviceptr *, size_t);
    GET(cuMemFree_v2, CUdeviceptr);
    CUdevice device;
    CUcontext context;
    CUdeviceptr a;
    MUST(cuInit_(0));
    MUST(cuDeviceGet_(&device, 0));
    MUST(cuDevicePrimaryCtxRetain_(&context, device));
    MUST(cuCtxSetCurrent_(context));
    for (int i = 1; i < 50; i++) {
        MUST(cuMemAlloc_v2_(&a, (size_t)i * 4321));
        MUST(cuMemFree_v2_(a));
    }
    printf("second free %d\n", (int)cuMemFree_v2_(a));
    printf("old 32-bit name found %d, unknown name found %d\n", dlsym(driver, "cuMemAlloc") != NULL,
           dlsym(driver, "cuNoSuchFunction") != NULL);
    printf("error text %d\n", dlerror() != NULL);
    return 0;
}
