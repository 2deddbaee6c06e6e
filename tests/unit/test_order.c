/* test_order.c - shim/fence.c, lazy_fence.c, wait.c and deferred.c on a driver of this file, so
 * that another thread's call can come at any moment: `meanwhile` is what it does during the next
 * call of a kind.
 */
#include "unit.h"

#include "../../shim/capture.h"
#include "../../shim/deferred.h"
#include "../../shim/driver.h"
#include "../../shim/fence.h"
#include "../../shim/lazy_fence.h"
#include "../../shim/options.h"
#include "../../shim/trace.h"
#include "../../shim/wait.h"

enum { BYTES = 5000, EVENTS = 64 };
#define BASE ((uint64_t)0x7e0000000000)

static struct device device;
static struct context one, two;

/* --- no trace ----------------------------------------------------------------------------- */

bool trace_on;

uint64_t trace_recent_ns(void)
{
    return 0;
}

void trace_wait(uint64_t begin_ns, int result, uint16_t context)
{
    (void)result, (void)context;
    assert_int_equal(begin_ns, 0);
}

void debug_put_off_passed(struct context *context, uint64_t fence)
{
    assert_non_null(context);
    assert_true(fence & 1);
}

void debug_put_off_forget(const struct context *context, uint64_t fence)
{
    assert_non_null(context);
    assert_true(fence & 1);
}

void trace_fence(uint64_t stream, uint16_t context)
{
    (void)stream, (void)context;
}

uint16_t context_number(const struct context *context)
{
    return context == &one ? 1 : 2;
}

/* --- the driver --------------------------------------------------------------------------- */

static struct {
    CUcontext current;
    CUcontext event_of[EVENTS]; /* the context that was current when the event was made */
    uint64_t event_time[EVENTS];
    size_t events;
    uint64_t submitted; /* a time for each record */
    uint64_t done;      /* events up to this time have passed */
    int waits;          /* cuCtxSynchronize */
    int frees;          /* cuMemFree of a tiny block */
    bool records_fail;
    CUstream recorded_on;
    int records_of_contexts;
    bool idle; /* streams have no work but the records */
    bool captures;
    uint64_t room; /* bytes of the card that nobody holds */
    void (*meanwhile)(void);
} driver;

/* Nothing is timed here. */
void latency_slow(void)
{
}

void latency_waited(uint64_t ns)
{
    (void)ns;
}

static void others_act(void)
{
    void (*act)(void) = driver.meanwhile;
    driver.meanwhile = NULL;
    if (act != NULL)
        act();
}

