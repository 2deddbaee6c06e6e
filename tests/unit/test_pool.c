/* test_pool.c - the interface as pool.h promises it: statuses, outputs, states, edges. */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

static void sizes_at_the_edges(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t address = 1;
    assert_int_equal(pool_alloc(pool, 0, POOL_NO_STREAM, 0, &address), POOL_INVALID);
    assert_int_equal(address, 0);
    static const uint64_t huge[] = {
        UINT64_MAX,        UINT64_MAX - 1,          UINT64_MAX - 511,
        (uint64_t)1 << 63, ((uint64_t)1 << 63) - 1, POOL_MAX_BLOCK_BYTES + 1};
    for (int i = 0; i < 6; i++) {
        address = 1;
        assert_int_equal(pool_alloc(pool, huge[i], POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
        assert_int_equal(address, 0);
    }
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_large_card_is_served_whole(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(192 * GIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc(pool, 191 * GIB + 1000 * MIB);
    sim_alloc(pool, 20 * MIB);
    sim_backing_check(sim, pool);
    sim_free(a);
    sim_alloc(pool, 100 * GIB);
    sim_alloc(pool, 91 * GIB);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void frees_are_refused_unless_a_block_is_live_there(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    static const uint64_t sizes[] = {512, 30000, 3 * MIB, 200 * MIB};
    struct pool_block block, zero = {0};
    struct pool_stats stats;
    for (int i = 0; i < 4; i++) {
        uint64_t a = sim_alloc(pool, sizes[i]);
        assert_int_equal(pool_free_begin(a + 1, &block), POOL_NOT_LIVE);
        assert_memory_equal(&block, &zero, sizeof(block));
        assert_int_equal(pool_free_begin(a + sizes[i] / 2, &block), POOL_NOT_LIVE);
        assert_int_equal(pool_free_begin(a, &block), POOL_OK);
        assert_int_equal(block.requested_bytes, sizes[i]);
        assert_true(block.block_bytes >= sizes[i]);
        struct pool_block second;
        assert_int_equal(pool_free_begin(a, &second), POOL_NOT_LIVE); /* releasing */
        pool_free_finish(&block);
        assert_int_equal(pool_free_begin(a, &second), POOL_NOT_LIVE); /* free */
        sim_backing_check(sim, pool);
    }
    assert_int_equal(pool_free_begin(12345, &block), POOL_NOT_OWNED);
    assert_int_equal(pool_free_begin(UINT64_MAX, &block), POOL_NOT_OWNED);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.invalid_frees, 16);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_cancelled_free_leaves_the_block_live(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block block;
    uint64_t a = sim_alloc(pool, 1000);
    assert_int_equal(pool_free_begin(a, &block), POOL_OK);
    sim_backing_check(sim, pool);
    pool_free_cancel(&block);
    sim_backing_check(sim, pool);
    assert_int_equal(pool_find(a + 999, &block), POOL_OK);
    assert_int_equal(block.state, POOL_BLOCK_LIVE);
    sim_free(a);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static int serial_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void serials_are_never_used_twice(void **state)
{
    (void)state;
    enum { BLOCKS = 20000 }; /* more than a thread takes numbers at a time */
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pools[2] = {sim_pool_create(sim, 0, 0), sim_pool_create(sim, 0, 0)};
    static uint64_t serials[BLOCKS];
    struct pool_block block;
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t a = sim_alloc(pools[i % 2], i % 3 == 0 ? 512 : i % 3 == 1 ? 20000 : 2 * MIB);
        assert_int_equal(pool_find(a, &block), POOL_OK);
        serials[i] = block.serial;
        sim_free(a);
    }
    qsort(serials, BLOCKS, sizeof(serials[0]), serial_compare);
    assert_true(serials[0] > 0);
    for (int i = 1; i < BLOCKS; i++)
        assert_true(serials[i - 1] < serials[i]);
    pool_destroy(pools[0], true);
    pool_destroy(pools[1], true);
    sim_backing_destroy(sim);
}

static void a_destroyed_pool_serves_nothing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block block;
    struct pool_stats stats;
    uint64_t address, a = sim_alloc(pool, 1000);
    pool_destroy(pool, false);
    assert_int_equal(sim->calls[SIM_RELEASE], 0);
    assert_false(pool_owns(a));
    assert_int_equal(pool_free_begin(a, &block), POOL_NOT_OWNED);
    assert_int_equal(pool_find(a, &block), POOL_NOT_OWNED);
    assert_int_equal(pool_alloc(pool, 1, POOL_NO_STREAM, 0, &address), POOL_CLOSED);
    assert_int_equal(pool_trim(pool, 0), 0);
    assert_int_equal(pool_collect(pool), 0);
    assert_int_equal(pool_available_bytes(pool, GIB), 0);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.allocations, 1);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void visit_one(void *arg, const struct pool_block *block)
{
    uint64_t *sums = arg;
    sums[0]++;
    sums[1] += block->requested_bytes;
}

static void live_blocks_are_visited_once(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t sums[2] = {0, 0}, bytes = 0, freed = 0;
    for (uint64_t i = 1; i < 300; i++) {
        uint64_t a = sim_alloc(pool, i * i * 37);
        bytes += i * i * 37;
        if (i % 3 == 0) {
            sim_free(a);
            bytes -= i * i * 37;
            freed++;
        }
    }
    pool_visit_live(pool, visit_one, sums);
    assert_int_equal(sums[0], 299 - freed);
    assert_int_equal(sums[1], bytes);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void the_figures_add_up(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats s;
    uint64_t requested = 0;
    for (uint64_t i = 1; i < 400; i++) {
        uint64_t a = sim_alloc(pool, i * 991);
        requested += i * 991;
        struct pool_block block;
        if (i % 4 == 0)
            sim_free(a);
        if (i % 7 == 0 && i % 4 != 0) {
            assert_int_equal(pool_free_begin(a, &block), POOL_OK);
            pool_free_pend(&block, 1, sim_backing_fence(sim, 1000000));
        }
    }
    pool_stats_read(pool, &s);
    assert_int_equal(s.requested_bytes, requested);
    assert_int_equal(s.allocations, 399);
    assert_int_equal(s.live_requested_bytes + s.internal_waste_bytes + s.limbo_bytes +
                         s.slab_free_bytes + s.run_free_bytes,
                     s.backed_bytes);
    assert_int_equal(s.backed_bytes, sim->held_bytes);
    assert_int_equal(s.allocations, s.frees + s.live_blocks);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void *lock_holder(void *arg)
{
    struct pool *pool = arg;
    struct timespec pause = {.tv_sec = 1};
    lock_take(&pool->lock);
    nanosleep(&pause, NULL);
    lock_give(&pool->lock);
    return NULL;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A thread that ended with the lock held must not keep the report from being written. */
static void figures_can_be_read_though_the_lock_is_held(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct timespec pause = {.tv_nsec = 100000000};
    struct pool_stats stats = {0};
    pthread_t holder;
    sim_alloc(pool, 1000);
    assert_int_equal(pthread_create(&holder, NULL, lock_holder, pool), 0);
    nanosleep(&pause, NULL);
    uint64_t begin = now_ms();
    pool_stats_read(pool, &stats);
    assert_true(now_ms() - begin < 700);
    assert_int_equal(stats.live_requested_bytes, 1000);
    pthread_join(holder, NULL);
    sim_pool_end(sim, pool);
}

static void retire(uint64_t address)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    pool_free_retire(&block);
}

/* What another process may have mapped is nobody's again. */
static void retired_memory_is_never_reused(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    static struct pool_stats stats;
    uint64_t held = sim->held_bytes;
    if (!sim->parts) { /* memory in parts is never exported */
        uint64_t alone = sim_alloc(pool, 100 * MIB + 512);
        retire(alone);
        assert_int_equal(sim->held_bytes, held);
        assert_false(pool_owns(alone));
    }
    uint64_t shared = sim_alloc(pool, MIB), neighbour = sim_alloc(pool, MIB);
    retire(shared);
    pool_trim(pool, 0);
    for (int i = 0; i < 200; i++) {
        uint64_t block = sim_alloc(pool, MIB);
        assert_true(block + MIB <= shared || block >= shared + MIB);
    }
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.limbo_blocks, 1);
    sim_free(neighbour);
    struct pool_block block;
    assert_int_equal(pool_free_begin(shared, &block), POOL_NOT_LIVE);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_at_the_edges),
        cmocka_unit_test(a_large_card_is_served_whole),
        cmocka_unit_test(frees_are_refused_unless_a_block_is_live_there),
        cmocka_unit_test(a_cancelled_free_leaves_the_block_live),
        cmocka_unit_test(serials_are_never_used_twice),
        cmocka_unit_test(a_destroyed_pool_serves_nothing),
        cmocka_unit_test(live_blocks_are_visited_once),
        cmocka_unit_test(the_figures_add_up),
        cmocka_unit_test(figures_can_be_read_though_the_lock_is_held),
        cmocka_unit_test(retired_memory_is_never_reused),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
