/* test_histogram.c - shim/histogram.c against a sorted list of the same durations, and which calls
 * shim/latency.c times, by a clock and devices of this file.
 */
#include "unit.h"

#include <stdlib.h>

#include "../../shim/devices.h"
#include "sim_backing.h"

enum { CALLS = 200000 };

/* --- what latency.c asks of the library ---------------------------------------------------- */

static struct device device;
static struct context context = {.device = &device};
static const bool serves = true;
const bool *process_is_served = &serves;

struct context *context_current(CUcontext *current_out)
{
    *current_out = NULL;
    return &context;
}

struct device *device_for_counting(void)
{
    return &device;
}

/* --- buckets ------------------------------------------------------------------------------- */

static void buckets_follow_each_other(void **state)
{
    (void)state;
    for (int i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        uint64_t low = histogram_bucket_ns(i), next = histogram_bucket_ns(i + 1);
        assert_true(next > low);
        assert_true(i < 4 || (next - low) * 4 <= low);
        assert_int_equal(histogram_bucket(low), i);
        assert_int_equal(histogram_bucket(next - 1), i);
    }
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void near(uint64_t got, uint64_t expected)
{
    if (got > expected + expected / 4 + 1 || got + got / 4 + 1 < expected)
        fail_msg("%llu, expected about %llu", (unsigned long long)got,
                 (unsigned long long)expected);
}

/* Fast calls of which every 64th is added, slow ones that all are: the percentiles are those of all
 * calls. One slow call in 80 would be the 60 % of what is timed, and is above the 98.8th of all. */
static void percentiles_are_of_all_calls(void **state)
{
    (void)state;
    static uint64_t all[CALLS];
    static struct histogram sampled, slow;
    uint64_t random = 88172645463325252U;
    for (size_t i = 0; i < CALLS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        bool is_slow = random % 80 == 0;
        all[i] = is_slow ? 40000 + random / 80 % 100000 : 20 + random / 80 % 60;
        if (is_slow)
            histogram_add(&slow, all[i], 1);
        else if (random / 5000 % 64 == 0)
            histogram_add(&sampled, all[i], 64);
    }
    qsort(all, CALLS, sizeof(all[0]), by_value);
    struct histogram_summary summary = histogram_summarize(&sampled, &slow, CALLS);
    assert_true(summary.known);
    near(summary.p50_ns, all[CALLS / 2]);
    near(summary.p99_ns, all[CALLS / 100 * 99]);
    near(summary.p999_ns, all[CALLS / 1000 * 999]);
    assert_int_equal(summary.max_ns, all[CALLS - 1]);
    assert_int_equal(summary.timed, sampled.count + slow.count);
    assert_int_equal(summary.always, slow.count);
}

static void nothing_timed_is_not_known(void **state)
{
    (void)state;
    static struct histogram none, one;
    assert_false(histogram_summarize(&none, &none, 0).known);
    assert_false(histogram_summarize(&none, &none, 5).known);
    histogram_add(&one, 700, 1);
    assert_false(histogram_summarize(&none, &one, 2).known); /* the other call was not timed */
    struct histogram_summary summary = histogram_summarize(&none, &one, 1);
    assert_true(summary.known);
    near(summary.p50_ns, 700);
    assert_int_equal(summary.max_ns, 700);
}

/* --- which calls are timed ------------------------------------------------------------------- */

static void thread_reset(void)
{
    memset(&latency_thread, 0, sizeof(latency_thread));
    memset(&device.latency, 0, sizeof(device.latency));
}

static uint64_t weight_of(const struct histogram *histogram)
{
    uint64_t sum = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        sum += histogram->weight[i];
    return sum;
}

static void a_sample_stands_for_all(void **state)
{
    (void)state;
    thread_reset();
    for (int i = 0; i < CALLS; i++) {
        uint64_t begin_ns = latency_begin();
        assert_true(i >= 16 || begin_ns > 0);
        latency_end(LATENCY_ALLOC, begin_ns);
    }
    const struct histogram *sampled = &device.latency.sampled[LATENCY_ALLOC];
    assert_in_range(weight_of(sampled), CALLS - CALLS / 20, CALLS + CALLS / 20);
    assert_in_range(sampled->count, CALLS / 300, CALLS / 200);
    assert_int_equal(device.latency.slow[LATENCY_ALLOC].count, 0);
}

/* A program that does one thing every 256 calls is seen as often as it does. */
static void no_period_is_met(void **state)
{
    (void)state;
    int met = 0, missed = 0;
    thread_reset();
    for (int i = 0; i < 64 * CALLS; i++) {
        uint64_t begin_ns = latency_begin();
        if (begin_ns > 0 && i % 256 == 7)
            met++;
        else if (begin_ns > 0)
            missed++;
        latency_thread.slow_since_ns = 0;
    }
    assert_in_range(met * 256, missed / 2, missed * 2);
}

static void slow_calls_are_timed_once_each(void **state)
{
    (void)state;
    thread_reset();
    for (int i = 0; i < CALLS; i++) {
        uint64_t begin_ns = latency_begin();
        if (i % 1000 == 0) {
            latency_slow();
            latency_slow(); /* twice in one call */
        }
        latency_of(&device);
        latency_end(LATENCY_FREE, begin_ns);
    }
    assert_int_equal(device.latency.slow[LATENCY_FREE].count, CALLS / 1000);
    const struct histogram *sampled = &device.latency.sampled[LATENCY_FREE];
    assert_in_range(weight_of(sampled), CALLS - CALLS / 20, CALLS + CALLS / 20);
}

/* What some other call left behind belongs to no allocation. */
static void slow_ends_with_its_call(void **state)
{
    (void)state;
    thread_reset();
    latency_thread.left = 10;
    latency_slow();
    latency_end(LATENCY_ALLOC, latency_begin());
    assert_int_equal(device.latency.slow[LATENCY_ALLOC].count, 0);
    assert_int_equal(device.latency.sampled[LATENCY_ALLOC].count, 0);
}

static void long_waits_are_slow(void **state)
{
    (void)state;
    struct timespec tick;
    assert_int_equal(clock_getres(CLOCK_MONOTONIC_COARSE, &tick), 0);
    uint64_t tick_ns = (uint64_t)tick.tv_sec * 1000000000U + (uint64_t)tick.tv_nsec;
    for (uint64_t ticks = 1; ticks <= 3; ticks++) {
        thread_reset();
        latency_thread.left = 10;
        latency_thread.device = &device;
        uint64_t begin_ns = latency_begin();
        latency_of(&device);
        latency_waited(ticks * tick_ns);
        latency_end(LATENCY_FREE, begin_ns);
        const struct histogram *slow = &device.latency.slow[LATENCY_FREE];
        assert_int_equal(slow->count, ticks >= 2);
        if (ticks >= 2)
            assert_true(slow->max_ns + 1000 >= ticks * tick_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_follow_each_other),
        cmocka_unit_test(percentiles_are_of_all_calls),
        cmocka_unit_test(nothing_timed_is_not_known),
        cmocka_unit_test(a_sample_stands_for_all),
        cmocka_unit_test(no_period_is_met),
        cmocka_unit_test(slow_calls_are_timed_once_each),
        cmocka_unit_test(slow_ends_with_its_call),
        cmocka_unit_test(long_waits_are_slow),
    };
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    context.pool = sim_pool_create(sim, 0, 0); /* looked at when a call is timed */
    int failed = cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
    sim_pool_end(sim, context.pool);
    return failed;
}
