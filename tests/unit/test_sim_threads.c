/* test_sim_threads.c - the simulator under threads: correct programs raise no hazard and leave the
 * card empty; a free that waits holds up the beginning of a capture; an endless loop of
 * asynchronous work stays quick.
 *
 * Linked with the simulator itself; meant for ThreadSanitizer as well.
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

enum { THREADS = 6, STEPS = 400, LIVE = 8 };

static CUcontext context;

static int setup(void **state)
{
    *state = NULL;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    vrsim_hazards_reset();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cuDevicePrimaryCtxReset(0);
    return 0;
}

static void nap(void)
{
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
}

struct worker {
    pthread_t thread;
    uint64_t random;
    uint64_t errors;
    CUstream stream;
    CUdeviceptr live[LIVE];
};

static void worker_give(struct worker *worker, int at, int async)
{
    vrsim_note_free(worker->live[at]);
    CUresult result =
        async ? cuMemFreeAsync(worker->live[at], worker->stream) : cuMemFree(worker->live[at]);
    worker->errors += result != CUDA_SUCCESS;
    worker->live[at] = 0;
}

static void worker_take(struct worker *worker, int at, size_t bytes, int async)
{
    CUresult result = async ? cuMemAllocAsync(&worker->live[at], bytes, worker->stream)
                            : cuMemAlloc(&worker->live[at], bytes);
    worker->errors += result != CUDA_SUCCESS;
    vrsim_note_alloc(worker->live[at], bytes);
    struct vrsim_range range = {worker->live[at], bytes, 1};
    worker->errors += vrsim_launch(worker->stream, 20000, 1, &range) != CUDA_SUCCESS;
}

static void *worker_run(void *argument)
{
    struct worker *worker = argument;
    cuCtxSetCurrent(context);
    worker->errors += cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    for (int step = 0; step < STEPS; step++) {
        worker->random = worker->random * 6364136223846793005U + 1442695040888963407U;
        int at = (int)(worker->random >> 33) % LIVE, async = (worker->random >> 40) & 1;
        if (worker->live[at] != 0)
            worker_give(worker, at, async);
        else
            worker_take(worker, at, (size_t)(worker->random >> 45) * 8 + 1, async);
    }
    for (int at = 0; at < LIVE; at++)
        if (worker->live[at] != 0)
            worker_give(worker, at, 1);
    return NULL;
}

static void many_threads_raise_nothing(void **state)
{
    static struct worker workers[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = (uint64_t)i + 1;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].errors, 0);
    }
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(vrsim_hazards(), 0);
    assert_int_equal(vrsim_card_used(0), 0);
}

static volatile int kernel_flag;
static int order[2], order_count;

static void *free_waiting(void *address)
{
    cuCtxSetCurrent(context);
    CUresult result = cuMemFree(*(CUdeviceptr *)address);
    order[__atomic_fetch_add(&order_count, 1, __ATOMIC_SEQ_CST)] = 1;
    return (void *)(intptr_t)result;
}

static void *capture_beginning(void *stream)
{
    cuCtxSetCurrent(context);
    CUresult result = cuStreamBeginCapture((CUstream)stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    order[__atomic_fetch_add(&order_count, 1, __ATOMIC_SEQ_CST)] = 2;
    return (void *)(intptr_t)result;
}

/* Both calls have entered; neither can end before the kernel. */
static void a_waiting_free_holds_up_captures(void **state)
{
    CUstream running, capturing;
    CUdeviceptr address;
    CUgraph graph;
    pthread_t freer, capturer;
    void *freed, *begun;
    (void)state;
    assert_int_equal(cuStreamCreate(&running, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&address, 256), CUDA_SUCCESS);
    assert_int_equal(vrsim_launch_spin(running, &kernel_flag, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(pthread_create(&freer, NULL, free_waiting, &address), 0);
    while (vrsim_calls("cuMemFree_v2") == 0)
        nap();
    nap();
    assert_int_equal(pthread_create(&capturer, NULL, capture_beginning, capturing), 0);
    for (int i = 0; i < 10; i++)
        nap();
    assert_int_equal(__atomic_load_n(&order_count, __ATOMIC_SEQ_CST), 0);
    __atomic_store_n(&kernel_flag, 1, __ATOMIC_RELEASE);
    pthread_join(freer, &freed);
    pthread_join(capturer, &begun);
    assert_int_equal((intptr_t)freed, CUDA_SUCCESS);
    assert_int_equal((intptr_t)begun, CUDA_SUCCESS);
    assert_int_equal(cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
}

static void endless_asynchronous_work_stays_quick(void **state)
{
    CUstream stream;
    CUdeviceptr address;
    (void)state;
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    clock_t begin = clock();
    for (int i = 0; i < 50000; i++) {
        assert_int_equal(cuMemAllocAsync(&address, 1000, stream), CUDA_SUCCESS);
        vrsim_note_alloc_async(address, 1000, stream);
        struct vrsim_range range = {address, 1000, 1};
        assert_int_equal(vrsim_launch(stream, 1000000, 1, &range), CUDA_SUCCESS);
        vrsim_note_free_async(address, stream);
        assert_int_equal(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
    }
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 20.0);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(vrsim_hazards(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_waiting_free_holds_up_captures, setup, teardown),
        cmocka_unit_test_setup_teardown(many_threads_raise_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(endless_asynchronous_work_stays_quick, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
