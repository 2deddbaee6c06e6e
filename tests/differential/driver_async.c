/* driver_async.c - stream-ordered memory, memory pools, and captures, by the driver API.
 *
 * A second cuMemFreeAsync of a cuMemAlloc block is left out: with it the driver hangs.
 */
#include "differential.h"

static void async_edges(CUstream stream)
{
    CUdeviceptr a = 77;
    scope("async edges");
    DR(d.cuMemAllocAsync(NULL, 100, stream));
    DR(d.cuMemAllocAsync(&a, 0, stream));
    say("output %s", a == 77 ? "untouched" : where(a));
    a = 77;
    DR(d.cuMemAllocAsync(&a, (size_t)1 << 45, stream));
    DR(d.cuMemAllocAsync(&a, SIZE_MAX, stream));
    say("output %s", a == 77 ? "untouched" : where(a));
    DR(d.cuMemFreeAsync(0, stream));
    DR(d.cuMemFreeAsync(1, stream));
    DR(d.cuMemFreeAsync(0x7f0000000000, stream));
    DR(d.cuMemFreeAsync(ADDRESS(&a), stream));
}

static void async_frees(CUstream stream, const char *what)
{
    CUdeviceptr a = 0, b = 0, c = 0, e = 0;
    scope("async, %s", what);
    DR(d.cuMemAllocAsync(&a, 1000, stream));
    DR(d.cuMemAllocAsync(&b, 5 * MIB, stream));
    say("aligned to 256: %d %d", a % 256 == 0, b % 256 == 0);
    DR(d.cuMemsetD8Async(a, 3, 1000, stream));
    DR(d.cuMemFreeAsync(a + 1, stream));
    DR(d.cuMemFreeAsync(a + 512, stream));
    DR(d.cuMemFreeAsync(a, stream));
    DR(d.cuMemFreeAsync(a, stream));
    DR(d.cuMemFree(a));
    DR(d.cuStreamSynchronize(stream));
    DR(d.cuMemFreeAsync(a, stream));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(b));
    DR(d.cuMemFree(b));
    DR(d.cuMemFreeAsync(b, stream));
    scope("async, mixed, %s", what);
    DR(d.cuMemAlloc(&c, 1000));
    DR(d.cuMemFreeAsync(c + 1, stream));
    DR(d.cuMemFreeAsync(c, stream));
    DR(d.cuStreamSynchronize(stream));
    DR(d.cuMemFree(c));
    DR(d.cuMemAllocAsync(&e, 1000, stream));
    DR(d.cuMemFreeAsync(e, NULL));
    DR(d.cuStreamSynchronize(stream));
    DR(d.cuCtxSynchronize());
}

