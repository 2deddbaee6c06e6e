/* One block by every way to a function: linked, RTLD_DEFAULT, a handle, cuGetProcAddress. What one
 * way allocated every other way frees. */
#include "driver.h"

typedef CUresult (*allocate)(CUdeviceptr *, size_t);
typedef CUresult (*release)(CUdeviceptr);

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    void *self = dlopen(NULL, RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    allocate alloc[5] = {cuMemAlloc, (allocate)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"),
                         (allocate)dlsym(self, "cuMemAlloc_v2"),
                         (allocate)dlsym(driver, "cuMemAlloc_v2")};
    release free_[5] = {cuMemFree, (release)dlsym(RTLD_DEFAULT, "cuMemFree_v2"),
                        (release)dlsym(self, "cuMemFree_v2"),
                        (release)dlsym(driver, "cuMemFree_v2")};
    MUST(cuInit(0));
    MUST(cuGetProcAddress("cuMemAlloc", (void **)&alloc[4], 12000, 0, NULL));
    MUST(cuGetProcAddress("cuMemFree", (void **)&free_[4], 12000, 0, NULL));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    for (int a = 0; a < 5; a++)
        for (int f = 0; f < 5; f++) {
            CUdeviceptr block = 0;
            int allocated = (int)alloc[a](&block, 5000), freed = (int)free_[f](block);
            int again = (int)free_[f](block);
            printf("allocated by %d: %d, freed by %d: %d, again %d\n", a, allocated, f, freed,
                   again);
        }
    return 0;
}