static CUresult get_current(CUcontext *context)
{
    *context = driver.current;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    driver.current = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    *context = driver.current;
    driver.current = NULL;
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    driver.waits++;
    others_act();
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
    (void)flags;
    assert_true(driver.events < EVENTS);
    driver.event_of[driver.events] = driver.current;
    *event = (CUevent)(uintptr_t)(++driver.events);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    driver.recorded_on = stream;
    others_act();
    size_t index = (size_t)(uintptr_t)event - 1;
    if (driver.records_fail || driver.event_of[index] != driver.current)
        return CUDA_ERROR_INVALID_HANDLE;
    driver.event_time[index] = ++driver.submitted;
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
    (void)stream;
    return driver.submitted <= driver.done && driver.idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult record_context(CUcontext context, CUevent event)
{
    assert_ptr_equal(context, driver.current);
    driver.records_of_contexts++;
    return record(event, NULL);
}

static CUresult query(CUevent event)
{
    return driver.event_time[(size_t)(uintptr_t)event - 1] <= driver.done ? CUDA_SUCCESS
                                                                          : CUDA_ERROR_NOT_READY;
}

static CUresult event_wait(CUevent event)
{
    driver.done = driver.submitted;
    return query(event);
}

static CUresult tiny_take(CUdeviceptr *block, size_t bytes)
{
    if (driver.room < 2 * MIB)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *block = bytes;
    return CUDA_SUCCESS;
}

static CUresult tiny_free(CUdeviceptr block)
{
    (void)block;
    driver.frees++;
    return CUDA_SUCCESS;
}

CUresult (*real_cuCtxGetCurrent)(CUcontext *) = get_current;
CUresult (*real_cuCtxPushCurrent_v2)(CUcontext) = push;
CUresult (*real_cuCtxPopCurrent_v2)(CUcontext *) = pop;
CUresult (*real_cuCtxSynchronize)(void) = synchronize;
CUresult (*real_cuCtxRecordEvent)(CUcontext, CUevent) = record_context;
CUresult (*real_cuEventCreate)(CUevent *, unsigned int) = event_create;
CUresult (*real_cuEventRecord)(CUevent, CUstream) = record;
CUresult (*real_cuEventRecord_ptsz)(CUevent, CUstream) = record;
CUresult (*real_cuEventQuery)(CUevent) = query;
CUresult (*real_cuStreamQuery)(CUstream) = stream_query;
CUresult (*real_cuEventSynchronize)(CUevent) = event_wait;
CUresult (*real_cuMemAlloc_v2)(CUdeviceptr *, size_t) = tiny_take;
CUresult (*real_cuMemFree_v2)(CUdeviceptr) = tiny_free;

/* --- the rest of the library ------------------------------------------------------------------ */

bool device_reached_from_outside(const struct device *which)
{
    (void)which;
    return false;
}

bool capture_in_progress(void)
{
    return driver.captures;
}

bool capture_gate_enter(void)
{
    return !driver.captures;
}

void capture_gate_leave(void)
{
}

void capture_relax(CUstreamCaptureMode *saved)
{
    *saved = CU_STREAM_CAPTURE_MODE_RELAXED;
}

void capture_restore(CUstreamCaptureMode *saved)
{
    (void)saved;
}

/* --- memory ----------------------------------------------------------------------------------- */

static enum backing_status acquire(void *self, uint64_t bytes, uint64_t part_bytes,
                                   uint64_t *address_out)
{
    static uint64_t next = BASE;
    (void)self;
    (void)part_bytes;
    if (bytes > driver.room)
        return BACKING_NO_MEMORY;
    driver.room -= bytes;
    *address_out = next;
    next += bytes;
    return BACKING_OK;
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes,
                                   uint64_t part_bytes)
{
    (void)self;
    (void)address;
    (void)part_bytes;
    driver.room += bytes;
    return BACKING_OK;
}

static void retire(void *self, uint64_t address, uint64_t bytes)
{
    (void)self;
    (void)address;
    (void)bytes;
}

static void context_make(struct context *context, uintptr_t handle)
{
    *context = (struct context){.handle = (CUcontext)handle, .device = &device, .vmm = true};
    struct backing backing = {.self = context,
                              .acquire_parts = acquire,
                              .release_parts = release,
                              .retire = retire,
                              .fence_poll = fence_poll,
                              .fence_wait = fence_wait,
                              .fence_drop = fence_drop};
    struct pool_config config = {.arena_bytes = 4 * MIB, .slack_percent = 80};
    context->pool = pool_create(&config, &backing);
    context->deferred = deferred_create();
    assert_non_null(context->pool);
    assert_non_null(context->deferred);
}

static int setup(void **state)
{
    *state = NULL;
    options.free_mode = "deferred";
    memset(&driver, 0, sizeof(driver));
    driver.room = GIB;
    context_make(&one, 1);
    context_make(&two, 2);
    driver.current = one.handle;
    return 0;
}

static void context_end(struct context *context)
{
    pool_destroy(context->pool, true);
    lazy_fences_context_ends(context);
    fence_forget_context(context);
    deferred_destroy(context->deferred);
}

static int teardown(void **state)
{
    (void)state;
    context_end(&one);
    context_end(&two);
    return 0;
}

/* The free of a block that was just allocated has begun. */
static struct pool_block begun(void)
{
    struct pool_block block;
    uint64_t address;
    assert_int_equal(pool_alloc(one.pool, BYTES, POOL_NO_STREAM, 0, &address), POOL_OK);
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    return block;
}

static bool is_free(const struct pool_block *block)
{
    struct pool_block now;
    return pool_find(block->address, &now) != POOL_OK;
}

/* --- fences ----------------------------------------------------------------------------------- */

static uint64_t fence_in(struct context *context)
{
    uint64_t fence = 0;
    driver.current = context->handle;
    assert_int_equal(fence_after_stream(context, NULL, false, &fence), CUDA_SUCCESS);
    return fence;
}

static void events_are_used_again_by_their_context(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        fence_drop(&one, fence_in(&one));
        fence_drop(&two, fence_in(&two));
    }
    assert_int_equal(driver.events, 2);
}

