/* test_sim_oracle.c - the hazard oracle: planted faults are caught, correct programs raise none.
 *
 * A fault is planted by handing out memory of our own: one driver block stands for a pool's arena,
 * and the test says which program blocks begin and end in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../sim/vrsim.h"

enum { BYTES = 4096 };
#define MS ((uint64_t)1000000)

static CUstream one, two;
static CUdeviceptr arena;

static int setup(void **state)
{
    CUcontext context;
    *state = NULL;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&arena, 1 << 21), CUDA_SUCCESS);
    vrsim_hazards_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cuDevicePrimaryCtxReset(0);
    vrsim_hazards_reset();
    return 0;
}

static void touch(CUstream stream, CUdeviceptr address)
{
    struct vrsim_range range = {address, BYTES, 1};
    assert_int_equal(vrsim_launch(stream, MS, 1, &range), CUDA_SUCCESS);
}

/* The block has a new owner. */
static void hand_over(CUdeviceptr address)
{
    assert_int_equal(vrsim_note_free(address), 1);
    vrsim_note_alloc(address, BYTES);
}

static void early_reuse_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    hand_over(arena);
    touch(two, arena);
    assert_int_equal(vrsim_hazards(), 1);
}

/* Time passing is luck, not order. */
static void luck_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    hand_over(arena);
    vrsim_advance(10 * MS);
    touch(two, arena);
    assert_int_equal(vrsim_hazards(), 1);
}

static void partial_overlap_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, 4 * BYTES);
    struct vrsim_range last = {arena + 3 * BYTES, 1, 0};
    assert_int_equal(vrsim_launch(one, MS, 1, &last), CUDA_SUCCESS);
    vrsim_note_free(arena);
    vrsim_note_alloc(arena, BYTES);
    vrsim_note_alloc(arena + 3 * BYTES, BYTES);
    touch(two, arena);
    assert_int_equal(vrsim_hazards(), 0);
    touch(two, arena + 3 * BYTES);
    assert_int_equal(vrsim_hazards(), 1);
}

static void same_stream_is_ordered(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    hand_over(arena);
    touch(one, arena);
    assert_int_equal(vrsim_hazards(), 0);
}

static void host_waits_are_order(void **state)
{
    CUevent event;
    (void)state;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    hand_over(arena);
    touch(two, arena);
    assert_int_equal(cuCtxRecordEvent(NULL, event), CUDA_SUCCESS);
    hand_over(arena);
    vrsim_advance(10 * MS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS); /* seen by the host */
    touch(one, arena);
    assert_int_equal(vrsim_hazards(), 0);
}

static void events_between_streams_are_order(void **state)
{
    CUevent event;
    (void)state;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    assert_int_equal(cuEventRecord(event, one), CUDA_SUCCESS);
    touch(one, arena); /* after the event: not covered by it */
    hand_over(arena);
    assert_int_equal(cuStreamWaitEvent(two, event, 0), CUDA_SUCCESS);
    touch(two, arena);
    assert_int_equal(vrsim_hazards(), 1);
    assert_int_equal(cuEventRecord(event, one), CUDA_SUCCESS);
    assert_int_equal(cuStreamWaitEvent(two, event, 0), CUDA_SUCCESS);
    touch(two, arena);
    assert_int_equal(vrsim_hazards(), 1);
}

static void legacy_stream_is_order(void **state)
{
    CUstream blocking;
    (void)state;
    assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    vrsim_note_alloc(arena, BYTES);
    touch(blocking, arena);
    hand_over(arena);
    touch(NULL, arena);
    hand_over(arena);
    touch(CU_STREAM_PER_THREAD, arena);
    assert_int_equal(vrsim_hazards(), 0);
    hand_over(arena);
    touch(blocking, arena); /* not ordered with the thread's stream */
    assert_int_equal(vrsim_hazards(), 1);
}

static void use_after_free_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    assert_int_equal(vrsim_note_free(arena), 1);
    touch(one, arena);
    assert_int_equal(vrsim_hazards(), 1);
    assert_int_equal(cuMemsetD8(arena + 10, 0, 10), CUDA_SUCCESS);
    assert_int_equal(vrsim_hazards(), 2);
}

static void a_failed_free_ends_nothing(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    assert_int_equal(vrsim_note_free(arena), 1);
    vrsim_note_free_failed(arena);
    touch(one, arena);
    assert_int_equal(vrsim_note_free(arena), 1);
    assert_int_equal(vrsim_note_free(arena), 0);
    assert_int_equal(vrsim_hazards(), 0);
}

static void a_block_handed_out_twice_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    vrsim_note_alloc(arena + BYTES, BYTES);
    assert_int_equal(vrsim_hazards(), 0);
    vrsim_note_alloc(arena + BYTES - 1, 1);
    assert_int_equal(vrsim_hazards(), 1);
}

static void memory_given_back_under_a_block_is_caught(void **state)
{
    (void)state;
    vrsim_note_alloc(arena + BYTES, BYTES);
    assert_int_equal(cuMemFree(arena), CUDA_SUCCESS);
    assert_int_equal(vrsim_hazards(), 1);
}

/* Where the card's memory was once, the host's may be now. */
static void copies_to_the_host_are_no_use_of_freed_memory(void **state)
{
    (void)state;
    static char host[BYTES];
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)host;
    vrsim_note_alloc(address, BYTES);
    assert_int_equal(vrsim_note_free(address), 1);
    assert_int_equal(cuMemcpyDtoH(host, arena + (1 << 20), BYTES), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyHtoD(arena + (1 << 20), host, BYTES), CUDA_SUCCESS);
    assert_int_equal(vrsim_hazards(), 0);
}

