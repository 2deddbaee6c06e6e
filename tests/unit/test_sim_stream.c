/* test_sim_stream.c - the virtual clock, the order of streams, events, host functions, faults, and
 * the switches that fail and block calls.
 *
 * Linked with the simulator itself. Every test begins with the primary context of device 0 current.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "../sim/vrsim.h"

#define MS ((uint64_t)1000000)

static CUstream non_blocking, other, blocking;

static int setup(void **state)
{
    CUcontext context;
    *state = NULL;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&non_blocking, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cuDevicePrimaryCtxReset(0);
    return 0;
}

static void run(CUstream stream, uint64_t ns)
{
    assert_int_equal(vrsim_launch(stream, ns, 0, NULL), CUDA_SUCCESS);
}

static void queries_follow_the_clock(void **state)
{
    (void)state;
    run(non_blocking, 5 * MS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(other), CUDA_SUCCESS);
    vrsim_advance(4 * MS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_ERROR_NOT_READY);
    vrsim_advance(1 * MS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_SUCCESS);
}

static void waits_move_the_clock(void **state)
{
    (void)state;
    uint64_t before = vrsim_now();
    run(non_blocking, 5 * MS);
    run(other, 9 * MS);
    assert_int_equal(cuStreamSynchronize(non_blocking), CUDA_SUCCESS);
    assert_in_range(vrsim_now() - before, 5 * MS, 6 * MS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_in_range(vrsim_now() - before, 9 * MS, 10 * MS);
}

static void legacy_and_blocking_streams_wait_for_each_other(void **state)
{
    (void)state;
    run(blocking, 5 * MS);
    run(NULL, 1 * MS);
    run(non_blocking, 1 * MS);
    vrsim_advance(2 * MS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    run(blocking, 1 * MS); /* behind the legacy kernel */
    vrsim_advance(4 * MS);
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamSynchronize(blocking), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
}

static void *thread_stream_id(void *out)
{
    CUcontext context;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuStreamGetId(CU_STREAM_PER_THREAD, out);
    return NULL;
}

static void threads_have_streams_of_their_own(void **state)
{
    unsigned long long mine = 0, again = 0, theirs = 0, legacy = 0;
    pthread_t thread;
    (void)state;
    assert_int_equal(cuStreamGetId(CU_STREAM_PER_THREAD, &mine), CUDA_SUCCESS);
    assert_int_equal(cuStreamGetId(CU_STREAM_PER_THREAD, &again), CUDA_SUCCESS);
    assert_int_equal(cuStreamGetId(NULL, &legacy), CUDA_SUCCESS);
    assert_int_equal(pthread_create(&thread, NULL, thread_stream_id, &theirs), 0);
    pthread_join(thread, NULL);
    assert_true(mine == again && mine != legacy && mine != theirs && theirs != legacy);
}

static void events_order_streams(void **state)
{
    CUevent event;
    (void)state;
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS); /* never recorded */
    run(non_blocking, 5 * MS);
    assert_int_equal(cuEventRecord(event, non_blocking), CUDA_SUCCESS);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    run(other, 1 * MS);
    run(non_blocking, 50 * MS);
    vrsim_advance(5 * MS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    vrsim_advance(1 * MS);
    assert_int_equal(cuStreamQuery(other), CUDA_SUCCESS);
}

static void context_events_wait_for_everything(void **state)
{
    CUevent event;
    (void)state;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    run(non_blocking, 5 * MS);
    run(blocking, 7 * MS);
    run(CU_STREAM_PER_THREAD, 6 * MS);
    assert_int_equal(cuCtxRecordEvent(NULL, event), CUDA_SUCCESS);
    vrsim_advance(6 * MS);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    vrsim_advance(1 * MS);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
}

static void work_outlives_its_stream(void **state)
{
    CUstream stream;
    CUevent event;
    (void)state;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    run(stream, 5 * MS);
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxRecordEvent(NULL, event), CUDA_SUCCESS);
    vrsim_advance(4 * MS);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    uint64_t begin_ns = vrsim_now();
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_true(vrsim_now() - begin_ns > MS / 2);
    assert_int_equal(cuEventQuery(event), CUDA_SUCCESS);
}

static void frees_wait_for_the_gpu(void **state)
{
    CUdeviceptr address, neighbour;
    (void)state;
    assert_int_equal(cuMemAlloc(&neighbour, 256), CUDA_SUCCESS);
    run(non_blocking, 50 * MS);
    assert_int_equal(cuMemAlloc(&address, 256), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_ERROR_NOT_READY); /* alloc did not wait */
    assert_int_equal(cuMemFree(address), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_SUCCESS);
}

static void nap(void)
{
    const struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
}