static void async_answers(CUstream stream)
{
    CUdeviceptr a = 0, base = 77;
    size_t bytes = 0;
    unsigned char data[8] = {0};
    static const CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_MAPPED,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    };
    scope("answers for an async block");
    MUST(d.cuMemAllocAsync(&a, 1000, stream));
    MUST(d.cuStreamSynchronize(stream));
    block_named("async", a, 1000);
    DR(d.cuMemGetAddressRange(&base, &bytes, a + 500));
    say("base %s bytes %zu", where(base), bytes);
    for (int i = 0; i < 10; i++) {
        memset(data, 0, sizeof(data));
        CUresult result = d.cuPointerGetAttribute(data, which[i], a);
        unsigned number;
        memcpy(&number, data, 4);
        say("attribute %d -> %d, %u", (int)which[i], (int)result, i == 0 ? data[0] != 0 : number);
    }
    CUmemoryPool pool = NULL, standard = NULL;
    DR(d.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    MUST(d.cuDeviceGetDefaultMemPool(&standard, 0));
    say("pool: %s", pool == NULL ? "none" : pool == standard ? "the default one" : "another");
    unsigned int on = 1;
    DR(d.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    if (HAS(cuIpcGetMemHandle)) {
        CUipcMemHandle handle;
        DR(d.cuIpcGetMemHandle(&handle, a));
        DR(d.cuIpcGetMemHandle(&handle, a + 500));
    }
    if (HAS(cuMemPoolExportPointer)) {
        CUmemPoolPtrExportData exported;
        DR(d.cuMemPoolExportPointer(&exported, a));
    }
    if (HAS(cuMemRetainAllocationHandle)) {
        CUmemGenericAllocationHandle handle;
        DR(d.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)a));
    }
    DR(d.cuMemFreeAsync(a, stream));
    DR(d.cuMemGetAddressRange(&base, &bytes, a));
    DR(d.cuStreamSynchronize(stream));
    DR(d.cuMemGetAddressRange(&base, &bytes, a));
    DR(d.cuPointerGetAttribute(data, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
}

static void *async_without_context(void *block)
{
    CUdeviceptr a = 0;
    scope("async, thread without context");
    DR(d.cuMemAllocAsync(&a, 1000, NULL));
    DR(d.cuMemAllocAsync(&a, 1000, CU_STREAM_PER_THREAD));
    DR(d.cuMemFreeAsync(*(CUdeviceptr *)block, NULL));
    return NULL;
}

static void *async_with_stream_only(void *stream)
{
    CUdeviceptr a = 0;
    scope("async, thread without context, a real stream");
    if (DR(d.cuMemAllocAsync(&a, 1000, (CUstream)stream)) == CUDA_SUCCESS)
        DR(d.cuMemFreeAsync(a, (CUstream)stream));
    return NULL;
}

void driver_async(void)
{
    CUstream stream, ordinary;
    CUdeviceptr a;
    context_make();
    MUST(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(d.cuStreamCreate(&ordinary, CU_STREAM_DEFAULT));
    async_edges(stream);
    async_frees(stream, "a stream");
    async_frees(ordinary, "a blocking stream");
    async_frees(NULL, "NULL");
    async_frees(CU_STREAM_LEGACY, "the legacy stream");
    async_frees(CU_STREAM_PER_THREAD, "the thread's stream");
    async_answers(stream);
    MUST(d.cuMemAllocAsync(&a, 1000, NULL));
    in_thread(async_without_context, &a);
    in_thread(async_with_stream_only, stream);
    scope("async, stream destroyed");
    MUST(d.cuMemAllocAsync(&a, 1000, stream));
    DR(d.cuStreamDestroy(stream));
    DR(d.cuMemFreeAsync(a, NULL));
    MUST(d.cuMemAllocAsync(&a, 1000, ordinary));
    DR(d.cuStreamDestroy(ordinary));
    DR(d.cuMemFree(a));
    DR(d.cuCtxSynchronize());
}

/* --- the default pool ---------------------------------------------------------------------------
 */

static void pool_attributes(CUmemoryPool pool, const char *when)
{
    scope("pool attributes, %s", when);
    for (int i = 0; i <= 12; i++) {
        cuuint64_t value = 0;
        CUresult result = d.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, &value);
        say("attribute %d -> %d, %llu", i, (int)result, (unsigned long long)value);
    }
}

static void pool_sets(CUmemoryPool pool)
{
    cuuint64_t zero = 0, one = 1, many = UINT64_MAX, value = 5;
    scope("pool sets");
    for (int i = 1; i <= 8; i++) {
        CUresult to_zero = d.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)i, &zero);
        CUresult to_one = d.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)i, &one);
        say("attribute %d set -> %d %d", i, (int)to_zero, (int)to_one);
    }
    DR(d.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &many));
    DR(d.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
    say("threshold %llu", (unsigned long long)value);
    DR(d.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &one));
    DR(d.cuMemPoolSetAttribute(NULL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &one));
    DR(d.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
}

