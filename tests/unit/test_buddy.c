/* test_buddy.c - page runs: best fit, tails given back, merging with any neighbour, exact capacity.
 */
#include "unit.h"

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

#define STEP (64 * KIB) /* of the sizes here, above those of slabs */

static void tail_is_given_back(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 32 * MIB, 0);
    uint64_t a = sim_alloc(pool, 5 * STEP - 100);
    uint64_t b = sim_alloc(pool, 3 * STEP);
    assert_int_equal(b, a + 5 * STEP);
    sim_backing_check(sim, pool);
    sim_free(a);
    sim_free(b);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void smallest_run_that_fits_is_taken(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 32 * MIB, 0);
    uint64_t hole10 = sim_alloc(pool, 10 * STEP);
    sim_alloc(pool, STEP);
    uint64_t hole4 = sim_alloc(pool, 4 * STEP);
    sim_alloc(pool, STEP);
    uint64_t hole6 = sim_alloc(pool, 6 * STEP);
    sim_alloc(pool, STEP);
    sim_free(hole10);
    sim_free(hole4);
    sim_free(hole6);
    assert_int_equal(sim_alloc(pool, 5 * STEP), hole6);
    assert_int_equal(sim_alloc(pool, 4 * STEP), hole4);
    assert_int_equal(sim_alloc(pool, 8 * STEP), hole10);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void equal_runs_go_by_address(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 32 * MIB);
    uint64_t block[8];
    for (int i = 0; i < 8; i++) {
        block[i] = sim_alloc(pool, 4 * STEP);
        sim_alloc(pool, STEP);
    }
    for (int i = 7; i >= 0; i--)
        sim_free(block[i]);
    for (int i = 0; i < 8; i++)
        assert_int_equal(sim_alloc(pool, 4 * STEP), block[i]);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

/* In every order of freeing, neighbours become one run. */
static void neighbours_merge_in_any_order(void **state)
{
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int o = 0; o < 6; o++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 2 * MIB, 0);
        struct pool_stats stats;
        uint64_t block[3];
        for (int i = 0; i < 3; i++)
            block[i] = sim_alloc(pool, (uint64_t)(7 + i) * STEP);
        for (int i = 0; i < 3; i++) {
            sim_free(block[orders[o][i]]);
            sim_backing_check(sim, pool);
        }
        pool_stats_read(pool, &stats);
        assert_int_equal(stats.free_runs, 1);
        assert_int_equal(stats.largest_free_run_bytes, 2 * MIB);
        pool_destroy(pool, true);
        sim_backing_destroy(sim);
    }
}

static void interior_addresses_lead_to_their_run(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block found;
    uint64_t big = sim_alloc(pool, 10 * GIB);
    uint64_t small = sim_alloc(pool, 20 * MIB);
    for (uint64_t offset = 0; offset < 10 * GIB; offset += 777 * MIB + 1) {
        assert_int_equal(pool_find(big + offset, &found), POOL_OK);
        assert_int_equal(found.address, big);
        assert_int_equal(found.requested_bytes, 10 * GIB);
    }
    assert_int_equal(pool_find(big + 10 * GIB - 1, &found), POOL_OK);
    assert_int_equal(found.address, big);
    assert_int_equal(pool_find(small + 20 * MIB - 1, &found), POOL_OK);
    assert_int_equal(found.address, small);
    assert_int_equal(pool_find(small + 20 * MIB, &found), POOL_NOT_LIVE);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void orders_are_counted(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 32 * MIB, 0);
    struct pool_stats stats;
    uint64_t bytes = 0, runs = 0;
    uint64_t hole = sim_alloc(pool, 5 * STEP);
    sim_alloc(pool, STEP);
    sim_free(hole);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.free_runs_by_order[9], 1);  /* 640 pages */
    assert_int_equal(stats.free_runs_by_order[15], 1); /* 64,768 pages */
    for (int i = 0; i < POOL_STATS_ORDERS; i++) {
        bytes += stats.free_bytes_by_order[i];
        runs += stats.free_runs_by_order[i];
    }
    assert_int_equal(bytes, stats.run_free_bytes);
    assert_int_equal(runs, stats.free_runs);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tail_is_given_back),
        cmocka_unit_test(smallest_run_that_fits_is_taken),
        cmocka_unit_test(equal_runs_go_by_address),
        cmocka_unit_test(neighbours_merge_in_any_order),
        cmocka_unit_test(interior_addresses_lead_to_their_run),
        cmocka_unit_test(orders_are_counted),
    };
    return cmocka_run_group_tests_name("buddy", tests, NULL, NULL);
}
