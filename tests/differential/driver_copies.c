/* driver_copies.c - copies and fills of every shape, over the ends of blocks, and from and to what
 * is no block; textures and surfaces on linear memory. By the driver API.
 *
 * Whatever may write over a block's end comes in a process of its own, with nothing beside it.
 * What it leaves out: copies between devices (driver_contexts.c).
 */
#include "differential.h"

static unsigned char host[1 << 20], back[1 << 20];

static unsigned content(const unsigned char *bytes, size_t count)
{
    unsigned sum = 1;
    for (size_t i = 0; i < count; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static void content_said(CUdeviceptr address, size_t bytes)
{
    memset(back, 0, bytes);
    CUresult result = d.cuMemcpyDtoH(back, address, bytes);
    say("content %d %08x", (int)result, content(back, bytes));
}

static void linear_copies(CUdeviceptr a, CUdeviceptr b, size_t bytes)
{
    CUstream stream;
    MUST(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    scope("linear, %zu", bytes);
    DR(d.cuMemcpyHtoD(a, host, bytes));
    content_said(a, bytes);
    DR(d.cuMemcpyDtoD(b, a, bytes));
    DR(d.cuCtxSynchronize());
    content_said(b, bytes);
    DR(d.cuMemsetD8(a, 7, bytes));
    DR(d.cuMemcpy(b, a, bytes));
    DR(d.cuCtxSynchronize());
    content_said(b, bytes);
    DR(d.cuMemcpy(a, ADDRESS(host), bytes));
    content_said(a, bytes);
    DR(d.cuMemcpy(ADDRESS(back), a, bytes));
    DR(d.cuMemcpyHtoDAsync(b, host, bytes, stream));
    DR(d.cuStreamSynchronize(stream));
    content_said(b, bytes);
    DR(d.cuMemcpyDtoDAsync(a, b, bytes, stream));
    DR(d.cuMemcpyAsync(b, a, bytes, stream));
    DR(d.cuMemsetD8Async(a, 9, bytes, stream));
    DR(d.cuMemcpyDtoHAsync(back, a, bytes, stream));
    DR(d.cuStreamSynchronize(stream));
    content_said(a, bytes);
    DR(d.cuMemcpyDtoD(a, a, bytes));
    DR(d.cuMemcpyDtoD(a + bytes / 2, a, bytes / 2));
    DR(d.cuCtxSynchronize());
    DR(d.cuStreamDestroy(stream));
}

static void fills(CUdeviceptr a, size_t bytes)
{
    scope("fills, %zu", bytes);
    DR(d.cuMemsetD8(a, 1, bytes));
    content_said(a, bytes);
    DR(d.cuMemsetD16(a, 0x1234, bytes / 2));
    content_said(a, bytes);
    DR(d.cuMemsetD32(a, 0x12345678, bytes / 4));
    content_said(a, bytes);
    DR(d.cuMemsetD16(a + 1, 0x1234, 1));
    DR(d.cuMemsetD32(a + 2, 0x12345678, 1));
    DR(d.cuMemsetD8(a, 1, 0));
    DR(d.cuMemsetD8(0, 1, 0));
    DR(d.cuMemsetD8(0, 1, 1));
    DR(d.cuMemsetD32Async(a, 5, bytes / 4, NULL));
    DR(d.cuMemsetD8(a, 1, (size_t)1 << 50));
    content_said(a, bytes);
    if (!HAS(cuMemsetD2D8))
        return;
    DR(d.cuMemsetD2D8(a, 64, 3, 32, bytes / 64));
    content_said(a, bytes);
    DR(d.cuMemsetD2D16(a, 64, 3, 16, bytes / 64));
    DR(d.cuMemsetD2D32(a, 64, 3, 8, bytes / 64));
    content_said(a, bytes);
    DR(d.cuMemsetD2D8(a, 16, 3, 32, 4));
    DR(d.cuMemsetD2D8(a, 64, 3, 0, 4));
    DR(d.cuMemsetD2D8(a, 64, 3, 32, 0));
    DR(d.cuMemsetD2D32(a + 2, 64, 3, 8, 1));
}

static void pitched_copies(CUdeviceptr a, CUdeviceptr b, size_t bytes)
{
    CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = 100,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = a,
                        .dstPitch = 128,
                        .WidthInBytes = 100,
                        .Height = bytes / 128};
    CUDA_MEMCPY2D across = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                            .srcDevice = a,
                            .srcPitch = 128,
                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .dstDevice = b,
                            .dstPitch = 256,
                            .WidthInBytes = 100,
                            .Height = bytes / 256};
    scope("2D, %zu", bytes);
    if (HAS(cuMemcpy2D)) {
        DR(d.cuMemcpy2D(&to));
        content_said(a, bytes);
        DR(d.cuMemcpy2DUnaligned(&to));
        DR(d.cuMemcpy2D(&across));
        DR(d.cuCtxSynchronize());
        to.dstPitch = 50;
        DR(d.cuMemcpy2D(&to));
        to.dstPitch = 128;
        to.WidthInBytes = 0;
        DR(d.cuMemcpy2D(&to));
        to.WidthInBytes = 100;
        to.dstXInBytes = 10;
        to.dstY = 1;
        to.Height = bytes / 128 - 1;
        to.dstXInBytes = 10;
        DR(d.cuMemcpy2D(&to));
        content_said(a, bytes);
        to.dstDevice = 0;
        DR(d.cuMemcpy2D(&to));
    }
    if (HAS(cuMemcpy3D)) {
        CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = host,
                             .srcPitch = 32,
                             .srcHeight = 4,
                             .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                             .dstDevice = a,
                             .dstPitch = 32,
                             .dstHeight = 4,
                             .WidthInBytes = 32,
                             .Height = 4,
                             .Depth = bytes / 128};
        scope("3D, %zu", bytes);
        DR(d.cuMemcpy3D(&box));
        content_said(a, bytes);
        box.dstZ = 1;
        box.Depth = bytes / 128 - 1;
        DR(d.cuMemcpy3D(&box));
        content_said(a, bytes);
    }
}