static void *set_later(void *flag)
{
    nap();
    __atomic_store_n((volatile int *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void spinning_kernels_end_by_their_flag(void **state)
{
    static volatile int flag;
    pthread_t thread;
    (void)state;
    assert_int_equal(vrsim_launch_spin(non_blocking, &flag, 0, NULL), CUDA_SUCCESS);
    vrsim_advance(1000 * MS);
    assert_int_equal(cuStreamQuery(non_blocking), CUDA_ERROR_NOT_READY);
    assert_int_equal(pthread_create(&thread, NULL, set_later, (void *)(uintptr_t)&flag), 0);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(flag, 1);
    pthread_join(thread, NULL);
}

struct answers {
    CUresult alloc, current, free_result;
    volatile int done;
    uint64_t at;
};

static void in_callback(void *argument)
{
    struct answers *answers = argument;
    CUdeviceptr address;
    CUcontext context;
    answers->at = vrsim_now();
    answers->alloc = cuMemAlloc(&address, 10);
    answers->current = cuCtxGetCurrent(&context);
    answers->free_result = cuMemFree(0);
    nap();
    __atomic_store_n(&answers->done, 1, __ATOMIC_RELEASE);
}

static void callbacks_may_not_call(void **state)
{
    struct answers answers = {0};
    CUdeviceptr address;
    (void)state;
    uint64_t before = vrsim_now();
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_SUCCESS);
    run(non_blocking, 3 * MS);
    assert_int_equal(cuLaunchHostFunc(non_blocking, in_callback, &answers), CUDA_SUCCESS);
    assert_int_equal(cuMemFree(address), CUDA_SUCCESS); /* waits for it */
    assert_int_equal(answers.done, 1);
    assert_true(answers.at >= before + 3 * MS);
    assert_int_equal(answers.alloc, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(answers.current, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(answers.free_result, CUDA_ERROR_NOT_PERMITTED);
}

static void callbacks_run_without_any_call(void **state)
{
    struct answers answers = {0};
    (void)state;
    run(non_blocking, 3 * MS);
    assert_int_equal(cuLaunchHostFunc(non_blocking, in_callback, &answers), CUDA_SUCCESS);
    for (int i = 0; i < 1000 && !__atomic_load_n(&answers.done, __ATOMIC_ACQUIRE); i++)
        nap();
    assert_int_equal(answers.done, 1);
}

static void faults_last_until_reset(void **state)
{
    CUdeviceptr address;
    CUcontext context;
    CUstreamCaptureStatus status;
    unsigned long long id;
    (void)state;
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_SUCCESS);
    assert_int_equal(vrsim_launch_fault(non_blocking, 1 * MS, CUDA_ERROR_ILLEGAL_ADDRESS),
                     CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(other), CUDA_SUCCESS); /* not yet */
    assert_int_equal(cuMemFree(address), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemGetInfo(NULL, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAllocAsync(&address, 10, other), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuStreamIsCapturing(other, &status), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuCtxGetId(NULL, &id), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_SUCCESS);
}

static void stream_handles_come_back_ids_do_not(void **state)
{
    CUstream again;
    unsigned long long old_id, new_id;
    (void)state;
    assert_int_equal(cuStreamGetId(other, &old_id), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(other), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamCreate(&again, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_ptr_equal(again, other);
    assert_int_equal(cuStreamGetId(again, &new_id), CUDA_SUCCESS);
    assert_true(new_id != old_id);
}

static void ordered_failures(void **state)
{
    CUdeviceptr address;
    (void)state;
    assert_int_equal(vrsim_fail("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
    assert_int_equal(vrsim_fail("no_such_function", 2, CUDA_ERROR_OUT_OF_MEMORY), -1);
    uint64_t calls = vrsim_calls("cuMemAlloc_v2");
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc(&address, 10), CUDA_SUCCESS);
    assert_int_equal(vrsim_calls("cuMemAlloc_v2"), calls + 3);
    vrsim_fail("cuMemFree_v2", 0, CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuMemFree(address), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuMemFree(address), CUDA_ERROR_UNKNOWN);
    vrsim_fail("cuMemFree_v2", 0, CUDA_SUCCESS);
    assert_int_equal(cuMemFree(address), CUDA_SUCCESS);
}

static void *one_alloc(void *out)
{
    CUdeviceptr address;
    cuMemAlloc(&address, 10);
    __atomic_store_n((volatile int *)out, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void blocked_calls(void **state)
{
    static volatile int done;
    pthread_t thread;
    (void)state;
    assert_int_equal(vrsim_block("cuMemAlloc_v2"), 0);
    assert_int_equal(pthread_create(&thread, NULL, one_alloc, (void *)(uintptr_t)&done), 0);
    while (vrsim_blocked("cuMemAlloc_v2") == 0)
        nap();
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); /* others go on */
    assert_int_equal(done, 0);
    assert_int_equal(vrsim_unblock("cuMemAlloc_v2"), 0);
    pthread_join(thread, NULL);
    assert_int_equal(done, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(queries_follow_the_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(waits_move_the_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(legacy_and_blocking_streams_wait_for_each_other, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(threads_have_streams_of_their_own, setup, teardown),
        cmocka_unit_test_setup_teardown(events_order_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(context_events_wait_for_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(work_outlives_its_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(frees_wait_for_the_gpu, setup, teardown),
        cmocka_unit_test_setup_teardown(spinning_kernels_end_by_their_flag, setup, teardown),
        cmocka_unit_test_setup_teardown(callbacks_may_not_call, setup, teardown),
        cmocka_unit_test_setup_teardown(callbacks_run_without_any_call, setup, teardown),
        cmocka_unit_test_setup_teardown(faults_last_until_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(stream_handles_come_back_ids_do_not, setup, teardown),
        cmocka_unit_test_setup_teardown(ordered_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(blocked_calls, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
