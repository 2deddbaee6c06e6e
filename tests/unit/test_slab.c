/* test_slab.c - slots: no overlap, full slabs, lowest first, empty slabs given back. */
#include "unit.h"

#include "../../pool/size_class.h"
#include "sim_backing.h"

static void a_slab_is_filled_before_the_next(void **state)
{
    (void)state;
    for (int c = 0; c < SIZE_CLASS_COUNT; c++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create_uncached(sim, 0);
        struct size_class size = size_class_get(c);
        struct pool_stats stats;
        uint64_t first = sim_alloc(pool, size.slot_bytes);
        for (uint32_t i = 1; i < size.slots; i++)
            assert_int_equal(sim_alloc(pool, size.slot_bytes),
                             first + (uint64_t)i * size.slot_bytes);
        pool_stats_read(pool, &stats);
        assert_int_equal(stats.classes[c].slabs, 1);
        assert_int_equal(stats.classes[c].slots_live, size.slots);
        sim_alloc(pool, size.slot_bytes);
        pool_stats_read(pool, &stats);
        assert_int_equal(stats.classes[c].slabs, 2);
        sim_backing_check(sim, pool);
        pool_destroy(pool, true);
        sim_backing_destroy(sim);
    }
}

static void the_lowest_free_slot_is_taken(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 0);
    uint64_t block[100];
    for (int i = 0; i < 100; i++)
        block[i] = sim_alloc(pool, 512);
    sim_free(block[70]);
    sim_free(block[3]);
    sim_free(block[40]);
    assert_int_equal(sim_alloc(pool, 512), block[3]);
    assert_int_equal(sim_alloc(pool, 512), block[40]);
    assert_int_equal(sim_alloc(pool, 512), block[70]);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void empty_slabs_go_back(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    static uint64_t block[1000];
    struct pool_stats stats;
    for (int i = 0; i < 1000; i++)
        block[i] = sim_alloc(pool, 4096);
    for (int i = 0; i < 999; i++)
        sim_free(block[i]);
    pool_stats_read(pool, &stats);
    assert_in_range(stats.slab_bytes, 1, 2 * SIZE_CLASS_SLAB_BYTES);
    sim_backing_check(sim, pool);
    sim_free(block[999]);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.slab_bytes, 0);
    assert_int_equal(stats.free_runs, 1);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void what_is_inside_or_behind_a_slot_is_no_block(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct size_class size = size_class_get(size_class_of(3 * 512));
    struct pool_block found;
    uint64_t first = sim_alloc(pool, 3 * 512);
    uint64_t behind = first + (uint64_t)size.slots * size.slot_bytes;
    assert_int_equal(pool_find(behind, &found), POOL_NOT_LIVE);
    assert_int_equal(pool_free_begin(behind, &found), POOL_NOT_LIVE);
    assert_int_equal(pool_free_begin(behind - size.slot_bytes, &found), POOL_NOT_LIVE);
    assert_int_equal(pool_free_begin(first + 512, &found), POOL_NOT_LIVE);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slab_is_filled_before_the_next),
        cmocka_unit_test(the_lowest_free_slot_is_taken),
        cmocka_unit_test(empty_slabs_go_back),
        cmocka_unit_test(what_is_inside_or_behind_a_slot_is_no_block),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
