/* test_advice.c - advice appears with its figure, and not without; what relaxes an order is
 * withheld where others use the memory.
 */
#include "unit.h"

#include "../../shim/advice.h"
#include "../../shim/report_buffer.h"
#include "sim_backing.h"

static struct report_device device;
static struct advice advice[ADVICE_MAX];

static struct report plain(void)
{
    memset(&device, 0, sizeof(device));
    device.total_bytes = 80 * GIB;
    device.contexts = 1;
    return (struct report){.program = "program",
                           .seconds = 10,
                           .free_mode = "sync",
                           .backing = "malloc",
                           .slack = 80,
                           .device_count = 1,
                           .devices = &device};
}

static bool says(const struct report *report, const char *setting)
{
    int count = advice_make(report, advice);
    for (int i = 0; i < count; i++)
        if (strcmp(advice[i].setting, setting) == 0)
            return true;
    return false;
}

static void nothing_to_say(void **state)
{
    (void)state;
    struct report report = plain();
    assert_int_equal(advice_make(&report, advice), 0);
    device.counters.out_of_memory = device.counters.out_of_memory_size = 7; /* no setting helps */
    device.pool.peak_backed_bytes = 70 * GIB;
    device.pool.peak_driver_live_bytes = 69 * GIB;
    assert_int_equal(advice_make(&report, advice), 0);
    report.seconds = 0;
    assert_int_equal(advice_make(&report, advice), 0);
}

static void waits_in_frees(void **state)
{
    (void)state;
    struct report report = plain();
    device.counters.free_waits = 1000;
    device.counters.free_wait_ns = 499999999; /* of 10 s */
    assert_int_equal(advice_make(&report, advice), 0);
    device.counters.free_wait_ns = 1200000000;
    assert_true(says(&report, "VRAMALLOC_FREE=deferred"));
    assert_non_null(strstr(advice[0].figure, "12.0 %"));
    assert_non_null(strstr(advice[0].figure, "1,000 frees"));
    assert_non_null(strstr(advice[0].effect, "check first"));
    report.free_mode = "deferred";
    assert_int_equal(advice_make(&report, advice), 0);
}

/* What is withheld where somebody else uses the memory. */
static void shared_memory_withholds(void **state)
{
    (void)state;
    for (int who = 0; who <= 4; who++) {
        struct report report = plain();
        device.counters.free_wait_ns = 5000000000;
        device.counters.out_of_memory_pieces = 1;
        device.peers = who == 1;
        device.counters.shared_ipc = who == 2;
        device.counters.shared_rdma = who == 3;
        device.counters.ipc_refused = who == 4;
        assert_int_equal(says(&report, "VRAMALLOC_FREE=deferred"), who == 0);
        assert_int_equal(says(&report, "VRAMALLOC_BACKING=vmm"), who == 0);
        assert_int_equal(says(&report, "VRAMALLOC_SLACK=0"), who != 0);
    }
}

static void failures(void **state)
{
    (void)state;
    struct report report = plain();
    device.counters.out_of_memory_pieces = 2;
    assert_true(says(&report, "VRAMALLOC_BACKING=vmm"));
    assert_non_null(strstr(advice[0].figure, "2 allocations failed"));
    report.backing = "vmm";
    assert_true(says(&report, "VRAMALLOC_SLACK=0"));
    report.slack = 0;
    assert_int_equal(advice_make(&report, advice), 0);
    device.counters.out_of_memory_pieces = 0;
    device.counters.out_of_memory_pending = 1;
    assert_int_equal(advice_make(&report, advice), 0); /* frees wait already */
    report.free_mode = "deferred";
    assert_true(says(&report, "VRAMALLOC_FREE=sync"));
    assert_non_null(strstr(advice[0].figure, "1 allocation failed"));
}

static void growth_that_takes_long(void **state)
{
    (void)state;
    struct report report = plain();
    device.pool.peak_backed_bytes = 3 * GIB + 1;
    for (int i = 0; i < 100; i++)
        histogram_add(&device.latency.growth, 1900000, 1); /* 1.9 % */
    assert_int_equal(advice_make(&report, advice), 0);
    for (int i = 0; i < 10; i++)
        histogram_add(&device.latency.growth, 1900000, 1);
    assert_true(says(&report, "VRAMALLOC_ARENA_SIZE=3073M"));
    device.pool.peak_backed_bytes = 41 * GIB; /* more than half of the card */
    assert_int_equal(advice_make(&report, advice), 0);
}

static void more_held_than_needed(void **state)
{
    (void)state;
    struct report report = plain();
    device.pool.peak_driver_live_bytes = 40 * GIB;
    device.pool.peak_backed_bytes = 49 * GIB;
    assert_int_equal(advice_make(&report, advice), 0);
    device.pool.peak_backed_bytes = 51 * GIB;
    assert_true(says(&report, "VRAMALLOC_SLACK=0"));
    device.total_bytes = 180 * GIB; /* there is room enough */
    assert_int_equal(advice_make(&report, advice), 0);
}

/* Three at most, the failures first; both forms of the report carry the same. */
static void both_forms_agree(void **state)
{
    (void)state;
    static struct report_buffer text, json;
    static struct report_device devices[2];
    struct report report = plain();
    device.counters.free_wait_ns = 5000000000;
    device.counters.out_of_memory = device.counters.out_of_memory_pieces = 3;
    device.counters.alloc_calls = device.counters.alloc_failed = 3;
    device.pool.peak_driver_live_bytes = 40 * GIB;
    device.pool.peak_backed_bytes = 60 * GIB;
    devices[0] = devices[1] = device;
    devices[1].ordinal = 1;
    assert_int_equal(advice_make(&report, advice), 3);
    assert_string_equal(advice[0].setting, "VRAMALLOC_BACKING=vmm");
    report_text_make(&text, &report);
    report_json_make(&json, &report);
    for (int i = 0; i < 3; i++) {
        assert_non_null(strstr(text.text, advice[i].setting));
        assert_non_null(strstr(text.text, advice[i].figure));
        assert_non_null(strstr(text.text, advice[i].effect));
        assert_non_null(strstr(json.text, advice[i].figure));
    }
    assert_non_null(strstr(text.text, "3 allocations ran out of memory: 3 for pieces."));
    report.devices = devices;
    report.device_count = 2;
    assert_int_equal(advice_make(&report, advice), 3); /* each setting once */
    assert_int_equal(advice[0].ordinal, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_say),          cmocka_unit_test(waits_in_frees),
        cmocka_unit_test(shared_memory_withholds), cmocka_unit_test(failures),
        cmocka_unit_test(growth_that_takes_long),  cmocka_unit_test(more_held_than_needed),
        cmocka_unit_test(both_forms_agree),
    };
    return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