static void a_shared_fence_is_held_by_all(void **state)
{
    (void)state;
    uint64_t shared = fence_in(&one);
    fence_share(shared, 3);
    fence_drop(&one, shared);
    fence_drop(&one, shared);
    uint64_t other = fence_in(&one);
    assert_int_not_equal(shared, other);
    driver.done = 1;
    assert_int_equal(fence_poll(&one, shared), BACKING_FENCE_PASSED);
    assert_int_equal(fence_poll(&one, other), BACKING_FENCE_PENDING);
    fence_drop(&one, shared);
    assert_int_equal(fence_in(&one), shared);
    fence_drop(&one, shared);
    fence_drop(&one, other);
}

/* --- waits ------------------------------------------------------------------------------------ */

static uint64_t late_fence;

static void fence_for_next(void)
{
    late_fence = fence_after_next_wait(&one);
}

static void the_wait_of_a_fence_is_made(void **state)
{
    (void)state;
    uint64_t fence = fence_after_next_wait(&one);
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(driver.waits, 1);
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(driver.waits, 1);
}

static void a_wait_that_began_earlier_does_not_count(void **state)
{
    (void)state;
    bool later;
    uint64_t fence = fence_after_next_wait(&one);
    driver.meanwhile = fence_for_next;
    assert_int_equal(wait_as_free(&one, one.handle, &later), CUDA_SUCCESS);
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(fence_poll(&one, late_fence), BACKING_FENCE_PENDING);
    assert_int_equal(wait_as_free(&one, one.handle, &later), CUDA_SUCCESS);
    assert_int_equal(fence_poll(&one, late_fence), BACKING_FENCE_PASSED);
}

/* Where no wait is made, one is owed: also when memory went back without a wait. */
static void a_full_card_makes_room_for_a_wait(void **state)
{
    (void)state;
    bool later;
    struct pool_block block = begun();
    pool_free_finish(&block);
    driver.captures = true;
    driver.room = 0;
    assert_int_equal(wait_as_free(&one, one.handle, &later), CUDA_SUCCESS);
    assert_false(later);
    assert_int_equal(driver.frees, 1);
    assert_true(driver.room > 0);
    driver.room = 0;
    one.barrier_spare = 0;
    assert_int_equal(wait_as_free(&one, one.handle, &later), CUDA_SUCCESS);
    assert_true(later);
    assert_int_equal(driver.frees, 1);
}

/* --- batches ---------------------------------------------------------------------------------- */

static struct pool_block late_block;

static void free_another(void)
{
    late_block = begun();
    assert_true(deferred_free(&one, &late_block));
}

static void a_free_after_the_fence_is_not_of_its_batch(void **state)
{
    (void)state;
    struct pool_block block = begun();
    assert_true(deferred_free(&one, &block));
    driver.meanwhile = free_another;
    deferred_flush(&one);
    assert_int_equal(deferred_kept(one.deferred), 1);
    driver.done = 1;
    pool_collect(one.pool);
    assert_true(is_free(&block));
    assert_false(is_free(&late_block));
    deferred_flush(&one);
    assert_int_equal(deferred_kept(one.deferred), 0);
    pool_collect(one.pool);
    assert_false(is_free(&late_block));
    driver.done = 2;
    pool_collect(one.pool);
    assert_true(is_free(&late_block));
}

static void free_many(void)
{
    for (int i = 0; i < 63; i++)
        free_another();
}

static void a_batch_without_fence_or_room_waits(void **state)
{
    (void)state;
    struct pool_block first = begun(), second = begun();
    assert_true(deferred_free(&one, &first));
    assert_true(deferred_free(&one, &second));
    driver.records_fail = true;
    driver.meanwhile = free_many;
    deferred_flush(&one);
    assert_int_equal(deferred_kept(one.deferred), 64); /* the first among them */
    assert_false(is_free(&first));
    assert_true(is_free(&second));
    assert_int_equal(driver.waits, 1);
}

/* --- fences recorded when they are asked for
 * ------------------------------------------------------ */

static const CUstream stream_a = (CUstream)(uintptr_t)0xa0, stream_b = (CUstream)(uintptr_t)0xb0;

static uint64_t lazy_id; /* of stream_a; a new one for each test */

static uint64_t joined(CUstream stream, uint64_t id)
{
    uint64_t fence = 0;
    assert_true(lazy_fence_join(&one, stream, false, id, &fence));
    return fence;
}

static bool joins(CUstream stream, uint64_t id)
{
    uint64_t fence = 0;
    bool so = lazy_fence_join(&one, stream, false, id, &fence);
    if (so)
        fence_drop(&one, fence);
    return so;
}