/* A reused handle is another stream: no order with the old one's work. */
static void reused_stream_handle_is_no_order(void **state)
{
    CUstream again;
    (void)state;
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    assert_int_equal(cuStreamDestroy(one), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&again, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ptr_equal(again, one);
    hand_over(arena);
    touch(again, arena);
    assert_int_equal(vrsim_hazards(), 1);
}

/* Memory by handle: only a device that was let at it may use it. */
static void access_that_was_not_allowed_is_caught(void **state)
{
    (void)state;
    size_t bytes = 2 << 21;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle[2];
    CUmemAllocationProp memory = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = memory.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_int_equal(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(cuMemCreate(&handle[i], bytes / 2, &memory, 0), CUDA_SUCCESS);
        assert_int_equal(cuMemMap(address + i * bytes / 2, bytes / 2, 0, handle[i], 0),
                         CUDA_SUCCESS);
        assert_int_equal(cuMemRelease(handle[i]), CUDA_SUCCESS);
    }
    touch(one, address);
    assert_int_equal(vrsim_hazards(), 1);
    assert_int_equal(cuMemSetAccess(address, bytes / 2, &access, 1), CUDA_SUCCESS);
    touch(one, address);
    assert_int_equal(vrsim_hazards(), 1);
    touch(one, address + bytes / 2 - BYTES / 2); /* the second half is not reached */
    assert_int_equal(vrsim_hazards(), 2);
    access.location.id = 77;
    assert_int_equal(cuMemSetAccess(address, bytes, &access, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuMemUnmap(address, bytes), CUDA_SUCCESS);
    assert_int_equal(cuMemAddressFree(address, bytes), CUDA_SUCCESS);
}

/* The driver's own calls, used rightly at random, raise nothing. */
static void correct_programs_raise_nothing(void **state)
{
    enum { LIVE = 8, STEPS = 2000 };
    CUdeviceptr live[LIVE] = {0};
    CUstream of[LIVE] = {0};
    uint64_t random = 99;
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        int at = (int)(random >> 33) % LIVE;
        CUstream stream = (random >> 40) & 1 ? one : two;
        if (live[at] == 0) {
            of[at] = stream;
            assert_int_equal(cuMemAllocAsync(&live[at], BYTES, stream), CUDA_SUCCESS);
            vrsim_note_alloc_async(live[at], BYTES, stream);
            touch(stream, live[at]);
        } else if ((random >> 41) & 1) {
            touch(of[at], live[at]);
        } else {
            vrsim_note_free_async(live[at], of[at]);
            CUresult result =
                (random >> 42) & 1 ? cuMemFree(live[at]) : cuMemFreeAsync(live[at], of[at]);
            assert_int_equal(result, CUDA_SUCCESS);
            live[at] = 0;
        }
        if ((random >> 43) % 16 == 0)
            vrsim_advance(MS / 2);
    }
    assert_int_equal(vrsim_hazards(), 0);
}

/* What stderr got while `act` ran. */
static void told(char *text, size_t room, void (*act)(void))
{
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    act();
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t length = read(ends[0], text, room - 1);
    close(ends[0]);
    text[length < 0 ? 0 : length] = '\0';
}

static uint64_t identity(CUstream stream)
{
    unsigned long long id = 0;
    assert_int_equal(cuStreamGetId(stream, &id), CUDA_SUCCESS);
    return id;
}

static void reuse_early(void)
{
    vrsim_note_alloc(arena, BYTES);
    touch(one, arena);
    hand_over(arena);
    touch(two, arena);
}

static void use_late(void)
{
    vrsim_note_alloc(arena + BYTES, 3 * BYTES);
    vrsim_note_free_async(arena + BYTES, two);
    touch(one, arena + 2 * BYTES);
}

/* Both operations with their streams, or how the block ended. */
static void a_hazard_names_both_sides(void **state)
{
    char text[2048], wanted[256];
    (void)state;
    told(text, sizeof(text), reuse_early);
    snprintf(wanted, sizeof(wanted), "of stream %llu, 4096 bytes at",
             (unsigned long long)identity(one));
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "earlier: kernel, operation "));
    snprintf(wanted, sizeof(wanted), "of stream %llu, 4096 bytes at 0x%llx of",
             (unsigned long long)identity(two), (unsigned long long)arena);
    assert_non_null(strstr(text, "now, with no order between: kernel, operation "));
    assert_non_null(strstr(text, wanted));
    told(text, sizeof(text), use_late);
    snprintf(wanted, sizeof(wanted), "12288 bytes at 0x%llx, freed on stream %llu",
             (unsigned long long)(arena + BYTES), (unsigned long long)identity(two));
    assert_non_null(strstr(text, wanted));
    assert_int_equal(vrsim_hazards(), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(early_reuse_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(luck_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(partial_overlap_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(same_stream_is_ordered, setup, teardown),
        cmocka_unit_test_setup_teardown(host_waits_are_order, setup, teardown),
        cmocka_unit_test_setup_teardown(events_between_streams_are_order, setup, teardown),
        cmocka_unit_test_setup_teardown(legacy_stream_is_order, setup, teardown),
        cmocka_unit_test_setup_teardown(use_after_free_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_free_ends_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_handed_out_twice_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_given_back_under_a_block_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_to_the_host_are_no_use_of_freed_memory, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(reused_stream_handle_is_no_order, setup, teardown),
        cmocka_unit_test_setup_teardown(access_that_was_not_allowed_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hazard_names_both_sides, setup, teardown),
        cmocka_unit_test_setup_teardown(correct_programs_raise_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