static void foreign_copies(CUdeviceptr a)
{
    struct foreign list[FOREIGN_MAX];
    int count = foreign_make(list);
    DR(d.cuMemsetD8(a, 3, 1000));
    for (int i = 0; i < count; i++) {
        CUdeviceptr other = list[i].address;
        bool host_address = i < 4; /* what the driver does not know may be read as the host's */
        scope("copy and %s", list[i].kind);
        DR(d.cuMemcpyDtoD(a, other, 0));
        if (host_address && i < 3) {
            DR(d.cuMemcpyDtoD(other, a, 16));
            DR(d.cuMemcpyDtoD(a, other, 16));
            DR(d.cuMemcpyDtoH(back, other, 16));
            DR(d.cuMemcpyHtoD(other, host, 16));
            DR(d.cuMemsetD8(other, 1, 16));
            continue;
        }
        if (i != 3) {
            DR(d.cuMemcpyDtoD(other, a, 16));
            DR(d.cuMemcpyDtoD(a, other, 16));
            DR(d.cuMemsetD8(other, 1, 16));
        }
        DR(d.cuMemcpy(other, a, 16));
        DR(d.cuMemcpy(a, other, 16));
        DR(d.cuCtxSynchronize());
    }
    scope("NULL on the host");
    DR(d.cuMemcpyHtoD(a, NULL, 0));
    DR(d.cuMemcpyHtoD(a, NULL, 16));
    DR(d.cuMemcpyDtoH(NULL, a, 16));
}

void driver_copies(void)
{
    static const size_t some[] = {1024, 65536, MIB};
    context_make();
    for (size_t i = 0; i < sizeof(host); i++)
        host[i] = (unsigned char)(i * 7 + i / 256);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr a = block_make("A", some[i]), b = block_make("B", some[i]);
        linear_copies(a, b, some[i]);
        fills(a, some[i]);
        pitched_copies(a, b, some[i]);
        scope("ends, %zu", some[i]);
        DR(d.cuMemFree(a));
        DR(d.cuMemFree(b));
    }
    foreign_copies(block_make("A", 1000));
}

