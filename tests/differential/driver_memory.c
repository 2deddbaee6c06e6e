/* driver_memory.c - allocation, free and what is told of an address, by the driver API.
 *
 * What it leaves out: stream-ordered memory (driver_async.c), several contexts (driver_contexts.c).
 */
#include "differential.h"

static const size_t sizes[] = {
    1,       2,       255,         256,         257,      511,          512,      513,     1000,
    4096,    8191,    8192,        8193,        65535,    65536,        65537,    MIB - 1, MIB,
    MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB + 5, 31 * MIB, 32 * MIB + 1, 100 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void allocate_edges(void)
{
    CUdeviceptr a = 77;
    scope("edges");
    DR(d.cuMemAlloc(NULL, 100));
    DR(d.cuMemAlloc(NULL, 0));
    DR(d.cuMemAlloc(&a, 0));
    say("output untouched %d", a == 77);
    static const size_t huge[] = {(size_t)1 << 45, (size_t)1 << 62, SIZE_MAX / 2,
                                  SIZE_MAX - 4095, SIZE_MAX - 1,    SIZE_MAX};
    for (int i = 0; i < 6; i++) {
        scope("huge %d", i);
        a = 77;
        DR(d.cuMemAlloc(&a, huge[i]));
        say("output untouched %d", a == 77);
    }
}

static void free_edges(void)
{
    scope("free");
    CUdeviceptr a = block_make("A", 1000), large = block_make("large", 40 * MIB);
    DR(d.cuMemFree(0));
    DR(d.cuMemFree(1));
    DR(d.cuMemFree(a + 1));
    DR(d.cuMemFree(a + 512));
    DR(d.cuMemFree(a + 999));
    DR(d.cuMemFree(a - 512));
    DR(d.cuMemFree(large + MIB));
    DR(d.cuMemFree(~(CUdeviceptr)0));
    DR(d.cuMemFree(ADDRESS(&a)));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
    DR(d.cuMemFree(large));
    DR(d.cuMemFree(large + MIB));
}

static void free_foreign(void)
{
    struct foreign list[FOREIGN_MAX];
    int count = foreign_make(list);
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].kind, "mapped") == 0 && list[i].address == 0)
            continue;
        scope("free of %s", list[i].kind);
        DR(d.cuMemFree(list[i].address + 1));
        DR(d.cuMemFree(list[i].address));
        if (list[i].address != 0)
            DR(d.cuMemFree(list[i].address));
    }
}

static void pitched(void)
{
    static const size_t widths[] = {0,    1,    4,     511,      512,         513,
                                    1000, 4096, 70000, SIZE_MAX, SIZE_MAX / 2};
    static const size_t heights[] = {0, 1, 7, 1000, SIZE_MAX};
    static const unsigned elements[] = {0, 1, 2, 4, 8, 16, 32};
    CUdeviceptr a = 77;
    size_t pitch = 99;
    scope("pitch, no output");
    DR(d.cuMemAllocPitch(NULL, &pitch, 100, 10, 4));
    DR(d.cuMemAllocPitch(&a, NULL, 100, 10, 4));
    for (int w = 0; w < 11; w++)
        for (int h = 0; h < 5; h++) {
            a = 77, pitch = 99;
            scope("pitch %d %d", w, h);
            CUresult result = DR(d.cuMemAllocPitch(&a, &pitch, widths[w], heights[h], 4));
            if (result == CUDA_SUCCESS) {
                size_t range = 0;
                block_named("P", a, pitch * heights[h]);
                say("pitch %zu, aligned %d", pitch, a % 512 == 0);
                DR(d.cuMemGetAddressRange(NULL, &range, a));
                say("range %zu", range);
                DR(d.cuMemFree(a));
                block_ended(a);
            }
        }
    for (int e = 0; e < 7; e++) {
        a = 0, pitch = 0;
        scope("pitch, element %u", elements[e]);
        if (DR(d.cuMemAllocPitch(&a, &pitch, 1000, 10, elements[e])) == CUDA_SUCCESS) {
            say("pitch %zu", pitch);
            d.cuMemFree(a);
        }
    }
}

