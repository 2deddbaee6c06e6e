/* test_leaves.c - a segment that leaves between the look into the page map and the lock. The link
 * puts this file's page_map_get before the pool's. */
#include "unit.h"

#include "../../pool/page_map.h"
#include "sim_backing.h"

struct segment *__real_page_map_get(uint64_t address);
struct segment *__wrap_page_map_get(uint64_t address);

static struct pool *trimmed; /* gives all back once somebody has looked; NULL: it does not */

struct segment *__wrap_page_map_get(uint64_t address)
{
    struct segment *segment = __real_page_map_get(address);
    struct pool *pool = trimmed;
    trimmed = NULL;
    if (pool != NULL)
        assert_true(pool_trim(pool, 0) > 0);
    return segment;
}

static void a_segment_that_left_is_not_used(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    struct pool_block block;
    uint64_t address = sim_alloc(pool, 5 * MIB);
    sim_free(address);
    trimmed = pool;
    assert_int_equal(pool_find(address, &block), POOL_NOT_OWNED);
    assert_null(trimmed);
    assert_int_equal(sim_alloc(pool, 5 * MIB), address); /* a new segment at the old place */
    sim_free(address);
    trimmed = pool;
    assert_int_equal(pool_free_begin(address, &block), POOL_NOT_OWNED);
    assert_int_equal(pool_retag(address, 1), POOL_NOT_OWNED);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.invalid_frees, 0);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_that_left_is_not_used),
    };
    return cmocka_run_group_tests_name("leaves", tests, NULL, NULL);
}