static int lazy_setup(void **state)
{
    static uint64_t last_id = 1000;
    lazy_id = last_id += 10;
    return setup(state);
}

static void frees_of_a_stream_call_nothing(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id), other = joined(stream_b, lazy_id + 1);
    size_t events = driver.events;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(joined(stream_a, lazy_id), fence);
        fence_drop(&one, fence);
    }
    assert_int_not_equal(fence, other);
    fence_drop(&one, fence);
    fence_drop(&one, other);
    assert_int_equal(joined(stream_a, lazy_id),
                     fence); /* nobody held it: it is still the stream's */
    assert_int_equal(driver.submitted, 0);
    assert_int_equal(driver.events, events);
    fence_drop(&one, fence);
}

static void who_asks_has_it_recorded(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id);
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(driver.submitted, 1);
    assert_ptr_equal(driver.recorded_on, stream_a);
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(driver.submitted, 1);
    for (int i = 0; i < 64; i++)
        assert_false(joins(stream_a, lazy_id)); /* others are waiting: each records its own */
    uint64_t next = joined(stream_a, lazy_id);
    driver.done = 1;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(fence_wait(&one, next), BACKING_FENCE_PASSED);
    assert_int_equal(driver.submitted, 2);
    fence_drop(&one, fence);
    fence_drop(&one, next);
}

static bool joined_meanwhile;

static void join_another(void)
{
    driver.meanwhile = NULL;
    joined_meanwhile = joins(stream_a, lazy_id);
}

/* What is freed while the event is recorded is not behind it. */
static void none_joins_what_is_recorded(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id);
    joined_meanwhile = true;
    driver.meanwhile = join_another;
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_PASSED);
    assert_false(joined_meanwhile);
    uint64_t next = joined(stream_a, lazy_id);
    assert_int_not_equal(next, fence);
    fence_drop(&one, fence);
    fence_drop(&one, next);
}

static void an_idle_stream_needs_no_event(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id);
    driver.idle = true;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(driver.submitted, 0);
    fence_drop(&one, fence);
}

static void the_end_of_a_stream_records(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id), other = joined(stream_b, lazy_id + 1);
    lazy_fence_stream_ends(stream_a);
    assert_int_equal(driver.submitted, 1);
    assert_ptr_equal(driver.recorded_on, stream_a);
    uint64_t again = joined(stream_a, lazy_id + 2); /* another one with its handle */
    assert_int_not_equal(again, fence);
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(driver.submitted, 1);
    driver.done = 1;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(fence_poll(&one, again), BACKING_FENCE_PENDING);
    lazy_fence_stream_ends(stream_b);
    assert_int_equal(driver.submitted, 3);
    fence_drop(&one, fence);
    fence_drop(&one, other);
    lazy_fence_stream_ends(stream_a);
    assert_int_equal(driver.submitted, 3); /* it was recorded when it was asked for */
    fence_drop(&one, again);
}

static void what_no_block_waits_for_is_not_recorded(void **state)
{
    (void)state;
    fence_drop(&one, joined(stream_a, lazy_id));
    lazy_fences_before_capture();
    fence_drop(&one, joined(stream_a, lazy_id));
    lazy_fence_stream_ends(stream_a);
    assert_int_equal(driver.submitted, 0);
    fence_drop(&one, fence_in(&one));
    fence_drop(&one, fence_in(&one));
    assert_int_equal(driver.events, 1); /* and it is used again */
}

static void captures_find_all_recorded(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id), other = joined(stream_b, lazy_id + 1);
    lazy_fences_before_capture();
    assert_int_equal(driver.submitted, 2);
    driver.captures = true;
    assert_false(joins(stream_a, lazy_id));
    driver.done = 2;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(fence_wait(&one, other), BACKING_FENCE_PASSED);
    fence_drop(&one, fence);
    fence_drop(&one, other);
}

/* Where the driver refused before a capture, nothing is recorded while it is in progress. */
static void nothing_is_recorded_in_a_capture(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id), other = joined(stream_b, lazy_id + 1);
    driver.records_fail = true;
    lazy_fences_before_capture();
    driver.records_fail = false;
    driver.captures = true;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_FAILED);
    lazy_fence_stream_ends(stream_b);
    assert_int_equal(driver.submitted, 0);
    driver.captures = false;
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(driver.submitted, 1);
    assert_int_equal(fence_poll(&one, other), BACKING_FENCE_FAILED); /* its stream is gone */
    fence_drop(&one, fence);
    fence_drop(&one, other);
}