void driver_allocate(void)
{
    CUdeviceptr blocks[SIZES];
    scope("no init");
#ifndef WITH_RUNTIME
    DR(d.cuMemAlloc(&blocks[0], 100));
    DR(d.cuMemFree(0));
    DR(d.cuMemFree(0x7f0000000000));
#endif
    context_make();
    for (int i = 0; i < SIZES; i++) {
        scope("%zu bytes", sizes[i]);
        DR(d.cuMemAlloc(&blocks[i], sizes[i]));
        say("aligned to 256: %d, to 512: %d", blocks[i] % 256 == 0, blocks[i] % 512 == 0);
        if (sizes[i] > MIB)
            say("aligned to 2 MiB: %d", blocks[i] % (2 * MIB) == 0);
        DR(d.cuMemsetD8(blocks[i], (unsigned char)i, sizes[i]));
    }
    for (int i = 0; i < SIZES; i++) {
        unsigned char first = 0, last = 0;
        scope("%zu bytes", sizes[i]);
        DR(d.cuMemcpyDtoH(&first, blocks[i], 1));
        DR(d.cuMemcpyDtoH(&last, blocks[i] + sizes[i] - 1, 1));
        say("content %d", first == i && last == i);
        DR(d.cuMemFree(blocks[i]));
    }
    allocate_edges();
    free_edges();
    free_foreign();
    pitched();
}

/* --- ranges ---------------------------------------------------------------------------------- */

static void range_at(CUdeviceptr address)
{
    CUdeviceptr base = 77;
    size_t bytes = 99;
    CUresult result = DR(d.cuMemGetAddressRange(&base, &bytes, address));
    say("base %s bytes %zu", base == 77 ? "untouched" : where(base), bytes);
    base = 77, bytes = 99;
    if (result == CUDA_SUCCESS) {
        DR(d.cuMemGetAddressRange(NULL, &bytes, address));
        DR(d.cuMemGetAddressRange(&base, NULL, address));
        say("base %s bytes %zu", where(base), bytes);
    }
    DR(d.cuMemGetAddressRange(NULL, NULL, address));
}

static void *range_elsewhere(void *address)
{
    scope("range, thread without context");
    range_at(*(CUdeviceptr *)address);
    return NULL;
}

void driver_ranges(void)
{
    struct foreign list[FOREIGN_MAX];
    CUdeviceptr a;
    context_make();
    for (int i = 0; i < SIZES; i++) {
        scope("range of %zu", sizes[i]);
        a = block_make("A", sizes[i]);
        range_at(a);
        range_at(a + sizes[i] / 2);
        range_at(a + sizes[i] - 1);
        if (sizes[i] % 512 != 0) {
            scope("range one past %zu", sizes[i]);
            range_at(a + sizes[i]);
            range_at((a + sizes[i]) | 511);
        }
        scope("range of freed %zu", sizes[i]);
        d.cuMemFree(a);
        block_ended(a);
        range_at(a);
        range_at(a + sizes[i] / 2);
    }
    int count = foreign_make(list);
    for (int i = 0; i < count; i++) {
        scope("range of %s", list[i].kind);
        range_at(list[i].address);
        range_at(list[i].address + 5);
    }
    a = block_make("B", 1000);
    in_thread(range_elsewhere, &a);
}

/* --- attributes ----------------------------------------------------------------------------------
 */

enum { ATTRIBUTE_LAST = 23, ATTRIBUTE_BYTES = 64 };

static unsigned long long as_number(const unsigned char *data, int bytes)
{
    unsigned long long number = 0;
    memcpy(&number, data, (size_t)bytes);
    return number;
}

static const char *pool_text(unsigned long long handle)
{
    CUmemoryPool pool = NULL;
    if (HAS(cuDeviceGetDefaultMemPool))
        d.cuDeviceGetDefaultMemPool(&pool, 0);
    return handle == 0 ? "none" : handle == (uintptr_t)pool ? "the default one" : "another";
}

