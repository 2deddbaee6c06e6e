/* test_sim_memory.c - the simulated card: packing, counting, contents, contexts, pools, mapping.
 *
 * Linked with the simulator itself. Every test begins with the primary context of device 0 current
 * and an empty card.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../sim/vrsim.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* cuda.h hides this one. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);

static int setup(void **state)
{
    CUcontext context;
    *state = NULL;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cuDevicePrimaryCtxReset(0);
    assert_int_equal(vrsim_hazards(), 0);
    return 0;
}

static CUdeviceptr take(size_t bytes)
{
    CUdeviceptr address = 0;
    assert_int_equal(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
    assert_int_not_equal(address, 0);
    return address;
}

static void give(CUdeviceptr address)
{
    assert_int_equal(cuMemFree(address), CUDA_SUCCESS);
}

static void small_blocks_share_two_mib(void **state)
{
    (void)state;
    CUdeviceptr first = take(1), second = take(513), third = take(MIB);
    assert_int_equal(second, first + 512);
    assert_int_equal(third, second + 1024);
    assert_int_equal(vrsim_card_used(0), 2 * MIB);
    CUdeviceptr fourth = take(MIB); /* does not fit beside the others */
    assert_int_equal(vrsim_card_used(0), 4 * MIB);
    give(first);
    give(second);
    assert_int_equal(vrsim_card_used(0), 4 * MIB);
    give(third);
    assert_int_equal(vrsim_card_used(0), 2 * MIB);
    give(fourth);
    assert_int_equal(vrsim_card_used(0), 0);
}

static void large_blocks_take_whole_slots(void **state)
{
    (void)state;
    CUdeviceptr a = take(MIB + 1);
    assert_int_equal(vrsim_card_used(0), 2 * MIB);
    CUdeviceptr b = take(2 * MIB + 1);
    assert_int_equal(vrsim_card_used(0), 6 * MIB);
    assert_int_equal(a % (2 * MIB), 0);
    assert_int_equal(b % (2 * MIB), 0);
    give(a);
    give(b);
    assert_int_equal(vrsim_card_used(0), 0);
}

static void zero_and_null(void **state)
{
    CUdeviceptr address = 77;
    size_t total = 0;
    (void)state;
    assert_int_equal(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree(0), CUDA_SUCCESS);
    assert_int_equal(cuMemGetInfo(NULL, &total), CUDA_SUCCESS);
    assert_int_equal(total, (size_t)139 << 30);
    assert_int_equal(cuMemGetInfo(NULL, NULL), CUDA_SUCCESS);
}

static void bad_frees(void **state)
{
    (void)state;
    CUdeviceptr address = take(4096);
    assert_int_equal(cuMemFree(address + 512), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree(512), CUDA_ERROR_INVALID_VALUE);
    give(address);
    assert_int_equal(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

static void scattered_memory_serves_one_block(void **state)
{
    enum { BLOCKS = 34 };
    CUdeviceptr blocks[BLOCKS], big = 0;
    size_t free_bytes;
    (void)state;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(4 * GIB);
    assert_int_equal(cuMemAlloc(&big, 4 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < BLOCKS; i += 2)
        give(blocks[i]);
    assert_int_equal(cuMemGetInfo(&free_bytes, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&big, free_bytes), CUDA_SUCCESS);
    assert_int_equal(cuMemGetInfo(&free_bytes, NULL), CUDA_SUCCESS);
    assert_int_equal(free_bytes, 0);
}

/* Random sizes against a plain sum. */
static void used_is_what_the_rule_says(void **state)
{
    enum { LIVE = 64, STEPS = 3000 };
    CUdeviceptr live[LIVE] = {0};
    uint64_t slots[LIVE] = {0}, large = 0, random = 12345;
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        int at = (int)(random >> 33) % LIVE;
        if (live[at] != 0) {
            give(live[at]);
            large -= slots[at];
            live[at] = 0;
            continue;
        }
        size_t bytes = (size_t)(random >> 20) % (8 * MIB) + 1;
        live[at] = take(bytes);
        slots[at] = bytes > MIB ? (bytes + 2 * MIB - 1) / (2 * MIB) * 2 * MIB : 0;
        large += slots[at];
        assert_true(vrsim_card_used(0) >= large);
        assert_true(vrsim_card_used(0) <= large + LIVE * 2 * MIB);
    }
    for (int at = 0; at < LIVE; at++)
        if (live[at] != 0)
            give(live[at]);
    assert_int_equal(vrsim_card_used(0), 0);
}

static void bytes_really_move(void **state)
{
    unsigned char out[1000], back[1000];
    (void)state;
    CUdeviceptr huge = take(100 * GIB), small = take(1000);
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 7);
    assert_int_equal(cuMemcpyHtoD(small, out, sizeof(out)), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoD(huge + 99 * GIB + 5, small, sizeof(out)), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8(small, 0, sizeof(out)), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(back, huge + 99 * GIB + 5, sizeof(back)), CUDA_SUCCESS);
    assert_memory_equal(out, back, sizeof(out));
    assert_int_equal(cuMemsetD32(small, 0x01020304, 250), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH(back, small, sizeof(back)), CUDA_SUCCESS);
    assert_int_equal(back[996], 4);
    assert_int_equal(back[999], 1);
    assert_int_equal(cuMemcpyDtoH(back, small + 512, 489), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoH(back, 4096, 1), CUDA_ERROR_INVALID_VALUE);
}

static void pitch_and_range(void **state)
{
    CUdeviceptr address, base;
    size_t pitch, bytes;
    (void)state;
    assert_int_equal(cuMemAllocPitch(&address, &pitch, 513, 3, 4), CUDA_SUCCESS);
    assert_int_equal(pitch, 1024);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, address + 3071), CUDA_SUCCESS);
    assert_int_equal(base, address);
    assert_int_equal(bytes, 3072);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, address + 3072), CUDA_ERROR_NOT_FOUND);
    address = take(100);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, address + 99), CUDA_SUCCESS);
    assert_int_equal(cuMemGetAddressRange(&base, &bytes, address + 100), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuMemAllocPitch(&address, &pitch, 10, 3, 5), CUDA_ERROR_INVALID_VALUE);
}

