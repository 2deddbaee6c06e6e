/* driver_contexts.c - several contexts, threads without one, devices, and other processes, by the
 * driver API.
 */
#include "differential.h"

/* --- threads ------------------------------------------------------------------------------------
 */

static void current_said(void)
{
    CUcontext current = NULL;
    CUresult result = d.cuCtxGetCurrent(&current);
    say("current context %d %s", (int)result, current == NULL ? "none" : "one");
}

static void *without_context(void *argument)
{
    CUdeviceptr *blocks = argument, a = 0;
    size_t pitch, bytes;
    unsigned char byte = 0;
    scope("thread without context");
    current_said();
    CUresult result = DR(d.cuMemAlloc(&a, 1000));
    current_said();
    if (result == CUDA_SUCCESS)
        DR(d.cuMemFree(a));
    DR(d.cuMemAllocPitch(&a, &pitch, 100, 10, 4));
    DR(d.cuMemGetInfo(&bytes, NULL));
    DR(d.cuMemcpyDtoH(&byte, blocks[0], 1));
    DR(d.cuMemcpyHtoD(blocks[0], &byte, 1));
    DR(d.cuMemsetD8(blocks[0], 1, 1));
    DR(d.cuMemFree(0));
    DR(d.cuMemFree(blocks[0] + 1));
    DR(d.cuMemFree(blocks[0]));
    DR(d.cuMemFree(blocks[0]));
    DR(d.cuMemFree(blocks[1]));
    current_said();
    return NULL;
}

void driver_threads(void)
{
    CUdeviceptr blocks[3];
    context_make();
    for (int i = 0; i < 3; i++)
        blocks[i] = block_make("A", (size_t)(i + 1) * 100000);
    in_thread(without_context, blocks);
    scope("after the thread");
    DR(d.cuMemFree(blocks[0]));
    DR(d.cuMemFree(blocks[2]));
    scope("context put away");
    blocks[0] = block_make("A", 1000);
    DR(d.cuCtxSetCurrent(NULL));
    DR(d.cuMemFree(blocks[0]));
    DR(d.cuMemFree(blocks[0]));
    current_said();
}

/* --- contexts ------------------------------------------------------------------------------------
 */

static void block_state(const char *what, CUdeviceptr block)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUcontext context = NULL, current = NULL;
    unsigned type = 0;
    unsigned char byte = 0;
    scope("%s", what);
    DR(d.cuMemGetAddressRange(&base, &bytes, block));
    say("base %s bytes %zu", where(base), bytes);
    CUresult result = DR(d.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    d.cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS)
        say("context %s", context == NULL      ? "none"
                          : context == current ? "the current one"
                                               : "another");
    DR(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    DR(d.cuMemcpyDtoH(&byte, block, 1));
}

