/* test_sim_capture.c - what each call does to a stream capture in progress, by the whole table that
 * was measured on a real driver: call, thread, mode of the capture, mode of the calling thread.
 *
 * Linked with the simulator itself.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../sim/vrsim.h"

static CUcontext context;
static CUstream capturing, idle;
static CUevent recorded;
static CUdeviceptr block;
static CUmemoryPool pool;

static int setup(void **state)
{
    *state = NULL;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&recorded, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventRecord(recorded, idle), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc(&block, 256), CUDA_SUCCESS);
    assert_int_equal(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cuDevicePrimaryCtxReset(0);
    return 0;
}

/* --- the calls of the table ---------------------------------------------------------------------
 */

static CUresult call_synchronize(void)
{
    return cuCtxSynchronize();
}

static CUresult call_context_record(void)
{
    return cuCtxRecordEvent(NULL, recorded);
}

static CUresult call_event_query(void)
{
    return cuEventQuery(recorded);
}

static CUresult call_event_synchronize(void)
{
    return cuEventSynchronize(recorded);
}

static CUresult call_stream_query(void)
{
    return cuStreamQuery(idle);
}

static CUresult call_stream_synchronize(void)
{
    return cuStreamSynchronize(idle);
}

static CUresult call_alloc(void)
{
    CUdeviceptr address;
    return cuMemAlloc(&address, 256);
}

static CUresult call_free(void)
{
    CUresult result = cuMemFree(block);
    if (result == CUDA_SUCCESS)
        cuMemAlloc(&block,
                   256); /* for the next case; the thread's mode allows it as it did the free */
    return result;
}

static CUresult call_alloc_async(void)
{
    CUdeviceptr address;
    return cuMemAllocAsync(&address, 256, idle);
}

static CUresult call_pool_get(void)
{
    cuuint64_t value;
    return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
}

static CUresult call_event_record(void)
{
    return cuEventRecord(recorded, idle);
}

static CUresult call_wait_event(void)
{
    return cuStreamWaitEvent(idle, recorded, 0);
}

static CUresult call_launch(void)
{
    return vrsim_launch(idle, 10, 0, NULL);
}

static CUresult call_create(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUresult result = cuMemCreate(&handle, 2 << 20, &properties, 0);
    return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

static CUresult call_info(void)
{
    return cuMemGetInfo(NULL, NULL);
}

static CUresult call_pointer(void)
{
    unsigned long long id;
    return cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block);
}

static CUresult call_is_capturing(void)
{
    CUstreamCaptureStatus status;
    return cuStreamIsCapturing(idle, &status);
}

static CUresult call_stream_id(void)
{
    unsigned long long id;
    return cuStreamGetId(idle, &id);
}

enum kind { SPOILS_ALWAYS, SPOILS_BY_MODE, SPOILS_NEVER };

static const struct {
    const char *name;
    CUresult (*call)(void);
    enum kind kind;
} calls[] = {
    {"cuCtxSynchronize", call_synchronize, SPOILS_ALWAYS},
    {"cuCtxRecordEvent", call_context_record, SPOILS_ALWAYS},
    {"cuEventQuery", call_event_query, SPOILS_BY_MODE},
    {"cuEventSynchronize", call_event_synchronize, SPOILS_BY_MODE},
    {"cuStreamQuery", call_stream_query, SPOILS_BY_MODE},
    {"cuStreamSynchronize", call_stream_synchronize, SPOILS_BY_MODE},
    {"cuMemAlloc", call_alloc, SPOILS_BY_MODE},
    {"cuMemFree", call_free, SPOILS_BY_MODE},
    {"cuMemAllocAsync", call_alloc_async, SPOILS_BY_MODE},
    {"cuMemPoolGetAttribute", call_pool_get, SPOILS_BY_MODE},
    {"cuEventRecord", call_event_record, SPOILS_NEVER},
    {"cuStreamWaitEvent", call_wait_event, SPOILS_NEVER},
    {"kernel launch", call_launch, SPOILS_NEVER},
    {"cuMemCreate", call_create, SPOILS_NEVER},
    {"cuMemGetInfo", call_info, SPOILS_NEVER},
    {"cuPointerGetAttribute", call_pointer, SPOILS_NEVER},
    {"cuStreamIsCapturing", call_is_capturing, SPOILS_NEVER},
    {"cuStreamGetId", call_stream_id, SPOILS_NEVER},
};

/* --- one case
 * -------------------------------------------------------------------------------------- */

struct attempt {
    CUresult (*call)(void);
    bool relaxed; /* exchange the calling thread's mode first */
    CUresult result;
};