static unsigned long long buffer_id(CUdeviceptr address)
{
    unsigned long long id = 0;
    assert_int_equal(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address),
                     CUDA_SUCCESS);
    return id;
}

static void buffer_ids_are_new_on_reuse(void **state)
{
    (void)state;
    CUdeviceptr first = take(4096);
    unsigned long long id = buffer_id(first);
    assert_int_equal(buffer_id(first + 100), id);
    give(first);
    CUdeviceptr second = take(4096);
    assert_int_equal(second, first);
    assert_true(buffer_id(second) != id);
}

static void contexts_own_their_memory(void **state)
{
    CUcontext primary, other;
    CUdeviceptr address;
    (void)state;
    assert_int_equal(cuCtxGetCurrent(&primary), CUDA_SUCCESS);
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    address = take(3 * MIB);
    CUdeviceptr second = take(5);
    assert_int_equal(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    give(address); /* from another context of the device */
    assert_int_equal(cuCtxDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(second), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxSetCurrent(other), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxPopCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(NULL), CUDA_SUCCESS);
    address = take(100); /* none current */
    give(address);
    assert_int_equal(cuMemGetInfo(NULL, NULL), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuCtxSetCurrent(primary), CUDA_SUCCESS);
}

static void reset_frees_everything(void **state)
{
    CUcontext context;
    (void)state;
    CUdeviceptr address = take(100);
    take(10 * MIB);
    assert_int_equal(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 0);
    assert_int_equal(cuMemGetInfo(NULL, NULL), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

static void pools_reuse_in_stream_order(void **state)
{
    CUstream one, two;
    CUdeviceptr a, b, c;
    CUmemoryPool pool;
    cuuint64_t keep = UINT64_MAX, reserved = 0, used = 0;
    (void)state;
    assert_int_equal(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&a, 1000, one), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 32 * MIB);
    assert_int_equal(vrsim_launch(one, 1000000, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(a, one), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(a, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAllocAsync(&b, 1000, two), CUDA_SUCCESS);
    assert_true(b != a); /* the kernel may still run */
    assert_int_equal(cuMemAllocAsync(&c, 1000, one), CUDA_SUCCESS);
    assert_int_equal(c, a);
    assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
                     CUDA_SUCCESS);
    assert_int_equal(used, 2000);
    assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
                     CUDA_SUCCESS);
    assert_int_equal(cuMemFree(b), CUDA_SUCCESS); /* any free takes it */
    assert_int_equal(cuMemFreeAsync(c, one), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
                     CUDA_SUCCESS);
    assert_int_equal(reserved, 32 * MIB);
    keep = 0;
    assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
                     CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 0);
}

static void async_free_of_a_plain_block(void **state)
{
    CUstream stream;
    (void)state;
    assert_int_equal(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
    CUdeviceptr address = take(3 * MIB);
    assert_int_equal(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 0);
}

static void mapping_by_handle(void **state)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr place;
    char byte = 9;
    (void)state;
    assert_int_equal(cuMemAddressReserve(&place, 64 * MIB, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemCreate(&handle, 4 * MIB + 1, &properties, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemCreate(&handle, 4 * MIB, &properties, 0), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 4 * MIB);
    assert_int_equal(cuMemMap(place, 2 * MIB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuMemMap(place, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyHtoD(place, &byte, 1), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    assert_int_equal(cuMemSetAccess(place, 4 * MIB, &access, 1), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyHtoD(place + 3 * MIB, &byte, 1), CUDA_SUCCESS);
    byte = 0;
    assert_int_equal(cuMemcpyDtoH(&byte, place + 3 * MIB, 1), CUDA_SUCCESS);
    assert_int_equal(byte, 9);
    assert_int_equal(cuMemFree(place), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 4 * MIB); /* still mapped */
    assert_int_equal(cuMemAddressFree(place, 64 * MIB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemUnmap(place, 4 * MIB), CUDA_SUCCESS);
    assert_int_equal(vrsim_card_used(0), 0);
    assert_int_equal(cuMemAddressFree(place, 64 * MIB), CUDA_SUCCESS);
}

static void host_and_managed(void **state)
{
    CUdeviceptr managed;
    void *host;
    (void)state;
    assert_int_equal(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    memset((void *)(uintptr_t)managed, 3, 100);
    assert_int_equal(cuMemFree(managed), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocHost(&host, 100), CUDA_SUCCESS);
    assert_int_equal(cuMemFree((CUdeviceptr)(uintptr_t)host), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeHost(host), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

/* Runs the check in a child; its status is the result. */
static int in_child(int (*check)(const void *), const void *argument)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(check(argument));
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int child_calls(const void *argument)
{
    CUdeviceptr address;
    bool right = cuMemAlloc(&address, 5) == CUDA_ERROR_NOT_INITIALIZED &&
                 cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                 cuMemFree(*(const CUdeviceptr *)argument) == CUDA_ERROR_NOT_INITIALIZED;
    return right ? 0 : 1;
}

static void forked_children_are_not_initialised(void **state)
{
    (void)state;
    CUdeviceptr address = take(100);
    assert_int_equal(in_child(child_calls, &address), 0);
    give(address);
}

static void late_call(void)
{
    CUdeviceptr address;
    _exit(cuMemAlloc(&address, 5) == CUDA_ERROR_DEINITIALIZED ? 0 : 1);
}

/* A handler from before cuInit runs after the driver's own. */
static int exit_after_driver(const void *path)
{
    (void)path;
    execl("/proc/self/exe", "test_sim_memory", "late", (char *)NULL);
    return 1;
}

static void calls_after_exit_are_deinitialised(void **state)
{
    (void)state;
    assert_int_equal(in_child(exit_after_driver, NULL), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "late") == 0) {
        CUcontext context;
        atexit(late_call);
        bool ready = cuInit(0) == CUDA_SUCCESS &&
                     cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                     cuCtxSetCurrent(context) == CUDA_SUCCESS;
        exit(ready ? 2 : 3);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_blocks_share_two_mib, setup, teardown),
        cmocka_unit_test_setup_teardown(large_blocks_take_whole_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(zero_and_null, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_frees, setup, teardown),
        cmocka_unit_test_setup_teardown(scattered_memory_serves_one_block, setup, teardown),
        cmocka_unit_test_setup_teardown(used_is_what_the_rule_says, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_really_move, setup, teardown),
        cmocka_unit_test_setup_teardown(pitch_and_range, setup, teardown),
        cmocka_unit_test_setup_teardown(buffer_ids_are_new_on_reuse, setup, teardown),
        cmocka_unit_test_setup_teardown(contexts_own_their_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(reset_frees_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_reuse_in_stream_order, setup, teardown),
        cmocka_unit_test_setup_teardown(async_free_of_a_plain_block, setup, teardown),
        cmocka_unit_test_setup_teardown(mapping_by_handle, setup, teardown),
        cmocka_unit_test_setup_teardown(host_and_managed, setup, teardown),
        cmocka_unit_test_setup_teardown(forked_children_are_not_initialised, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_after_exit_are_deinitialised, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
