/* The driver's functions through cuGetProcAddress, both variants, several versions of a name. */
#include "driver.h"

static CUresult (*get1)(const char *, void **, int, cuuint64_t);
static CUresult (*get2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *find(const char *name, int version, cuuint64_t flags)
{
    void *one = NULL, *two = NULL, *three = NULL;
    int results[3];
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    results[0] = (int)get1(name, &one, version, flags);
    results[1] = (int)get2(name, &two, version, flags, NULL);
    results[2] = (int)get2(name, &three, version, flags, &status);
    printf("%s v%d flags %d: %d %d %d status %d, all the same %d\n", name, version, (int)flags,
           results[0], results[1], results[2], (int)status, one == two && two == three);
    return two;
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *again = NULL;
    CUdevice device;
    CUcontext context;
    CUdeviceptr a;
    *(void **)&get1 = dlsym(driver, "cuGetProcAddress");
    *(void **)&get2 = dlsym(driver, "cuGetProcAddress_v2");
    if (get1 == NULL || get2 == NULL) {
        printf("not there\n");
        return 4;
    }
    MUST(((CUresult(*)(unsigned))find("cuInit", 2000, 0))(0));
    MUST(((CUresult(*)(CUdevice *, int))find("cuDeviceGet", 2000, 0))(&device, 0));
    MUST(((CUresult(*)(CUcontext *, CUdevice))find("cuDevicePrimaryCtxRetain", 7000, 0))(&context,
                                                                                         device));
    MUST(((CUresult(*)(CUcontext))find("cuCtxSetCurrent", 4000, 0))(context));
    MUST(((CUresult(*)(void))find("cuCtxSynchronize", 2000, 0))());
    MUST(((CUresult(*)(CUcontext))find("cuCtxSynchronize", 13000, 0))(context));
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))find("cuMemAlloc", 3020, 0);
    CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))find("cuMemFree", 13000, 0);
    MUST(alloc(&a, 12345));
    MUST(release(a));
    printf("old and new cuMemAlloc are the same: %d\n",
           find("cuMemAlloc", 2000, 0) == (void *)(uintptr_t)alloc);
    find("cuMemAllocAsync", 11020, 0);
    find("cuMemAllocAsync", 11020, 2);
    find("cuMemAllocAsync", 11010, 0);
    find("cuStreamBeginCapture", 10000, 0);
    find("cuStreamBeginCapture", 10010, 2);
    find("cuNoSuchFunction", 13000, 0);
    find("cuGetProcAddress", 11030, 0);
    find("cuGetProcAddress", 12000, 0);
    get2("cuGetProcAddress", &again, 12000, 0, NULL);
    printf("the one it returns is itself: %d\n", again == (void *)(uintptr_t)get2);
    return 0;
}