static const char *context_text(unsigned long long handle)
{
    CUcontext current = NULL;
    d.cuCtxGetCurrent(&current);
    return handle == 0 ? "none" : handle == (uintptr_t)current ? "the current one" : "another";
}

static void attribute_said(int attribute, const unsigned char *data)
{
    unsigned long long wide = as_number(data, 8);
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        say("  attribute %d: %s", attribute, context_text(wide));
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        say("  attribute %d: %s", attribute, where(wide));
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        say("  attribute %d: %llu", attribute, wide);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        say("  attribute %d: %s", attribute, pool_text(wide));
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        say("  attribute %d: %s", attribute, wide == 0 ? "0" : "a number");
        break;
    default:
        say("  attribute %d: %llu", attribute, as_number(data, 4));
    }
}

/* How many bytes an answer took, seen by what it changed of two fillings. */
static void attribute_one(int attribute, CUdeviceptr address)
{
    unsigned char data[ATTRIBUTE_BYTES], other[ATTRIBUTE_BYTES];
    memset(data, 0xaa, sizeof(data));
    memset(other, 0x55, sizeof(other));
    CUresult result = d.cuPointerGetAttribute(data, (CUpointer_attribute)attribute, address);
    d.cuPointerGetAttribute(other, (CUpointer_attribute)attribute, address);
    int bytes = 0;
    for (int i = 0; i < ATTRIBUTE_BYTES; i++)
        if (data[i] != 0xaa || other[i] != 0x55)
            bytes = i + 1;
    say("attribute %d -> %d, %d bytes", attribute, (int)result, bytes);
    if (bytes < 8)
        memset(data + bytes, 0, (size_t)(8 - bytes));
    if (result == CUDA_SUCCESS && bytes > 0)
        attribute_said(attribute, data);
}

static void attributes_together(CUdeviceptr address)
{
    unsigned char data[ATTRIBUTE_LAST + 1][ATTRIBUTE_BYTES];
    CUpointer_attribute which[ATTRIBUTE_LAST + 1];
    void *places[ATTRIBUTE_LAST + 1];
    unsigned int count = 0;
    memset(data, 0, sizeof(data));
    for (int i = 1; i <= CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID; i++) {
        if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
            continue;
        which[count] = (CUpointer_attribute)i;
        places[count] = data[count];
        count++;
    }
    CUresult result = DR(d.cuPointerGetAttributes(count, which, places, address));
    for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
        attribute_said((int)which[i], data[i]);
}

static void attributes_at(CUdeviceptr address)
{
    for (int attribute = 0; attribute <= ATTRIBUTE_LAST; attribute++)
        attribute_one(attribute, address);
    attribute_one(99, address);
    attribute_one(-1, address);
    attributes_together(address);
}

static void attribute_edges(CUdeviceptr a)
{
    unsigned char data[ATTRIBUTE_BYTES];
    CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE, bad = (CUpointer_attribute)99;
    CUpointer_attribute two[2] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, bad};
    void *place = data, *places[2] = {data, data + 32};
    scope("attribute edges");
    DR(d.cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    DR(d.cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_RANGE_SIZE, a));
    DR(d.cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
    DR(d.cuPointerGetAttributes(0, &type, &place, a));
    DR(d.cuPointerGetAttributes(1, NULL, &place, a));
    DR(d.cuPointerGetAttributes(1, &type, NULL, a));
    DR(d.cuPointerGetAttributes(1, &bad, &place, a));
    DR(d.cuPointerGetAttributes(2, two, places, a));
}

