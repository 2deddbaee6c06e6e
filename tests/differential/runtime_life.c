/* runtime_life.c - stream-ordered memory, captures, threads, processes, devices and resets, by the
 * runtime API.
 *
 * A second cudaFreeAsync of a cudaMalloc block is left out: with it the driver hangs.
 */
#include "differential.h"

static void async_frees(cudaStream_t stream, const char *what)
{
    void *a = NULL, *b = NULL, *c = NULL, *zero = (void *)0x77;
    unsigned char byte = 0;
    scope("async, %s", what);
    RT(cudaMallocAsync(NULL, 100, stream));
    RT(cudaMallocAsync(&zero, 0, stream));
    say("output %s", zero == NULL ? "NULL" : zero == (void *)0x77 ? "untouched" : "one");
    zero = (void *)0x77;
    RT(cudaMallocAsync(&zero, (size_t)1 << 60, stream));
    say("output %s", zero == NULL ? "NULL" : zero == (void *)0x77 ? "untouched" : "one");
    RT(cudaFreeAsync(NULL, stream));
    RT(cudaFreeAsync((void *)1, stream));
    RT(cudaFreeAsync(&a, stream));
    RT(cudaMallocAsync(&a, 1000, stream));
    RT(cudaMallocAsync(&b, 5 * MIB, stream));
    say("aligned to 256: %d %d", ADDRESS(a) % 256 == 0, ADDRESS(b) % 256 == 0);
    RT(cudaMemsetAsync(a, 3, 1000, stream));
    RT(cudaMemcpyAsync(&byte, (char *)a + 999, 1, cudaMemcpyDeviceToHost, stream));
    RT(cudaStreamSynchronize(stream));
    say("content %d", byte);
    RT(cudaFreeAsync((char *)a + 512, stream));
    RT(cudaFreeAsync(a, stream));
    RT(cudaFreeAsync(a, stream));
    RT(cudaFree(a));
    RT(cudaStreamSynchronize(stream));
    RT(cudaFreeAsync(a, stream));
    RT(cudaFree(a));
    RT(cudaFree(b));
    RT(cudaFree(b));
    RT(cudaFreeAsync(b, stream));
    RT(cudaMalloc(&c, 1000));
    RT(cudaFreeAsync(c, stream));
    RT(cudaDeviceSynchronize());
    RT(cudaFree(c));
}

void runtime_async(void)
{
    cudaStream_t stream, second;
    void *a;
    context_make();
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreate(&second));
    async_frees(stream, "a stream");
    async_frees(0, "0");
    async_frees(cudaStreamLegacy, "the legacy stream");
    async_frees(cudaStreamPerThread, "the thread's stream");
    scope("async, another stream");
    MUST(cudaMallocAsync(&a, 1000, stream));
    MUST(cudaStreamSynchronize(stream));
    RT(cudaFreeAsync(a, second));
    RT(cudaFreeAsync(a, stream));
    RT(cudaDeviceSynchronize());
    scope("async, streams gone");
    MUST(cudaMallocAsync(&a, 1000, stream));
    RT(cudaStreamDestroy(stream));
    RT(cudaFreeAsync(a, second));
    RT(cudaStreamDestroy(second));
    RT(cudaDeviceSynchronize());
}

static void pool_attributes(cudaMemPool_t pool, const char *when)
{
    scope("pool attributes, %s", when);
    for (int i = 0; i <= 9; i++) {
        unsigned long long value = 0;
        int result = (int)cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)i, &value);
        say("attribute %d -> %d, %llu, last %d", i, result, value, (int)cudaGetLastError());
    }
}

void runtime_pool(void)
{
    cudaMemPool_t pool = NULL, current = NULL, own = NULL;
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {cudaMemLocationTypeDevice, 0}};
    unsigned long long many = ~0ull, zero = 0;
    void *a, *b;
    context_make();
    scope("default pool");
    RT(cudaDeviceGetDefaultMemPool(&pool, 0));
    RT(cudaDeviceGetDefaultMemPool(&current, 77));
    RT(cudaDeviceGetMemPool(&current, 0));
    say("it is the current one %d", current == pool);
    RT(cudaMallocAsync(&a, 1000, 0));
    RT(cudaMallocAsync(&b, 3 * MIB, 0));
    RT(cudaDeviceSynchronize());
    pool_attributes(pool, "two blocks");
    scope("default pool in use");
    RT(cudaFreeAsync(b, 0));
    RT(cudaDeviceSynchronize());
    pool_attributes(pool, "one block");
    scope("trim");
    RT(cudaMemPoolTrimTo(pool, 0));
    RT(cudaMemPoolTrimTo(NULL, 0));
    RT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &many));
    RT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    RT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &many));
    RT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero));
    RT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &zero));
    RT(cudaFree(a));
    RT(cudaDeviceSynchronize());
    scope("a pool of its own");
    RT(cudaMemPoolCreate(&own, &properties));
    RT(cudaMallocFromPoolAsync(&a, 1000, own, 0));
    RT(cudaMallocFromPoolAsync(NULL, 1000, own, 0));
    RT(cudaMallocFromPoolAsync(&b, 0, own, 0));
    RT(cudaFreeAsync(a, 0));
    RT(cudaFreeAsync(a, 0));
    RT(cudaDeviceSetMemPool(0, own));
    RT(cudaMallocAsync(&a, 1000, 0));
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaDeviceSetMemPool(0, pool));
    RT(cudaMemPoolDestroy(own));
    RT(cudaMemPoolDestroy(pool));
}