void driver_pool(void)
{
    CUmemoryPool pool = NULL, current = NULL, own = NULL;
    CUdeviceptr a = 0, b = 0;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    context_make();
    scope("default pool");
    DR(d.cuDeviceGetDefaultMemPool(NULL, 0));
    DR(d.cuDeviceGetDefaultMemPool(&pool, 99));
    MUST(d.cuDeviceGetDefaultMemPool(&pool, 0));
    DR(d.cuDeviceGetMemPool(&current, 0));
    say("it is the current one %d", pool == current);
    pool_attributes(pool, "before use");
    scope("default pool in use");
    DR(d.cuMemAllocAsync(&a, 1000, NULL));
    DR(d.cuMemAllocAsync(&b, 3 * MIB, NULL));
    DR(d.cuCtxSynchronize());
    pool_attributes(pool, "two blocks");
    scope("default pool in use");
    DR(d.cuMemFreeAsync(b, NULL));
    DR(d.cuCtxSynchronize());
    pool_attributes(pool, "one block");
    scope("trim");
    DR(d.cuMemPoolTrimTo(pool, 0));
    DR(d.cuMemPoolTrimTo(pool, SIZE_MAX));
    DR(d.cuMemPoolTrimTo(NULL, 0));
    pool_attributes(pool, "trimmed");
    pool_sets(pool);
    scope("a pool of its own");
    DR(d.cuMemPoolDestroy(pool));
    DR(d.cuMemPoolCreate(&own, &properties));
    DR(d.cuMemPoolCreate(NULL, &properties));
    DR(d.cuDeviceSetMemPool(0, own));
    DR(d.cuMemAllocAsync(&b, 1000, NULL));
    DR(d.cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, b));
    say("its block is of it %d", current == own);
    DR(d.cuMemFreeAsync(b, NULL));
    DR(d.cuMemFreeAsync(a, NULL));
    DR(d.cuCtxSynchronize());
    DR(d.cuDeviceSetMemPool(0, pool));
    DR(d.cuMemPoolDestroy(own));
    DR(d.cuMemAllocAsync(&b, 1000, NULL));
    DR(d.cuMemFreeAsync(b, NULL));
    DR(d.cuCtxSynchronize());
    pool_attributes(pool, "at the end");
    if (HAS(cuMemPoolSetAccess)) {
        CUmemAccessDesc access = {.location = properties.location,
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemAccess_flags flags = (CUmemAccess_flags)9;
        scope("access to the default pool");
        DR(d.cuMemPoolSetAccess(pool, &access, 1));
        DR(d.cuMemPoolSetAccess(pool, NULL, 1));
        DR(d.cuMemPoolSetAccess(NULL, &access, 1));
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        DR(d.cuMemPoolSetAccess(pool, &access, 1));
        access.location.id = 99;
        DR(d.cuMemPoolSetAccess(pool, &access, 1));
        DR(d.cuMemPoolGetAccess(&flags, pool, &properties.location));
        say("access %d", (int)flags);
    }
}

/* --- captures
 * ------------------------------------------------------------------------------------- */

static const char *const mode_names[] = {"global", "thread-local", "relaxed"};

enum capture_call {
    CALL_ALLOC,
    CALL_FREE,
    CALL_ALLOC_ASYNC,
    CALL_FREE_ASYNC,
    CALL_INFO,
    CALL_RANGE,
    CALL_ATTRIBUTE,
    CALL_SYNCHRONIZE,
    CALL_COPY,
    CALL_ALLOC_LARGE,
    CALL_POOL,
    CALLS
};

static CUdeviceptr capture_block, capture_async;

static void capture_call(enum capture_call call)
{
    CUdeviceptr a = 0;
    size_t bytes;
    unsigned char byte;
    cuuint64_t value;
    CUmemoryPool pool;
    switch (call) {
    case CALL_ALLOC:
        DR(d.cuMemAlloc(&a, 1000));
        break;
    case CALL_ALLOC_LARGE:
        DR(d.cuMemAlloc(&a, 40 * MIB));
        break;
    case CALL_FREE:
        DR(d.cuMemFree(capture_block));
        break;
    case CALL_ALLOC_ASYNC:
        DR(d.cuMemAllocAsync(&a, 1000, NULL));
        break;
    case CALL_FREE_ASYNC:
        DR(d.cuMemFreeAsync(capture_async, NULL));
        break;
    case CALL_INFO:
        DR(d.cuMemGetInfo(&bytes, NULL));
        break;
    case CALL_RANGE:
        DR(d.cuMemGetAddressRange(&a, &bytes, capture_block));
        break;
    case CALL_ATTRIBUTE:
        DR(d.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, capture_block));
        break;
    case CALL_SYNCHRONIZE:
        DR(d.cuCtxSynchronize());
        break;
    case CALL_COPY:
        DR(d.cuMemcpyDtoH(&byte, capture_block, 1));
        break;
    case CALL_POOL:
        d.cuDeviceGetDefaultMemPool(&pool, 0);
        DR(d.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
        break;
    default:
        break;
    }
}

static CUcontext capture_context;

static void *capture_other(void *call)
{
    d.cuCtxSetCurrent(capture_context);
    capture_call(*(enum capture_call *)call);
    return NULL;
}