/* Reads over the end of a block, then writes: first within the 512 bytes that every block takes. */
static void over_the_end(CUdeviceptr a, size_t bytes, size_t more)
{
    size_t all = bytes + more;
    scope("%zu bytes more than %zu", more, bytes);
    if (all <= sizeof(back)) {
        DR(d.cuMemcpyDtoH(back, a, all));
        DR(d.cuMemcpyDtoH(back, a + bytes - 1, more + 1));
        DR(d.cuMemcpyDtoHAsync(back, a, all, NULL));
        DR(d.cuMemcpyHtoD(a, host, all));
        DR(d.cuMemcpy(a, ADDRESS(host), all));
        DR(d.cuMemcpyHtoDAsync(a, host, all, NULL));
    }
    DR(d.cuMemsetD8(a, 1, all));
    DR(d.cuMemsetD8(a + bytes - 1, 1, more + 1));
    DR(d.cuMemsetD8Async(a, 1, all, NULL));
    DR(d.cuMemsetD32(a, 1, all / 4 + 1));
    DR(d.cuCtxSynchronize());
    if (HAS(cuMemsetD2D8))
        DR(d.cuMemsetD2D8(a, 64, 3, 32, all / 64 + 1));
    if (HAS(cuMemcpy2D)) {
        CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = host,
                            .srcPitch = 64,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = a,
                            .dstPitch = 64,
                            .WidthInBytes = 64,
                            .Height = all / 64 + 1};
        if (all < sizeof(host)) /* where it is taken, it is read */
            DR(d.cuMemcpy2D(&to));
    }
    DR(d.cuCtxSynchronize());
}

void driver_ends(void)
{
    static const size_t some[] = {1000, 65000};
    context_make();
    for (int i = 0; i < 2; i++) {
        CUdeviceptr a = block_make("A", some[i]), b = block_make("B", some[i]);
        over_the_end(a, some[i], 1);
        over_the_end(a, some[i], 8);
        scope("copy between, over %zu", some[i]);
        DR(d.cuMemcpyDtoD(b, a, some[i] + 1));
        DR(d.cuMemcpyDtoD(a, b + some[i] - 1, 2));
        DR(d.cuMemcpyDtoH(back, a + some[i], 1));
        DR(d.cuMemcpyHtoD(a + some[i], host, 1));
        DR(d.cuMemsetD8(a + some[i], 1, 1));
        DR(d.cuCtxSynchronize());
    }
}

/* Far over the end, before the beginning, and what was freed. Nothing is freed after it. */
void driver_beyond(void)
{
    static const size_t some[] = {1000, 40000, MIB + 1, 40 * MIB};
    context_make();
    for (int i = 0; i < 4; i++) {
        CUdeviceptr a = block_make("A", some[i]);
        over_the_end(a, some[i], 4096);
        over_the_end(a, some[i], 64 * MIB);
        over_the_end(a, some[i], 200 * GIB);
        scope("before %zu", some[i]);
        DR(d.cuMemcpyDtoH(back, a - 256 * GIB, 16));
        scope("freed %zu", some[i]);
        DR(d.cuMemFree(a));
        block_ended(a);
        DR(d.cuMemcpyDtoH(back, a, 16));
        DR(d.cuMemcpyDtoHAsync(back, a, 16, NULL));
        DR(d.cuMemcpyHtoD(a, host, 16));
        DR(d.cuMemcpyDtoD(a, a, 16));
        DR(d.cuMemsetD8(a, 1, 16));
        DR(d.cuMemsetD8Async(a, 1, 16, NULL));
        DR(d.cuCtxSynchronize());
    }
}

/* Copies that find out by themselves what an address is. What the driver does not know, it may take
 * for the host's and read it: the last subject to end by a signal. */
void driver_unified(void)
{
    context_make();
    CUdeviceptr a = block_make("A", 1000), b = block_make("B", 40 * MIB);
    scope("unified copy");
    DR(d.cuMemcpy(a, b, 1001));
    DR(d.cuMemcpy(b, a, 1001));
    DR(d.cuMemcpy(a + 1000, b, 1));
    DR(d.cuMemcpy(b, a + 1000, 1));
    DR(d.cuCtxSynchronize());
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(b));
    scope("unified copy, freed");
    DR(d.cuMemcpy(ADDRESS(back), a, 16));
    DR(d.cuMemcpy(ADDRESS(back), b, 16));
    DR(d.cuMemcpy(a, ADDRESS(back), 16));
    DR(d.cuCtxSynchronize());
}