static void *attempt_run(void *argument)
{
    struct attempt *attempt = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuCtxSetCurrent(context);
    if (attempt->relaxed)
        cuThreadExchangeStreamCaptureMode(&mode);
    attempt->result = attempt->call();
    if (attempt->relaxed)
        cuThreadExchangeStreamCaptureMode(&mode);
    return NULL;
}

static void attempt_elsewhere(struct attempt *attempt)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, attempt_run, attempt), 0);
    pthread_join(thread, NULL);
}

/* The columns of the table. */
static bool spoils(enum kind kind, bool same_thread, CUstreamCaptureMode mode, bool relaxed)
{
    if (kind != SPOILS_BY_MODE || relaxed)
        return kind == SPOILS_ALWAYS;
    if (same_thread)
        return mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static void one_case(size_t index, bool same_thread, CUstreamCaptureMode mode, bool relaxed)
{
    struct attempt attempt = {.call = calls[index].call, .relaxed = relaxed};
    bool spoiled = spoils(calls[index].kind, same_thread, mode, relaxed);
    CUgraph graph = NULL;
    assert_int_equal(cuStreamBeginCapture(capturing, mode), CUDA_SUCCESS);
    if (same_thread)
        attempt_run(&attempt);
    else
        attempt_elsewhere(&attempt);
    CUresult end = cuStreamEndCapture(capturing, &graph);
    CUresult want = spoiled ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
    CUresult want_end = spoiled ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (attempt.result != want || end != want_end)
        fail_msg("%s, %s thread, mode %d, relaxed %d: %d/%d, not %d/%d", calls[index].name,
                 same_thread ? "same" : "other", (int)mode, relaxed, (int)attempt.result, (int)end,
                 (int)want, (int)want_end);
    assert_true((graph == NULL) == spoiled);
    if (graph != NULL)
        cuGraphDestroy(graph);
}

static void the_whole_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (int mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++)
            for (int way = 0; way < 4; way++)
                one_case(i, way & 1, (CUstreamCaptureMode)mode, way & 2);
}

/* --- the rest
 * ---------------------------------------------------------------------------------------- */

static void captured_allocation_is_a_node(void **state)
{
    CUdeviceptr address;
    CUgraph graph;
    CUgraphExec exec;
    (void)state;
    assert_int_equal(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(cuMemAllocAsync(&address, 1 << 20, capturing), CUDA_SUCCESS);
    struct vrsim_range range = {address, 1 << 20, 1};
    assert_int_equal(vrsim_launch(capturing, 1000, 1, &range), CUDA_SUCCESS);
    assert_int_equal(cuMemFreeAsync(address, capturing), CUDA_SUCCESS);
    assert_int_equal(cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphLaunch(exec, idle), CUDA_SUCCESS);
    assert_int_equal(cuGraphLaunch(exec, idle), CUDA_SUCCESS);
    assert_int_equal(cuStreamQuery(idle), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamSynchronize(idle), CUDA_SUCCESS);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

static void forked_streams_must_join(void **state)
{
    CUevent event, back;
    CUgraph graph;
    (void)state;
    assert_int_equal(cuEventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&back, 0), CUDA_SUCCESS);
    for (int joins = 0; joins < 2; joins++) {
        assert_int_equal(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL),
                         CUDA_SUCCESS);
        assert_int_equal(cuEventRecord(event, capturing), CUDA_SUCCESS);
        assert_int_equal(cuStreamWaitEvent(idle, event, 0), CUDA_SUCCESS);
        assert_int_equal(vrsim_launch(idle, 10, 0, NULL), CUDA_SUCCESS);
        if (joins) {
            assert_int_equal(cuEventRecord(back, idle), CUDA_SUCCESS);
            assert_int_equal(cuStreamWaitEvent(capturing, back, 0), CUDA_SUCCESS);
        }
        assert_int_equal(cuStreamEndCapture(capturing, &graph),
                         joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    }
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
}

static void wrong_uses(void **state)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    (void)state;
    assert_int_equal(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(capturing, &graph), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_int_equal(cuStreamIsCapturing(capturing, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(cuStreamSynchronize(capturing), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamIsCapturing(capturing, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(vrsim_launch(capturing, 1, 0, NULL), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(capturing, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void destroyed_stream_ends_its_capture(void **state)
{
    (void)state;
    assert_int_equal(cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_int_equal(cuStreamDestroy(capturing), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_whole_table, setup, teardown),
        cmocka_unit_test_setup_teardown(captured_allocation_is_a_node, setup, teardown),
        cmocka_unit_test_setup_teardown(forked_streams_must_join, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_uses, setup, teardown),
        cmocka_unit_test_setup_teardown(destroyed_stream_ends_its_capture, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
