/* cuMemFree of addresses that no cuMemAlloc of the library gave: each gets the driver's own answer,
 * once, inside and twice, and nothing is left behind. Card: 64 MiB.
 */
#include "driver.h"
#include "../sim/vrsim.h"

#include <sys/mman.h>
#include <unistd.h>

static void live(const char *when)
{
    struct vrsim_live now;
    vrsim_live(&now);
    printf("%s: %d ordered, %d managed, %d host, %d mapped of %d external\n", when,
           (int)now.ordered_blocks, (int)now.managed_blocks, (int)now.host_blocks,
           (int)now.external_blocks, (int)now.externals);
}

static void free_thrice(const char *what, CUdeviceptr address)
{
    printf("%s\n", what);
    SHOW(cuMemFree(address + 512));
    live("  after a free inside");
    SHOW(cuMemFree(address));
    live("  after a free");
    SHOW(cuMemFree(address));
    SHOW(cuMemFreeAsync(address, NULL));
}

static CUdeviceptr from_before(size_t bytes)
{
    CUdeviceptr address = 0;
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))vrsim_function("cuMemAlloc_v2");
    MUST(alloc(&address, bytes));
    return address;
}

static CUdeviceptr from_outside(CUexternalMemory *memory)
{
    CUdeviceptr address;
    int file = memfd_create("external", MFD_CLOEXEC);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = file, .size = 1 << 20};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 65536, .size = 131072};
    if (ftruncate(file, 1 << 20) != 0)
        exit(3);
    SHOW(cuImportExternalMemory(memory, &description));
    SHOW(cuExternalMemoryGetMappedBuffer(&address, *memory, &buffer));
    return address;
}

static CUdeviceptr from_pool(CUmemoryPool *pool)
{
    CUdeviceptr address;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    MUST(cuMemPoolCreate(pool, &properties));
    MUST(cuMemAllocFromPoolAsync(&address, 5000, *pool, NULL));
    return address;
}

/* Memory by handle: unmapped, never freed. */
static void by_handle(void)
{
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    MUST(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
    MUST(cuMemCreate(&handle, 2 * MIB, &properties, 0));
    MUST(cuMemMap(address, 2 * MIB, 0, handle, 0));
    MUST(cuMemRelease(handle));
    printf("by handle\n");
    SHOW(cuMemFree(address));
    SHOW(cuMemUnmap(address, 2 * MIB));
    SHOW(cuMemFree(address));
    SHOW(cuMemAddressFree(address, 2 * MIB));
}

static void array(void)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR description = {640, 64, CU_AD_FORMAT_FLOAT, 1};
    SHOW(cuArrayCreate(&array, &description));
    printf("an array's handle\n");
    SHOW(cuMemFree((CUdeviceptr)(uintptr_t)array));
    SHOW(cuMemFreeAsync((CUdeviceptr)(uintptr_t)array, NULL));
    SHOW(cuArrayDestroy(array));
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUdeviceptr a, ordinary;
    CUexternalMemory external;
    CUmemoryPool pool;
    void *host;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuMemAlloc(&ordinary, 5000));
    live("at first");
    free_thrice("from before", from_before(5000));
    free_thrice("from before, large", from_before(5 * MIB));
    MUST(cuMemAllocManaged(&a, 5000, CU_MEM_ATTACH_GLOBAL));
    free_thrice("managed", a);
    free_thrice("external", from_outside(&external));
    SHOW(cuDestroyExternalMemory(external));
    free_thrice("from a pool", from_pool(&pool));
    SHOW(cuMemPoolDestroy(pool));
    MUST(cuMemHostAlloc(&host, 5000, 0));
    free_thrice("host", (CUdeviceptr)(uintptr_t)host);
    SHOW(cuMemFreeHost(host));
    by_handle();
    array();
    MUST(cuMemAllocAsync(&a, 5000, NULL));
    printf("stream-ordered\n");
    SHOW(cuMemFree(a + 512));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(a));
    SHOW(cuMemFree(ordinary));
    SHOW(cuCtxSynchronize());
    live("at last");
    SHOW(cuMemAlloc(&a, 64 * MIB)); /* the whole card: nothing is left on it */
    SHOW(cuMemFree(a));
    return 0;
}
