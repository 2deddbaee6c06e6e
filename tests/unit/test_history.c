/* test_history.c - what a pool remembers of its past, by a clock that only this file moves. */
#include "unit.h"

#include "sim_backing.h"

#define SECOND ((uint64_t)1000000000)

static struct pool_history history_of(struct pool *pool)
{
    struct pool_history history;
    pool_history_read(pool, &history);
    return history;
}

static void near(double got, double expected)
{
    if (got < expected * 0.999 || got > expected * 1.001)
        fail_msg("%g, expected %g", got, expected);
}

static void peaks_have_their_time(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 0);
    sim->clock_ns = 5 * SECOND;
    sim_alloc(pool, 10 * MIB);
    sim->clock_ns = 7 * SECOND;
    uint64_t large = sim_alloc(pool, 100 * MIB);
    sim->clock_ns = 9 * SECOND;
    sim_free(large);
    sim_alloc(pool, 90 * MIB); /* no peak */
    sim->clock_ns = 11 * SECOND;
    struct pool_history history = history_of(pool);
    assert_int_equal(history.peak_live_ns, 7 * SECOND);
    assert_int_equal(history.peak_backed_ns, 7 * SECOND);
    assert_int_equal(history.last_ns, 11 * SECOND);
    sim_pool_end(sim, pool);
}

/* Held: exact. Live: what it was at both ends of a stretch counts half. */
static void means_are_weighted_by_time(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 64 * MIB);
    sim->clock_ns = SECOND;
    uint64_t block = sim_alloc(pool, 20 * MIB);
    pool_observe(pool);
    sim->clock_ns = 4 * SECOND; /* 3 s at 20 MiB live and 64 MiB held */
    pool_observe(pool);
    sim_free(block);
    pool_observe(pool);
    sim->clock_ns = 5 * SECOND; /* 1 s with nothing live */
    struct pool_history history = history_of(pool);
    near(history.held_byte_ns, 4e9 * 64 * (double)MIB);
    near(history.live_byte_ns, 3e9 * 20 * (double)MIB);
    assert_int_equal(history.last_ns - history.first_ns, 4 * SECOND);
    pool_destroy(pool, true);
    sim->clock_ns = 50 * SECOND; /* the pool has ended */
    assert_int_equal(history_of(pool).last_ns, 5 * SECOND);
    sim_backing_destroy(sim);
}

static void without_a_clock_nothing_is_remembered(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(200 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t address;
    sim_alloc(pool, 100 * MIB);
    assert_int_equal(pool_alloc(pool, 200 * MIB, POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
    struct pool_history history = history_of(pool), nothing = {0};
    assert_memory_equal(&history, &nothing, sizeof(history));
    sim_pool_end(sim, pool);
}

/* Blocks of 1 MiB, of which one in eight stays: the free memory is in pieces of 7 MiB when 16 MiB
 * are asked for, and blocks of that size are in the way. */
static void the_worst_moment_is_found(void **state)
{
    (void)state;
    enum { BLOCKS = 40 };
    uint64_t block[BLOCKS], address;
    struct sim_backing *sim = sim_backing_create(48 * MIB);
    struct pool *pool = sim_pool_create_uncached(sim, BLOCKS * MIB);
    sim->clock_ns = SECOND;
    for (int i = 0; i < BLOCKS; i++)
        block[i] = sim_alloc(pool, MIB);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 8 != 0)
            sim_free(block[i]);
    assert_int_equal(history_of(pool).worst.at_ns, 0);
    sim->clock_ns = 3 * SECOND;
    assert_int_equal(pool_alloc(pool, 16 * MIB, POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
    struct pool_worst worst = history_of(pool).worst;
    assert_int_equal(worst.at_ns, 3 * SECOND);
    assert_int_equal(worst.asked_bytes, 16 * MIB);
    assert_int_equal(worst.free_bytes, 35 * MIB);
    assert_int_equal(worst.largest_bytes, 7 * MIB);
    assert_int_equal(worst.pinned_segments, 1);
    assert_int_equal(worst.pin_size_bytes, MIB);
    assert_int_equal(worst.pin_blocks, 5);
    assert_int_equal(worst.pin_bytes, 5 * MIB);
    sim->clock_ns = 4 * SECOND; /* no worse than before: the first moment stays */
    pool_alloc(pool, 17 * MIB, POOL_NO_STREAM, 0, &address);
    assert_int_equal(history_of(pool).worst.at_ns, 3 * SECOND);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* What the driver alone would take: whole 2 MiB above 1 MiB. */
static void the_drivers_rule_is_counted(void **state)
{
    (void)state;
    for (int uncached = 0; uncached < 2; uncached++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool =
            uncached ? sim_pool_create_uncached(sim, 0) : sim_pool_create(sim, 0, 0);
        struct pool_stats stats;
        sim_alloc(pool, 1);
        sim_alloc(pool, MIB);
        sim_alloc(pool, MIB + 1);
        uint64_t most = 512 + MIB + 2 * MIB + 4 * MIB;
        for (int i = 0; i < 100; i++) /* in the end the thread keeps it */
            sim_free(sim_alloc(pool, 2 * MIB + 1));
        pool_stats_read(pool, &stats);
        assert_int_equal(stats.driver_live_bytes, most - 4 * MIB);
        assert_int_equal(stats.peak_driver_live_bytes, most);
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_have_their_time),
        cmocka_unit_test(means_are_weighted_by_time),
        cmocka_unit_test(without_a_clock_nothing_is_remembered),
        cmocka_unit_test(the_worst_moment_is_found),
        cmocka_unit_test(the_drivers_rule_is_counted),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