/* --- captures ------------------------------------------------------------------------------------
 */

enum { CAPTURE_CALLS = 8 };
static void *capture_block, *capture_async;

static void capture_call(int call)
{
    void *a;
    size_t bytes;
    unsigned char byte;
    switch (call) {
    case 0:
        RT(cudaMalloc(&a, 1000));
        break;
    case 1:
        RT(cudaFree(capture_block));
        break;
    case 2:
        RT(cudaMallocAsync(&a, 1000, 0));
        break;
    case 3:
        RT(cudaFreeAsync(capture_async, 0));
        break;
    case 4:
        RT(cudaMemGetInfo(&bytes, &bytes));
        break;
    case 5:
        RT(cudaDeviceSynchronize());
        break;
    case 6:
        RT(cudaMemcpy(&byte, capture_block, 1, cudaMemcpyDeviceToHost));
        break;
    default:
        RT(cudaMallocPitch(&a, &bytes, 100, 10));
    }
}

static void *capture_other(void *call)
{
    capture_call(*(int *)call);
    return NULL;
}

void runtime_capture(void)
{
    context_make();
    for (int call = 0; call < CAPTURE_CALLS; call++)
        for (int way = 0; way < 9; way++) {
            static const char *const ways[] = {"same thread", "same thread, relaxed",
                                               "other thread"};
            enum cudaStreamCaptureMode exchanged = cudaStreamCaptureModeRelaxed;
            enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
            cudaStream_t stream;
            cudaGraph_t graph = NULL;
            MUST(cudaMalloc(&capture_block, 1000));
            MUST(cudaMallocAsync(&capture_async, 1000, 0));
            MUST(cudaDeviceSynchronize());
            MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            scope("capture mode %d, %s", way / 3, ways[way % 3]);
            MUST(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)(way / 3)));
            if (way % 3 == 1)
                MUST(cudaThreadExchangeStreamCaptureMode(&exchanged));
            if (way % 3 == 2)
                in_thread(capture_other, &call);
            else
                capture_call(call);
            if (way % 3 == 1)
                MUST(cudaThreadExchangeStreamCaptureMode(&exchanged));
            RT(cudaStreamIsCapturing(stream, &status));
            say("status %d", (int)status);
            RT(cudaStreamEndCapture(stream, &graph));
            if (graph != NULL)
                cudaGraphDestroy(graph);
            MUST(cudaStreamDestroy(stream));
            MUST(cudaDeviceSynchronize());
        }
}

/* --- threads
 * ---------------------------------------------------------------------------------------- */

static void *frees_first(void *pointer)
{
    scope("a thread's first call is a free");
    RT(cudaFree((char *)pointer + 1));
    RT(cudaFree(pointer));
    RT(cudaFree(pointer));
    return NULL;
}

static void *allocates_first(void *out)
{
    scope("a thread's first call is an allocation");
    RT(cudaMalloc(out, 1000));
    return NULL;
}

void runtime_threads(void)
{
    void *a;
    scope("no context yet");
    RT(cudaFree((void *)1));
    RT(cudaFreeAsync((void *)1, 0));
    context_make();
    MUST(cudaMalloc(&a, 1000));
    in_thread(frees_first, a);
    in_thread(allocates_first, &a);
    scope("after the thread");
    RT(cudaMemset(a, 1, 1000));
    RT(cudaFree(a));
    RT(cudaFree(a));
    MUST(cudaMallocAsync(&a, 1000, 0));
    MUST(cudaDeviceSynchronize());
    in_thread(frees_first, a);
}

/* --- reset
 * -------------------------------------------------------------------------------------------- */