/* --- textures, surfaces, arrays
 * --------------------------------------------------------------------- */

static void texture_linear(CUdeviceptr address, size_t bytes, const char *what)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUDA_TEXTURE_DESC texture = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}};
    CUtexObject object;
    resource.res.linear.devPtr = address;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = bytes;
    scope("linear texture on %s", what);
    if (DR(d.cuTexObjectCreate(&object, &resource, &texture, NULL)) == CUDA_SUCCESS)
        DR(d.cuTexObjectDestroy(object));
}

static void texture_pitched(CUdeviceptr address, size_t pitch, const char *what)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    CUDA_TEXTURE_DESC texture = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}};
    CUtexObject object;
    resource.res.pitch2D.devPtr = address;
    resource.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
    resource.res.pitch2D.numChannels = 4;
    resource.res.pitch2D.width = 64;
    resource.res.pitch2D.height = 8;
    resource.res.pitch2D.pitchInBytes = pitch;
    scope("pitched texture on %s", what);
    if (DR(d.cuTexObjectCreate(&object, &resource, &texture, NULL)) == CUDA_SUCCESS)
        DR(d.cuTexObjectDestroy(object));
}

static void arrays(CUdeviceptr a)
{
    CUDA_ARRAY_DESCRIPTOR shape = {
        .Width = 256, .Height = 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    CUarray array;
    scope("array");
    if (DR(d.cuArrayCreate(&array, &shape)) != CUDA_SUCCESS)
        return;
    if (HAS(cuMemcpyDtoA)) {
        DR(d.cuMemcpyDtoA(array, 0, a, 256));
        DR(d.cuMemcpyAtoD(a, array, 0, 256));
        DR(d.cuMemcpyDtoA(array, 0, a, 257));
        DR(d.cuMemcpyDtoA(array, 0, a + 5000, 16));
    }
    if (HAS(cuSurfObjectCreate)) {
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
        CUsurfObject surface;
        resource.res.array.hArray = array;
        if (DR(d.cuSurfObjectCreate(&surface, &resource)) == CUDA_SUCCESS)
            DR(d.cuSurfObjectDestroy(surface));
        resource.resType = CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear.devPtr = a;
        resource.res.linear.format = CU_AD_FORMAT_FLOAT;
        resource.res.linear.numChannels = 1;
        resource.res.linear.sizeInBytes = 1000;
        DR(d.cuSurfObjectCreate(&surface, &resource));
    }
    DR(d.cuArrayDestroy(array));
}

void driver_textures(void)
{
    CUdeviceptr blocks[20], pitched = 0;
    size_t pitch = 0;
    char text[40];
    context_make();
    for (int i = 0; i < 20; i++)
        blocks[i] = block_make("A", (size_t)(i * 777 + 1000));
    for (int i = 0; i < 20 && HAS(cuTexObjectCreate); i++) {
        snprintf(text, sizeof(text), "block %d", i);
        texture_linear(blocks[i], 1000, text);
    }
    if (HAS(cuTexObjectCreate)) {
        texture_linear(blocks[0] + 4, 900, "an address inside");
        texture_linear(blocks[0] + 512, 400, "512 bytes inside");
        texture_linear(blocks[0], 5000, "more than the block");
        texture_linear(blocks[0], 0, "nothing");
        texture_linear(0, 1000, "NULL");
        texture_linear(0x1000, 1000, "no memory");
        MUST(d.cuMemAllocPitch(&pitched, &pitch, 256, 8, 4));
        texture_pitched(pitched, pitch, "a pitched block");
        texture_pitched(pitched, pitch - 1, "a pitch less by one");
        texture_pitched(pitched + 4, pitch, "an address inside");
        texture_pitched(pitched, 32, "a pitch of 32");
        DR(d.cuMemFree(blocks[1]));
        texture_linear(blocks[1], 1000, "a freed block");
    }
    arrays(block_make("B", 1000));
}
