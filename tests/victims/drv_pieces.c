/* What the driver says about stream-ordered blocks. */
#include "driver.h"

static void show(CUdeviceptr block, CUmemoryPool pool)
{
    CUmemoryPool handle = NULL;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    unsigned capable = 9;
    CUipcMemHandle ipc;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    void *data[] = {&handle, &capable};
    SHOW(cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
    printf("the default pool's: %d\n", handle == pool);
    SHOW(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, block));
    printf("IPC capable: %u\n", capable);
    handle = NULL;
    capable = 9;
    SHOW(cuPointerGetAttributes(2, which, data, block));
    printf("the default pool's: %d, IPC capable: %u\n", handle == pool, capable);
    SHOW(cuMemGetAddressRange(&base, &bytes, block + 5));
    printf("base %d, %zu bytes\n", base == block, bytes);
    SHOW(cuIpcGetMemHandle(&ipc, block));
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr a, b;
    CUmemoryPool pool;
    CUctxCreateParams params = {0};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuDeviceGetDefaultMemPool(&pool, device));
    MUST(cuMemAllocAsync(&a, 10000, NULL));
    MUST(cuMemAllocAsync(&b, 40 * MIB, NULL));
    MUST(cuCtxSynchronize());
    show(a, pool);
    show(b, pool);
    MUST(cuMemFreeAsync(a, NULL));
    MUST(cuMemFree(b));
    return 0;
}
