/* test_limbo.c - freed blocks under fences: reused by their stream at once, by others only after.
 */
#include "unit.h"

#include "sim_backing.h"

static void free_pending(struct sim_backing *sim, uint64_t address, uint64_t stream, uint64_t time)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    pool_free_pend(&block, stream, sim_backing_fence(sim, time));
}

static uint64_t alloc_on(struct pool *pool, uint64_t bytes, uint64_t stream)
{
    uint64_t address;
    assert_int_equal(pool_alloc(pool, bytes, stream, 1, &address), POOL_OK);
    return address;
}

static const uint64_t sizes[] = {512, 20000, 100000, 5 * MIB, 100 * MIB};

static void the_same_stream_reuses_at_once(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    for (int i = 0; i < 5; i++) {
        uint64_t a = alloc_on(pool, sizes[i], 7);
        free_pending(sim, a, 7, 100);
        assert_int_equal(alloc_on(pool, sizes[i], 7), a);
        sim_backing_check(sim, pool);
    }
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.stream_reuses, 5);
    for (uint64_t fence = 1; fence <= sim->fences; fence++)
        assert_int_equal(sim->fence_dropped[fence], 1);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void others_wait_for_the_fence(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (int i = 0; i < 5; i++) {
        uint64_t a = alloc_on(pool, sizes[i], 7);
        free_pending(sim, a, 7, sim->now + 100);
        assert_int_not_equal(alloc_on(pool, sizes[i], 8), a);
        assert_int_not_equal(sim_alloc(pool, sizes[i]), a);
        assert_int_equal(pool_collect(pool), 0);
        sim->now += 100;
        assert_int_equal(pool_collect(pool), 1);
        sim_backing_check(sim, pool);
        struct pool_block found;
        assert_int_equal(pool_find(a, &found), POOL_NOT_LIVE);
    }
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void fences_pass_in_order_from_the_oldest(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (uint64_t i = 0; i < 10; i++)
        free_pending(sim, alloc_on(pool, 4096, 3 + 10 * i), 3, 10 * (i + 1));
    sim->now = 35;
    assert_int_equal(pool_collect(pool), 3);
    sim_backing_check(sim, pool);
    sim->now = 1000;
    assert_int_equal(pool_collect(pool), 7);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_forgotten_stream_reuses_nothing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = alloc_on(pool, 4096, 5);
    free_pending(sim, a, 5, 100);
    pool_forget_stream(pool, 5);
    assert_int_not_equal(alloc_on(pool, 4096, 5), a); /* the number was given to a new stream */
    sim_backing_check(sim, pool);
    sim->now = 100;
    assert_int_equal(pool_collect(pool), 1);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_failed_fence_never_passes(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = alloc_on(pool, 4096, 5);
    free_pending(sim, a, 5, 1);
    sim->now = 50;
    sim->fences_fail = true;
    assert_int_equal(pool_collect(pool), 0);
    for (int i = 0; i < 100; i++)
        assert_int_not_equal(sim_alloc(pool, 4096), a);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

/* Case 12: merging free neighbours must not free a pending one between them. */
static void case_12_merging_leaves_pending_neighbours_alone(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 32 * MIB, 0);
    uint64_t a = alloc_on(pool, MIB, 5), b = alloc_on(pool, MIB, 5), c = alloc_on(pool, MIB, 5);
    assert_int_equal(b, a + MIB);
    assert_int_equal(c, b + MIB);
    free_pending(sim, b, 5, 100);
    sim_free(a);
    sim_free(c);
    sim_backing_check(sim, pool);
    for (int i = 0; i < 40; i++) {
        uint64_t d = sim_alloc(pool, MIB / 2);
        assert_true(d + MIB / 2 <= b || d >= b + MIB);
    }
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void waiting_is_the_last_resort(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(100 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = alloc_on(pool, 90 * MIB, 5);
    free_pending(sim, a, 5, 1000);
    uint64_t b = alloc_on(pool, 90 * MIB, 6);
    assert_int_equal(b, a);
    assert_true(sim->waits > 0);
    assert_int_equal(sim->now, 1000);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void all_work_done_frees_all(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    for (uint64_t i = 0; i < 100; i++)
        free_pending(sim, alloc_on(pool, 512 * (i + 1), i % 5), i % 5, 1000000);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.limbo_blocks + stats.stream_reuses, 100);
    assert_int_equal(pool_collect_all(pool), stats.limbo_blocks);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.limbo_bytes, 0);
    assert_int_equal(stats.live_blocks, 0);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_stream_reuses_at_once),
        cmocka_unit_test(others_wait_for_the_fence),
        cmocka_unit_test(fences_pass_in_order_from_the_oldest),
        cmocka_unit_test(a_forgotten_stream_reuses_nothing),
        cmocka_unit_test(a_failed_fence_never_passes),
        cmocka_unit_test(case_12_merging_leaves_pending_neighbours_alone),
        cmocka_unit_test(waiting_is_the_last_resort),
        cmocka_unit_test(all_work_done_frees_all),
    };
    return cmocka_run_group_tests_name("limbo", tests, NULL, NULL);
}
