/* test_trace.c - every recorded trace through the pool, with pool_check() after every operation.
 * Prints the peak of what was held, beside what the driver would hold for the same calls, and how
 * many calls reached it. Traces are read from tests/data, or the folder in VRAMALLOC_TEST_DATA. */
#include "unit.h"

#include "../../tools/replay/card.h"
#include "../../tools/replay/trace.h"
#include "sim_backing.h"

static void trace_replay(const char *name)
{
    struct trace trace;
    struct trace_error error;
    const char *folder = getenv("VRAMALLOC_TEST_DATA");
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.csv.gz", folder != NULL ? folder : "tests/data", name);
    if (!trace_load(path, &trace, &error))
        fail_msg("%s:%zu: %s", path, error.line, error.reason);
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct card *driver = card_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t *address = calloc(trace.block_count, sizeof(*address));
    uint64_t *native = calloc(trace.block_count, sizeof(*native));
    assert_non_null(address);
    assert_non_null(native);
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct trace_event *event = &trace.events[i];
        struct pool_block block;
        if (event->is_free) {
            assert_int_equal(pool_free_begin(address[event->block], &block), POOL_OK);
            assert_int_equal(block.requested_bytes, event->bytes);
            if (event->stream != 0)
                pool_free_pend(&block, event->stream, sim_backing_fence(sim, i));
            else if (pool_free_finish(&block) > 0)
                pool_trim(pool, UINT64_MAX);
            card_release(driver, native[event->block], event->bytes);
        } else {
            assert_int_equal(
                pool_alloc(pool, event->bytes, event->stream, 0, &address[event->block]), POOL_OK);
            assert_true(card_allocate(driver, event->bytes, &native[event->block]));
        }
        sim->now = i; /* the GPU is one call behind */
        sim_backing_check(sim, pool);
    }
    struct pool_stats stats;
    pool_stats_read(pool, &stats);
    printf("%-24s %6zu events, peak live %7.1f MiB, held %7.1f MiB, by the driver's rule %7.1f MiB "
           "(%.3f), %llu driver calls\n",
           name, trace.event_count, (double)stats.peak_live_requested_bytes / (double)MIB,
           (double)stats.peak_backed_bytes / (double)MIB,
           (double)card_peak_bytes(driver) / (double)MIB,
           (double)stats.peak_backed_bytes / (double)card_peak_bytes(driver),
           (unsigned long long)(sim->calls[SIM_ACQUIRE] + sim->calls[SIM_RELEASE]));
    assert_true(sim->calls[SIM_ACQUIRE] + sim->calls[SIM_RELEASE] < trace.event_count / 20 + 10);
    free(address);
    free(native);
    card_destroy(driver);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
    trace_free(&trace);
}

#define TRACE(name)                                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        trace_replay(#name);                                                                       \
    }
TRACE(cupy_elementwise)
TRACE(cupy_elementwise_async)
TRACE(torch_gpt_generate)
TRACE(torch_gpt_train)
TRACE(torch_mlp_train)
TRACE(torch_resnet50_train)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cupy_elementwise),   cmocka_unit_test(cupy_elementwise_async),
        cmocka_unit_test(torch_gpt_generate), cmocka_unit_test(torch_gpt_train),
        cmocka_unit_test(torch_mlp_train),    cmocka_unit_test(torch_resnet50_train),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