void driver_contexts(void)
{
    CUctxCreateParams parameters = {0};
    CUcontext primary, first, second;
    CUdeviceptr p, a, b, async = 0;
    context_make();
    MUST(d.cuCtxGetCurrent(&primary));
    p = block_make("P", 1000);
    scope("contexts");
    DR(d.cuCtxCreate(&first, &parameters, 0, 0));
    a = block_make("A", 1000);
    DR(d.cuMemsetD8(a, 5, 1000));
    DR(d.cuMemAllocAsync(&async, 1000, NULL));
    DR(d.cuCtxSynchronize());
    DR(d.cuCtxCreate(&second, &parameters, 0, 0));
    b = block_make("B", 40 * MIB);
    block_state("another context's block", a);
    block_state("the primary context's block", p);
    block_state("its own block", b);
    CUstream stream;
    CUdeviceptr own = 0;
    scope("streams of contexts");
    MUST(d.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(d.cuCtxSetCurrent(first));
    DR(d.cuMemAllocAsync(&own, 1000, stream));
    DR(d.cuMemsetD8Async(own, 1, 1000, stream));
    DR(d.cuMemFreeAsync(own, stream));
    DR(d.cuMemAllocAsync(&own, 1000, NULL));
    DR(d.cuCtxSynchronize());
    DR(d.cuMemFreeAsync(own, stream));
    DR(d.cuMemFreeAsync(own, stream));
    MUST(d.cuCtxSetCurrent(second));
    DR(d.cuStreamSynchronize(stream));
    DR(d.cuMemAllocAsync(&own, 1000, stream));
    MUST(d.cuCtxSetCurrent(primary));
    DR(d.cuMemFree(own));
    DR(d.cuMemFree(own));
    MUST(d.cuCtxSetCurrent(second));
    DR(d.cuStreamDestroy(stream));
    scope("between contexts");
    DR(d.cuMemcpyDtoD(b, a, 1000));
    DR(d.cuCtxSynchronize());
    DR(d.cuMemFree(a + 1));
    CUdeviceptr a2, a3;
    DR(d.cuCtxSetCurrent(first));
    a2 = block_make("A2", 1000);
    a3 = block_make("A3", 40 * MIB);
    DR(d.cuCtxSetCurrent(second));
    DR(d.cuMemFree(a2));
    DR(d.cuMemFree(a2));
    DR(d.cuMemFree(async));
    DR(d.cuCtxDestroy(first));
    block_ended(a);
    block_ended(a2);
    block_ended(a3);
    block_state("a destroyed context's block", a);
    block_state("a destroyed context's large block", a3);
    scope("destroyed context");
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(a3));
    DR(d.cuMemFreeAsync(a, NULL));
    DR(d.cuCtxDestroy(first));
    a = block_make("again", 1000);
    DR(d.cuMemFree(a));
    DR(d.cuCtxDestroy(second));
    current_said();
    scope("all created ones destroyed");
    DR(d.cuMemFree(b));
    DR(d.cuMemFree(p));
    DR(d.cuMemFree(p));
    DR(d.cuCtxSetCurrent(primary));
    p = block_make("P2", 1000);
    DR(d.cuMemFree(p));
}

void driver_primary(void)
{
    CUdeviceptr a, large, async = 0;
    CUcontext context;
    unsigned int flags;
    int active;
    context_make();
    a = block_make("A", 1000);
    large = block_make("large", 40 * MIB);
    scope("primary reset");
    DR(d.cuMemAllocAsync(&async, 1000, NULL));
    DR(d.cuCtxSynchronize());
    DR(d.cuDevicePrimaryCtxReset(0));
    block_ended(a);
    block_ended(large);
    DR(d.cuDevicePrimaryCtxGetState(0, &flags, &active));
    say("active %d", active);
    block_state("after a reset, small", a);
    block_state("after a reset, large", large);
    scope("after a reset");
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
    DR(d.cuMemFree(async));
    DR(d.cuMemFreeAsync(async, NULL));
    DR(d.cuDevicePrimaryCtxRetain(&context, 0));
    DR(d.cuCtxSetCurrent(context));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
    a = block_make("A2", 1000);
    large = block_make("large2", 40 * MIB);
    block_state("retained again", a);
    scope("released to zero");
    DR(d.cuDevicePrimaryCtxRelease(0));
    DR(d.cuDevicePrimaryCtxGetState(0, &flags, &active));
    say("active %d", active);
    for (int i = 0; i < 4 && active; i++) {
        d.cuDevicePrimaryCtxRelease(0);
        d.cuDevicePrimaryCtxGetState(0, &flags, &active);
    }
    block_ended(a);
    block_ended(large);
    block_state("after the release", a);
    scope("after the release");
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
    DR(d.cuDevicePrimaryCtxRelease(0));
    DR(d.cuDevicePrimaryCtxRetain(&context, 0));
    DR(d.cuCtxSetCurrent(context));
    a = block_make("A3", 1000);
    block_state("retained a third time", a);
    scope("retained a third time");
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
}