static void attribute_set(const char *kind, CUdeviceptr address)
{
    unsigned int on = 1, off = 0, wrong = 7, value = 5;
    scope("set attribute of %s", kind);
    DR(d.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    if (DR(d.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address)) ==
        CUDA_SUCCESS)
        say("it is %u", value);
    DR(d.cuPointerSetAttribute(&wrong, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    DR(d.cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    if (DR(d.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address)) ==
        CUDA_SUCCESS)
        say("it is %u", value);
    DR(d.cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    DR(d.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    DR(d.cuPointerSetAttribute(&on, (CUpointer_attribute)99, address));
}

/* SYNC_MEMOPS is a block's own: its neighbour and whoever has its memory next do not have it. */
static void attribute_set_is_own(void)
{
    unsigned int on = 1, value = 5;
    scope("SYNC_MEMOPS is a block's own");
    CUdeviceptr a = block_make("A", 1000), b = block_make("B", 1000);
    DR(d.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    if (DR(d.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a + 999)) ==
        CUDA_SUCCESS)
        say("the block %u", value);
    if (DR(d.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b)) == CUDA_SUCCESS)
        say("its neighbour %u", value);
    DR(d.cuMemFree(a));
    block_ended(a);
    DR(d.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    CUdeviceptr again = block_make("again", 1000);
    if (DR(d.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, again)) ==
        CUDA_SUCCESS)
        say("the next block %u", value);
    DR(d.cuMemFree(again));
    DR(d.cuMemFree(b));
}

static void buffer_ids(void)
{
    unsigned long long ids[40] = {0}, inside = 0;
    bool unique = true, nonzero = true;
    scope("buffer ids");
    for (int i = 0; i < 40; i++) {
        CUdeviceptr a = block_make("A", 1000);
        d.cuPointerGetAttribute(&ids[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, a);
        d.cuPointerGetAttribute(&inside, CU_POINTER_ATTRIBUTE_BUFFER_ID, a + 500);
        nonzero = nonzero && ids[i] != 0 && inside == ids[i];
        if (i % 2 == 0)
            d.cuMemFree(a);
        block_ended(a);
    }
    for (int i = 0; i < 40; i++)
        for (int k = 0; k < i; k++)
            unique = unique && ids[i] != ids[k];
    say("unique %d, the same inside %d", unique, nonzero);
}

static void *attribute_elsewhere(void *address)
{
    scope("attributes, thread without context");
    attributes_at(*(CUdeviceptr *)address);
    return NULL;
}

void driver_attributes(void)
{
    static const size_t some[] = {1000, 8193, MIB + 1, 40 * MIB};
    struct foreign list[FOREIGN_MAX];
    CUdeviceptr a;
    context_make();
    for (int i = 0; i < 4; i++) {
        scope("attributes of %zu", some[i]);
        a = block_make("A", some[i]);
        attributes_at(a);
        scope("attributes inside %zu", some[i]);
        attributes_at(a + some[i] / 2);
        scope("attributes one past %zu", some[i]);
        if (some[i] % 512 != 0)
            attributes_at(a + some[i]);
        attribute_set("a block", a);
        attribute_set("an interior address", a + some[i] / 2);
        scope("attributes of freed %zu", some[i]);
        d.cuMemFree(a);
        block_ended(a);
        attributes_at(a);
        attribute_set("a freed block", a);
    }
    int count = foreign_make(list);
    for (int i = 0; i < count; i++) {
        scope("attributes of %s", list[i].kind);
        if (list[i].address != ~(CUdeviceptr)0) /* the driver names some range below it */
            attributes_at(list[i].address);
        attribute_set(list[i].kind, list[i].address);
    }
    a = block_make("E", 1000);
    attribute_edges(a);
    in_thread(attribute_elsewhere, &a);
    d.cuMemFree(a);
    attribute_set_is_own();
    buffer_ids();
}

/* --- handles and access
 * ---------------------------------------------------------------------------- */

static void handle_of_range(const char *kind, CUdeviceptr address, size_t bytes)
{
    int file = -1;
    scope("dma-buf of %s", kind);
    CUresult result = DR(d.cuMemGetHandleForAddressRange(&file, address, bytes,
                                                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    say("a file %d", file >= 0);
    if (result == CUDA_SUCCESS)
        close(file);
}

static void handles_of_range(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int file;
    CUdeviceptr small = block_make("small", 1000), page_block = block_make("page", 65536);
    CUdeviceptr large = block_make("large", 8 * MIB);
    handle_of_range("1000 bytes", small, 1000);
    handle_of_range("a page of 1000 bytes", small & ~(page - 1), page);
    handle_of_range("64 KiB", page_block, 65536);
    handle_of_range("8 MiB", large, 8 * MIB);
    handle_of_range("the middle of 8 MiB", large + 2 * MIB, 2 * MIB);
    handle_of_range("more than 8 MiB", large, 16 * MIB);
    handle_of_range("nothing", large, 0);
    scope("dma-buf edges");
    DR(d.cuMemGetHandleForAddressRange(NULL, large, 8 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                       0));
    DR(d.cuMemGetHandleForAddressRange(&file, large, 8 * MIB, (CUmemRangeHandleType)99, 0));
    DR(d.cuMemFree(large));
    handle_of_range("freed 8 MiB", large, 8 * MIB);
}

void driver_handles(void)
{
    struct foreign list[FOREIGN_MAX];
    context_make();
    CUdeviceptr small = block_make("small", 1000), large = block_make("large", 64 * MIB);
    int count = foreign_make(list);
    if (HAS(cuMemRetainAllocationHandle)) {
        CUmemGenericAllocationHandle handle;
        scope("allocation handle");
        DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)small));
        DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(small + 512)));
        DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)large));
        DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(large + 2 * MIB)));
        DR(d.cuMemRetainAllocationHandle(&handle, NULL));
        for (int i = 0; i < count; i++) {
            scope("allocation handle of %s", list[i].kind);
            CUresult result =
                DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)list[i].address));
            if (result == CUDA_SUCCESS)
                DR(d.cuMemRelease(handle));
        }
    }
    if (HAS(cuMemGetAccess)) {
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
        unsigned long long flags = 99;
        scope("access");
        DR(d.cuMemGetAccess(&flags, &location, small));
        say("flags %llu", flags);
        DR(d.cuMemGetAccess(&flags, &location, large));
        DR(d.cuMemGetAccess(NULL, &location, large));
        for (int i = 0; i < count; i++) {
            scope("access of %s", list[i].kind);
            flags = 99;
            DR(d.cuMemGetAccess(&flags, &location, list[i].address));
            say("flags %llu", flags);
        }
    }
    if (HAS(cuMemPoolExportPointer)) {
        CUmemPoolPtrExportData data;
        scope("export pointer");
        DR(d.cuMemPoolExportPointer(&data, small));
        DR(d.cuMemPoolExportPointer(&data, large));
    }
    if (HAS(cuMemHostRegister)) {
        void *pointer;
        CUdeviceptr address;
        scope("host calls on device memory");
        DR(d.cuMemHostRegister((void *)(uintptr_t)large, 4096, 0));
        DR(d.cuMemHostUnregister((void *)(uintptr_t)large));
        DR(d.cuMemHostGetDevicePointer(&address, (void *)(uintptr_t)large, 0));
        DR(d.cuMemFreeHost((void *)(uintptr_t)large));
        pointer = aligned_alloc(4096, 65536);
        scope("host registration");
        DR(d.cuMemHostRegister(pointer, 65536, CU_MEMHOSTREGISTER_DEVICEMAP));
        DR(d.cuMemHostRegister(pointer, 65536, 0));
        DR(d.cuMemHostGetDevicePointer(&address, pointer, 0));
        DR(d.cuMemHostUnregister(pointer));
        DR(d.cuMemHostUnregister(pointer));
        free(pointer);
    }
    if (HAS(cuMemGetHandleForAddressRange))
        handles_of_range();
    if (HAS(cuMemSetAccess)) {
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
        scope("set access");
        DR(d.cuMemSetAccess(large, 2 * MIB, &access, 1));
        DR(d.cuMemSetAccess(large, 64 * MIB, &access, 1));
        DR(d.cuMemSetAccess(small, 1000, &access, 1));
        DR(d.cuMemsetD8(large, 1, 64 * MIB));
    }
    scope("unmap");
    DR(d.cuMemUnmap(large, 2 * MIB));
    DR(d.cuMemUnmap(large, 64 * MIB));
    DR(d.cuMemAddressFree(large, 64 * MIB));
    DR(d.cuMemsetD8(large, 1, 64 * MIB));
    scope("after the unmap");
    DR(d.cuMemFree(large));
    DR(d.cuMemAlloc(&large, 64 * MIB));
    DR(d.cuMemsetD8(large, 1, 64 * MIB));
    DR(d.cuMemFree(large));
}