static void a_refused_record_is_made_later(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id), other = joined(stream_b, lazy_id + 1);
    driver.records_fail = true;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(fence_wait(&one, fence), BACKING_FENCE_FAILED);
    lazy_fence_stream_ends(stream_b); /* too late */
    driver.records_fail = false;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PENDING);
    assert_int_equal(driver.submitted, 1);
    driver.done = 1;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_PASSED);
    assert_int_equal(fence_poll(&one, other), BACKING_FENCE_FAILED);
    assert_int_equal(fence_wait(&one, other), BACKING_FENCE_FAILED);
    fence_drop(&one, fence);
    fence_drop(&one, other);
}

static void the_end_of_a_context_records_nothing(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id);
    lazy_fences_context_ends(&two);
    assert_int_equal(joined(stream_a, lazy_id), fence);
    lazy_fences_context_ends(&one);
    driver.done = 10;
    assert_int_equal(fence_poll(&one, fence), BACKING_FENCE_FAILED);
    assert_int_equal(driver.submitted, 0);
    fence_drop(&one, fence);
    fence_drop(&one, fence);
}

/* Later work of other streams must not wait for a record on the legacy stream. */
static void the_legacy_stream_is_not_recorded_on(void **state)
{
    (void)state;
    uint64_t fence = joined(NULL, lazy_id);
    assert_int_equal(joined(CU_STREAM_LEGACY, lazy_id), fence);
    fence_poll(&one, fence);
    assert_int_equal(driver.records_of_contexts, 1);
    fence_drop(&one, fence);
    fence_drop(&one, fence);
    lazy_fences_context_ends(&one);
    CUresult (*record_of_contexts)(CUcontext, CUevent) = real_cuCtxRecordEvent;
    real_cuCtxRecordEvent = NULL;
    bool joins_legacy = joins(NULL, lazy_id + 1), joins_other = joins(stream_a, lazy_id + 2);
    real_cuCtxRecordEvent = record_of_contexts;
    assert_false(joins_legacy);
    assert_true(joins_other);
}

static void the_stream_of_a_thread_records_at_once(void **state)
{
    (void)state;
    uint64_t fence;
    assert_false(lazy_fence_join(&one, CU_STREAM_PER_THREAD, false, lazy_id, &fence));
    assert_false(lazy_fence_join(&one, NULL, true, lazy_id, &fence));
    device.green_made = true;
    assert_false(joins(stream_a, lazy_id));
    device.green_made = false;
}

/* The stream of a context that is not current. */
static void the_context_is_entered(void **state)
{
    (void)state;
    uint64_t fence = joined(stream_a, lazy_id);
    driver.current = two.handle;
    fence_poll(&one, fence);
    assert_int_equal(driver.submitted, 1);
    fence_drop(&one, fence);
}

static void streams_beyond_the_table_record_at_once(void **state)
{
    (void)state;
    int streams = 0;
    while (streams < 1000 &&
           joins((CUstream)(uintptr_t)(0x1000 + streams), lazy_id * 1000 + (uint64_t)streams)) {
        lazy_fences_before_capture(); /* the event is free for the next one */
        streams++;
    }
    assert_in_range(streams, 16, 999);
    lazy_fences_context_ends(&one);
    assert_true(joins(stream_a, lazy_id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_are_used_again_by_their_context, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shared_fence_is_held_by_all, setup, teardown),
        cmocka_unit_test_setup_teardown(the_wait_of_a_fence_is_made, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wait_that_began_earlier_does_not_count, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_card_makes_room_for_a_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(a_free_after_the_fence_is_not_of_its_batch, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_batch_without_fence_or_room_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(frees_of_a_stream_call_nothing, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(who_asks_has_it_recorded, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(none_joins_what_is_recorded, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(an_idle_stream_needs_no_event, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_stream_records, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(what_no_block_waits_for_is_not_recorded, lazy_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(captures_find_all_recorded, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_recorded_in_a_capture, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_record_is_made_later, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_a_context_records_nothing, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(the_legacy_stream_is_not_recorded_on, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(the_stream_of_a_thread_records_at_once, lazy_setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_context_is_entered, lazy_setup, teardown),
        cmocka_unit_test_setup_teardown(streams_beyond_the_table_record_at_once, lazy_setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