static void capture_beside(int mode, int thread_mode, enum capture_call call, bool other)
{
    CUstream stream;
    CUgraph graph = NULL;
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)thread_mode;
    MUST(d.cuMemAlloc(&capture_block, 1000));
    MUST(d.cuMemAllocAsync(&capture_async, 1000, NULL));
    MUST(d.cuCtxSynchronize());
    MUST(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    scope("%s capture, %s thread, %s", mode_names[mode], other ? "other" : "same",
          thread_mode < 0 ? "its own mode" : mode_names[thread_mode]);
    MUST(d.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
    if (thread_mode >= 0)
        MUST(d.cuThreadExchangeStreamCaptureMode(&exchanged));
    if (other)
        in_thread(capture_other, &call);
    else
        capture_call(call);
    if (thread_mode >= 0)
        MUST(d.cuThreadExchangeStreamCaptureMode(&exchanged));
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    DR(d.cuStreamIsCapturing(stream, &status));
    say("status %d", (int)status);
    DR(d.cuStreamEndCapture(stream, &graph));
    say("a graph %d", graph != NULL);
    if (graph != NULL)
        d.cuGraphDestroy(graph);
    MUST(d.cuStreamDestroy(stream));
    MUST(d.cuCtxSynchronize());
}

static void capture_nodes(int mode)
{
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUdeviceptr node = 0, kept = 0, pooled, plain, base;
    size_t bytes;
    MUST(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(d.cuMemAllocAsync(&pooled, 1000, stream));
    MUST(d.cuMemAlloc(&plain, 1000));
    MUST(d.cuStreamSynchronize(stream));
    scope("nodes, %s", mode_names[mode]);
    MUST(d.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
    DR(d.cuMemAllocAsync(NULL, 1000, stream));
    DR(d.cuStreamEndCapture(stream, &graph));
    MUST(d.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
    DR(d.cuMemAllocAsync(&node, 1000, stream));
    DR(d.cuMemAllocAsync(&kept, 1000, stream));
    DR(d.cuMemsetD8Async(node, 3, 1000, stream));
    DR(d.cuMemcpyDtoDAsync(plain, node, 1000, stream));
    DR(d.cuMemFreeAsync(node, stream));
    DR(d.cuStreamEndCapture(stream, &graph));
    if (graph != NULL && DR(d.cuGraphInstantiateWithFlags(&exec, graph, 0)) == CUDA_SUCCESS) {
        unsigned char byte = 0;
        DR(d.cuGraphLaunch(exec, stream));
        DR(d.cuStreamSynchronize(stream));
        DR(d.cuMemcpyDtoH(&byte, plain, 1));
        say("content %d", byte);
        block_named("kept", kept, 1000);
        DR(d.cuMemGetAddressRange(&base, &bytes, kept));
        say("base %s bytes %zu", where(base), bytes);
        DR(d.cuMemFreeAsync(kept, stream));
        DR(d.cuStreamSynchronize(stream));
        DR(d.cuGraphExecDestroy(exec));
    }
    if (graph != NULL)
        DR(d.cuGraphDestroy(graph));
    static const char *const frees[] = {"an async block", "an ordinary block",
                                        "an interior address"};
    CUdeviceptr freed[] = {pooled, plain, plain + 5};
    for (int i = 0; i < 3; i++) {
        scope("free node of %s, %s", frees[i], mode_names[mode]);
        graph = NULL;
        MUST(d.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
        DR(d.cuMemFreeAsync(freed[i], stream));
        DR(d.cuStreamEndCapture(stream, &graph));
        say("a graph %d", graph != NULL);
        if (graph != NULL)
            d.cuGraphDestroy(graph);
    }
    scope("after nodes, %s", mode_names[mode]);
    DR(d.cuMemFree(pooled));
    DR(d.cuMemFree(plain));
    DR(d.cuStreamDestroy(stream));
}

void driver_capture(void)
{
    context_make();
    MUST(d.cuCtxGetCurrent(&capture_context));
    for (int mode = 0; mode < 3; mode++)
        capture_nodes(mode);
    for (int call = 0; call < CALLS; call++)
        for (int mode = 0; mode < 3; mode++) {
            capture_beside(mode, -1, (enum capture_call)call, false);
            capture_beside(mode, CU_STREAM_CAPTURE_MODE_RELAXED, (enum capture_call)call, false);
            capture_beside(mode, -1, (enum capture_call)call, true);
        }
}