/* --- devices
 * --------------------------------------------------------------------------------------- */

void driver_peers(void)
{
    int devices = 0, can = 0;
    CUcontext contexts[2];
    CUdeviceptr early[2], late[2];
    unsigned char byte = 0;
    context_make();
    MUST(d.cuDeviceGetCount(&devices));
    scope("peers");
    MUST(d.cuCtxGetCurrent(&contexts[0]));
    DR(d.cuCtxEnablePeerAccess(contexts[0], 0));
    DR(d.cuCtxEnablePeerAccess(NULL, 0));
    DR(d.cuCtxDisablePeerAccess(contexts[0]));
    DR(d.cuDeviceCanAccessPeer(&can, 0, 0));
    if (devices < 2)
        return;
    MUST(d.cuDevicePrimaryCtxRetain(&contexts[1], 1));
    DR(d.cuDeviceCanAccessPeer(&can, 0, 1));
    say("can %d", can);
    for (int i = 0; i < 2; i++) {
        MUST(d.cuCtxSetCurrent(contexts[i]));
        early[i] = block_make(i == 0 ? "early 0" : "early 1", 1000);
        DR(d.cuMemsetD8(early[i], (unsigned char)(i + 1), 1000));
    }
    scope("peers, not yet");
    DR(d.cuMemcpyDtoH(&byte, early[0], 1));
    if (HAS(cuMemcpyPeer))
        DR(d.cuMemcpyPeer(early[1], contexts[1], early[0], contexts[0], 1000));
    DR(d.cuMemcpyDtoH(&byte, early[1], 1));
    say("content %d", byte);
    for (int i = 0; i < 2; i++) {
        scope("peers, enabled from %d", i);
        MUST(d.cuCtxSetCurrent(contexts[i]));
        DR(d.cuCtxEnablePeerAccess(contexts[1 - i], 1));
        DR(d.cuCtxEnablePeerAccess(contexts[1 - i], 0));
        DR(d.cuCtxEnablePeerAccess(contexts[1 - i], 0));
        late[i] = block_make(i == 0 ? "late 0" : "late 1", 1000);
    }
    for (int i = 0; i < 2; i++) {
        int ordinal = 9;
        unsigned flags = 9;
        MUST(d.cuCtxSetCurrent(contexts[i]));
        scope("the other device's block, from %d", i);
        DR(d.cuMemcpyDtoD(late[i], early[1 - i], 1000));
        DR(d.cuMemcpyDtoD(early[1 - i], late[i], 1000));
        DR(d.cuMemcpyDtoD(late[1 - i], late[i], 1000));
        DR(d.cuMemcpyDtoH(&byte, late[1 - i], 1));
        say("content %d", byte);
        DR(d.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, late[1 - i]));
        say("ordinal %d", ordinal);
        DR(d.cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, late[1 - i]));
        say("access %u", flags);
        block_state("the other device's block", late[1 - i]);
    }
    for (int i = 0; i < 2; i++) {
        MUST(d.cuCtxSetCurrent(contexts[i]));
        scope("free of the other device's block, from %d", i);
        DR(d.cuMemFree(early[1 - i] + 1));
        DR(d.cuMemFree(early[1 - i]));
        DR(d.cuMemFree(early[1 - i]));
        DR(d.cuMemFreeAsync(late[1 - i], NULL));
        DR(d.cuCtxSynchronize());
        DR(d.cuCtxDisablePeerAccess(contexts[1 - i]));
        DR(d.cuCtxDisablePeerAccess(contexts[1 - i]));
    }
}

/* --- a fault
 * ------------------------------------------------------------------------------------------ */

/* Stores to an address that is nobody's. */
static const char *const fault_code = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                      ".visible .entry fault() { .reg .u64 %a; mov.u64 %a, 16;\n"
                                      "st.global.u32 [%a], 1; ret; }\n";

