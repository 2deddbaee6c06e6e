/* A program that makes a memory pool of its own the device's: stream-ordered blocks come from it.
 */
#include "driver.h"

static CUmemoryPool own;

static void show(const char *when)
{
    cuuint64_t used = 0;
    MUST(cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    printf("%s: used %llu\n", when, (unsigned long long)used);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr a, b;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    SHOW(cuMemAllocAsync(&a, 10000, NULL));
    SHOW(cuMemPoolCreate(&own, &properties));
    SHOW(cuDeviceSetMemPool(device, own));
    show("set");
    SHOW(cuMemAllocAsync(&b, 10000, NULL));
    show("a block");
    SHOW(cuMemFreeAsync(a, NULL));
    SHOW(cuMemFreeAsync(b, NULL));
    SHOW(cuCtxSynchronize());
    show("none");
    return 0;
}