void driver_advice(void)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST, .id = 0};
    struct foreign list[FOREIGN_MAX];
    context_make();
    CUdeviceptr a = block_make("A", 1000), large = block_make("large", 8 * MIB);
    int count = foreign_make(list);
    list[0] = (struct foreign){"a small block", a, 1000};
    list[1] = (struct foreign){"a large block", large, 8 * MIB};
    for (int i = 0; i < count; i++) {
        CUdeviceptr at = list[i].address;
        size_t bytes = list[i].bytes;
        scope("advice on %s", list[i].kind);
        if (HAS(cuMemAdvise)) {
            DR(d.cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
            DR(d.cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
            DR(d.cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
            DR(d.cuMemAdvise(at, 0, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
        }
        if (HAS(cuMemPrefetchAsync)) {
            DR(d.cuMemPrefetchAsync(at, bytes, here, 0, NULL));
            DR(d.cuMemPrefetchAsync(at, bytes, host, 0, NULL));
            DR(d.cuMemPrefetchAsync(at, 0, here, 0, NULL));
        }
        if (HAS(cuMemRangeGetAttribute)) {
            int answer = 99;
            DR(d.cuMemRangeGetAttribute(&answer, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, bytes));
            say("read mostly %d", answer);
        }
        DR(d.cuCtxSynchronize());
    }
}

/* --- figures ------------------------------------------------------------------------------------
 */

void driver_numbers(void)
{
    size_t before, between, after, total, again;
    CUdeviceptr a, small[64];
    context_make();
    scope("memory information");
    DR(d.cuMemGetInfo(NULL, NULL));
    DR(d.cuMemGetInfo(&before, NULL));
    DR(d.cuMemGetInfo(NULL, &total));
    DR(d.cuMemGetInfo(&before, &total));
    say("free at most total %d", before <= total);
    DR(d.cuMemAlloc(&a, 256 * MIB));
    DR(d.cuMemGetInfo(&between, &again));
    say("the same total %d, 256 MiB less free %d", again == total,
        before - between >= 256 * MIB && before - between <= 260 * MIB);
    DR(d.cuMemFree(a));
    DR(d.cuMemGetInfo(&after, NULL));
    say("as free as before, but for 2 MiB: %d", after + 2 * MIB >= before && after <= before);
    for (int i = 0; i < 64; i++)
        d.cuMemAlloc(&small[i], MIB);
    DR(d.cuMemGetInfo(&between, NULL));
    say("64 of 1 MiB: %d", before - between >= 64 * MIB && before - between <= 68 * MIB);
    for (int i = 0; i < 64; i++)
        d.cuMemFree(small[i]);
    DR(d.cuMemGetInfo(&after, NULL));
    say("as free as before, but for 2 MiB: %d", after + 2 * MIB >= before && after <= before);
    scope("all that is free");
    DR(d.cuMemAlloc(&a, after + GIB));
    DR(d.cuMemGetInfo(&after, NULL));
    say("as free as before, but for 2 MiB: %d", after + 2 * MIB >= before && after <= before);
    DR(d.cuMemAlloc(&a, after / 2));
    DR(d.cuMemGetInfo(&between, NULL));
    say("half is left %d", between <= after / 2 && between + 4 * MIB >= after / 2);
    DR(d.cuMemFree(a));
}