bool fault_make(void)
{
    CUmodule module;
    CUfunction function;
    CUresult (*simulated)(CUstream, uint64_t, CUresult);
    *(void **)&simulated = dlsym(RTLD_DEFAULT, "vrsim_launch_fault");
    if (simulated == NULL) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        *(void **)&simulated = dlsym(library, "vrsim_launch_fault");
    }
    if (simulated != NULL)
        return simulated(NULL, 1000, CUDA_ERROR_ILLEGAL_ADDRESS) == CUDA_SUCCESS;
    return HAS(cuModuleLoadData) && d.cuModuleLoadData(&module, fault_code) == CUDA_SUCCESS &&
           d.cuModuleGetFunction(&function, module, "fault") == CUDA_SUCCESS &&
           d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS;
}

void driver_fault(void)
{
    CUdeviceptr a, b, large, async, base;
    size_t bytes;
    unsigned type;
    context_make();
    a = block_make("A", 1000);
    large = block_make("large", 40 * MIB);
    MUST(d.cuMemAllocAsync(&async, 1000, NULL));
    MUST(d.cuCtxSynchronize());
    if (!fault_make())
        return;
    scope("after a fault");
    DR(d.cuCtxSynchronize());
    DR(d.cuMemGetAddressRange(&base, &bytes, a));
    DR(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
    DR(d.cuMemFree(a + 1));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(a));
    DR(d.cuMemFree(large));
    DR(d.cuMemFreeAsync(async, NULL));
    DR(d.cuMemAlloc(&b, 1000));
    DR(d.cuMemAlloc(&b, 100 * MIB));
    DR(d.cuMemAllocAsync(&b, 1000, NULL));
    DR(d.cuMemAllocPitch(&b, &bytes, 100, 10, 4));
    DR(d.cuMemGetInfo(&bytes, NULL));
    DR(d.cuMemsetD8(a, 1, 10));
}

/* --- other processes
 * -------------------------------------------------------------------------------- */

static void to_hex(char *text, const CUipcMemHandle *handle)
{
    for (size_t i = 0; i < sizeof(*handle); i++)
        sprintf(text + 2 * i, "%02x", (unsigned char)handle->reserved[i]);
}

static void from_hex(CUipcMemHandle *handle, const char *text)
{
    for (size_t i = 0; i < sizeof(*handle); i++) {
        unsigned byte = 0;
        sscanf(text + 2 * i, "%2x", &byte);
        handle->reserved[i] = (char)byte;
    }
}