void runtime_reset(void)
{
    void *a, *large, *async;
    struct cudaPointerAttributes answer;
    context_make();
    for (int round = 0; round < 3; round++) {
        scope("round %d", round);
        RT(cudaMalloc(&a, 1000));
        RT(cudaMalloc(&large, 40 * MIB));
        RT(cudaMallocAsync(&async, 1000, 0));
        RT(cudaMemset(a, 1, 1000));
        RT(cudaDeviceSynchronize());
        RT(cudaDeviceReset());
        scope("after reset %d", round);
        if (round == 1) {
            memset(&answer, 0, sizeof(answer));
            RT(cudaPointerGetAttributes(&answer, a));
            say("type %d", (int)answer.type);
            RT(cudaMemset(a, 1, 10));
        }
        RT(cudaFree(a));
        RT(cudaFree(large));
        RT(cudaFree(async));
        RT(cudaFreeAsync(async, 0));
        RT(cudaFree((char *)large + 5));
    }
    scope("at the end");
    RT(cudaMalloc(&a, 1000));
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaDeviceReset());
    RT(cudaDeviceReset());
}

void runtime_devices(void)
{
    int devices = 0, can = 9, current = 9;
    void *a, *b;
    unsigned char byte = 0;
    context_make();
    MUST(cudaGetDeviceCount(&devices));
    scope("devices");
    MUST(cudaMalloc(&a, 1000));
    RT(cudaSetDevice(devices));
    RT(cudaSetDevice(-1));
    RT(cudaMalloc(&b, 1000));
    RT(cudaDeviceEnablePeerAccess(0, 0));
    RT(cudaDeviceCanAccessPeer(&can, 0, 0));
    RT(cudaDeviceCanAccessPeer(&can, 0, devices));
    if (devices < 2)
        return;
    scope("two devices");
    RT(cudaSetDevice(1));
    RT(cudaMalloc(&b, 1000));
    RT(cudaMemset(b, 5, 1000));
    RT(cudaMemcpy(a, b, 1000, cudaMemcpyDefault));
    RT(cudaDeviceEnablePeerAccess(0, 0));
    RT(cudaDeviceEnablePeerAccess(0, 0));
    RT(cudaMemcpy(a, b, 1000, cudaMemcpyDefault));
    RT(cudaDeviceSynchronize());
    RT(cudaMemcpy(&byte, a, 1, cudaMemcpyDeviceToHost));
    say("content %d", byte);
    struct cudaPointerAttributes answer = {0};
    RT(cudaPointerGetAttributes(&answer, a));
    say("type %d device %d", (int)answer.type, answer.device);
    RT(cudaFree((char *)a + 1));
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaGetDevice(&current));
    say("current %d", current);
    RT(cudaDeviceReset());
    RT(cudaFree(b));
    RT(cudaSetDevice(0));
    RT(cudaMalloc(&a, 1000));
    RT(cudaFree(a));
}

/* --- a fault
 * ------------------------------------------------------------------------------------------- */

void runtime_fault(void)
{
    void *a, *b, *async;
    size_t bytes;
    struct cudaPointerAttributes answer = {0};
    context_make();
    MUST(cudaMalloc(&a, 1000));
    MUST(cudaMallocAsync(&async, 1000, 0));
    MUST(cudaDeviceSynchronize());
    if (!fault_make())
        return;
    scope("after a fault");
    RT(cudaDeviceSynchronize());
    RT(cudaDeviceSynchronize());
    RT(cudaMalloc(&b, 1000));
    RT(cudaMalloc(&b, 100 * MIB));
    RT(cudaMallocPitch(&b, &bytes, 100, 10));
    RT(cudaMallocAsync(&b, 1000, 0));
    RT(cudaMemGetInfo(&bytes, &bytes));
    RT(cudaPointerGetAttributes(&answer, a));
    RT(cudaFree(0));
    RT(cudaFree((char *)a + 1));
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaFreeAsync(async, 0));
    RT(cudaMemset(a, 1, 10));
    scope("after the reset of a fault");
    RT(cudaDeviceReset());
    RT(cudaFree(a));
    RT(cudaFree(async));
    RT(cudaMalloc(&b, 1000));
    RT(cudaMemset(b, 1, 1000));
    RT(cudaDeviceSynchronize());
    RT(cudaFree(b));
    RT(cudaFree(b));
}

/* --- where no call is allowed
 * --------------------------------------------------------------------- */

static void calls_in(void *pointers)
{
    void **blocks = pointers, *a = NULL;
    size_t bytes;
    struct cudaPointerAttributes answer = {0};
    RT(cudaMalloc(&a, 1000));
    RT(cudaMalloc(&a, 100 * MIB));
    RT(cudaFree(blocks[0]));
    RT(cudaFree((char *)blocks[0] + 1));
    RT(cudaMallocAsync(&a, 1000, 0));
    RT(cudaFreeAsync(blocks[1], 0));
    RT(cudaMallocPitch(&a, &bytes, 100, 10));
    RT(cudaMemGetInfo(&bytes, &bytes));
    RT(cudaPointerGetAttributes(&answer, blocks[0]));
    RT(cudaMemset(blocks[0], 1, 10));
    RT(cudaFree(NULL));
}