/* more: how many bytes to read */
void driver_ipc_child(const char *text, const char *more)
{
    size_t bytes = strtoull(more, NULL, 10), range = 0;
    CUipcMemHandle handle;
    CUdeviceptr a = 0, second = 0, base = 0;
    unsigned char first = 0, last = 0;
    scope("child");
    context_make();
    from_hex(&handle, text);
    DR(d.cuIpcOpenMemHandle(NULL, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    DR(d.cuIpcOpenMemHandle(&a, handle, 0));
    if (DR(d.cuIpcOpenMemHandle(&a, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) != CUDA_SUCCESS)
        return;
    block_named("opened", a, bytes);
    DR(d.cuMemcpyDtoH(&first, a, 1));
    DR(d.cuMemcpyDtoH(&last, a + bytes - 1, 1));
    say("content %d %d", first, last);
    DR(d.cuMemGetAddressRange(&base, &range, a));
    say("base %s, range as the block %d", where(base), range == bytes);
    if (DR(d.cuIpcOpenMemHandle(&second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) ==
        CUDA_SUCCESS)
        say("opened twice: the same address %d", second == a);
    DR(d.cuIpcGetMemHandle(&handle, a));
    DR(d.cuMemFree(a));
    DR(d.cuMemsetD8(a, 99, bytes));
    DR(d.cuCtxSynchronize());
    DR(d.cuIpcCloseMemHandle(a + 1));
    DR(d.cuIpcCloseMemHandle(a));
    if (second != 0)
        DR(d.cuIpcCloseMemHandle(second));
    DR(d.cuIpcCloseMemHandle(a));
    DR(d.cuIpcCloseMemHandle(0));
    DR(d.cuMemcpyDtoH(&first, a, 1));
}

static void exported(const char *what, CUdeviceptr a, size_t bytes)
{
    CUipcMemHandle handle, again, inside;
    char text[2 * sizeof(handle) + 1], number[30];
    unsigned char byte = 0;
    scope("export of %s", what);
    MUST(d.cuMemsetD8(a, 11, bytes));
    MUST(d.cuMemsetD8(a + bytes - 1, 12, 1));
    MUST(d.cuCtxSynchronize());
    memset(&handle, 0, sizeof(handle));
    if (DR(d.cuIpcGetMemHandle(&handle, a)) != CUDA_SUCCESS)
        return;
    if (DR(d.cuIpcGetMemHandle(&again, a)) == CUDA_SUCCESS)
        say("the same again %d", memcmp(&handle, &again, sizeof(handle)) == 0);
    if (DR(d.cuIpcGetMemHandle(&inside, a + bytes / 2)) == CUDA_SUCCESS)
        say("the same from inside %d", memcmp(&handle, &inside, sizeof(handle)) == 0);
    to_hex(text, &handle);
    snprintf(number, sizeof(number), "%zu", bytes);
    in_child(false, "driver_ipc_child", text, number);
    DR(d.cuMemcpyDtoH(&byte, a + bytes / 2, 1));
    say("what the process wrote is here: %d", byte);
    MUST(d.cuMemsetD8(a, 11, bytes));
    MUST(d.cuMemsetD8(a + bytes - 1, 12, 1));
    MUST(d.cuCtxSynchronize());
    in_child(true, "driver_ipc_child", text, number);
    CUdeviceptr own = 0;
    DR(d.cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

void driver_ipc(void)
{
    static const size_t some[] = {1000, 1000, 70000, 2 * MIB, 3 * MIB + 5, 40 * MIB, 100 * MIB};
    struct foreign list[FOREIGN_MAX];
    CUdeviceptr blocks[7];
    CUipcMemHandle handle, handles[7];
    char text[40];
    context_make();
    for (int i = 0; i < 7; i++) {
        snprintf(text, sizeof(text), "block %d", i);
        blocks[i] = block_make(text, some[i]);
    }
    for (int i = 0; i < 7; i++) {
        snprintf(text, sizeof(text), "block %d of %zu", i, some[i]);
        exported(text, blocks[i], some[i]);
    }
    scope("handles");
    int unique = 1;
    for (int i = 0; i < 7; i++) {
        memset(&handles[i], i + 1, sizeof(handle));
        d.cuIpcGetMemHandle(&handles[i], blocks[i]);
        for (int k = 0; k < i; k++)
            unique = unique && memcmp(&handles[i], &handles[k], sizeof(handle)) != 0;
    }
    say("unique %d", unique);
    scope("export edges");
    DR(d.cuIpcGetMemHandle(NULL, blocks[0]));
    DR(d.cuIpcGetMemHandle(&handle, blocks[0] - 512));
    for (int i = 0; i < 7; i++) {
        scope("export of freed block %d", i);
        DR(d.cuMemFree(blocks[i]));
        DR(d.cuIpcGetMemHandle(&handle, blocks[i]));
        DR(d.cuIpcCloseMemHandle(blocks[i]));
    }
    int count = foreign_make(list);
    for (int i = 0; i < count; i++) {
        scope("export of %s", list[i].kind);
        DR(d.cuIpcGetMemHandle(&handle, list[i].address));
    }
    scope("import of nonsense");
    memset(&handle, 0, sizeof(handle));
    DR(d.cuIpcOpenMemHandle(&blocks[0], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    memset(&handle, 0x5a, sizeof(handle));
    DR(d.cuIpcOpenMemHandle(&blocks[0], handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}