void runtime_callback(void)
{
    void *blocks[2];
    context_make();
    MUST(cudaMalloc(&blocks[0], 1000));
    MUST(cudaMallocAsync(&blocks[1], 1000, 0));
    MUST(cudaDeviceSynchronize());
    scope("host callback");
    MUST(cudaLaunchHostFunc(0, calls_in, blocks));
    MUST(cudaDeviceSynchronize());
    scope("after the callback");
    RT(cudaFree(blocks[0]));
    RT(cudaFreeAsync(blocks[1], 0));
    RT(cudaFree(blocks[0]));
    RT(cudaDeviceSynchronize());
}

void runtime_fork(void)
{
    void *blocks[2];
    int status = 0;
    context_make();
    MUST(cudaMalloc(&blocks[0], 1000));
    MUST(cudaMallocAsync(&blocks[1], 1000, 0));
    MUST(cudaDeviceSynchronize());
    scope("forked child");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        calls_in(blocks);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    say("it ended with %d", status);
    scope("after the fork");
    RT(cudaMemset(blocks[0], 1, 1000));
    RT(cudaFree(blocks[0]));
    RT(cudaFree(blocks[1]));
    RT(cudaFree(blocks[0]));
}

/* --- other processes
 * ---------------------------------------------------------------------------------- */

/* more: how many bytes to read; "0": the block was freed, and its bytes are nobody's */
void runtime_ipc_child(const char *text, const char *more)
{
    size_t bytes = strtoull(more, NULL, 10);
    cudaIpcMemHandle_t handle;
    void *a = NULL, *second = NULL;
    unsigned char first = 0, last = 0;
    struct cudaPointerAttributes answer = {0};
    scope("child");
    for (size_t i = 0; i < sizeof(handle); i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        handle.reserved[i] = (char)byte;
    }
    if (RT(cudaIpcOpenMemHandle(&a, handle, cudaIpcMemLazyEnablePeerAccess)) != cudaSuccess)
        return;
    if (bytes != 0) {
        RT(cudaMemcpy(&first, a, 1, cudaMemcpyDeviceToHost));
        RT(cudaMemcpy(&last, (char *)a + bytes - 1, 1, cudaMemcpyDeviceToHost));
        say("content %d %d", first, last);
    }
    RT(cudaPointerGetAttributes(&answer, a));
    say("type %d device %d at itself %d", (int)answer.type, answer.device,
        answer.devicePointer == a);
    RT(cudaIpcOpenMemHandle(&second, handle, cudaIpcMemLazyEnablePeerAccess));
    RT(cudaFree(a));
    RT(cudaIpcCloseMemHandle(a));
    RT(cudaIpcCloseMemHandle(second));
    RT(cudaIpcCloseMemHandle(a));
}

void runtime_ipc(void)
{
    static const size_t some[] = {1000, 1000, 3 * MIB, 40 * MIB};
    cudaIpcMemHandle_t handle;
    char text[2 * sizeof(handle) + 1], number[30];
    void *blocks[4];
    context_make();
    for (int i = 0; i < 4; i++)
        MUST(cudaMalloc(&blocks[i], some[i]));
    for (int i = 0; i < 4; i++) {
        scope("export of block %d of %zu", i, some[i]);
        MUST(cudaMemset(blocks[i], 21, some[i]));
        MUST(cudaMemset((char *)blocks[i] + some[i] - 1, 22, 1));
        MUST(cudaDeviceSynchronize());
        if (RT(cudaIpcGetMemHandle(&handle, blocks[i])) != cudaSuccess)
            continue;
        for (size_t k = 0; k < sizeof(handle); k++)
            sprintf(text + 2 * k, "%02x", (unsigned char)handle.reserved[k]);
        snprintf(number, sizeof(number), "%zu", some[i]);
        in_child(false, "runtime_ipc_child", text, number);
        in_child(true, "runtime_ipc_child", text, number);
        scope("freed after export, block %d of %zu", i, some[i]);
        RT(cudaFree(blocks[i]));
        in_child(false, "runtime_ipc_child", text, "0");
        RT(cudaIpcGetMemHandle(&handle, blocks[i]));
    }
}

/* Whether a program that has no driver yet finds its functions by name. */
void runtime_names(void)
{
    static const char *const names[] = {"cuInit", "cuMemAlloc_v2", "cuMemFree_v2",
                                        "cuGetProcAddress"};
    void *self = dlopen(NULL, RTLD_NOW);
    scope("without a driver");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        say("%s: by default %d, in the program %d", names[i], dlsym(RTLD_DEFAULT, names[i]) != NULL,
            dlsym(self, names[i]) != NULL);
}
