/* test_limbo.c - freed blocks under fences: reused by their stream at once, by others only after.
 */
#include "unit.h"

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

static const uint64_t sizes[] = {512, 20000, 100000, 5 * MIB, 100 * MIB};

static void the_same_stream_reuses_at_once(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    for (int i = 0; i < 5; i++) {
        uint64_t a = sim_alloc_on(pool, sizes[i], 7);
        sim_free_pending(sim, a, 7, 100);
        assert_int_equal(sim_alloc_on(pool, sizes[i], 7), a);
        sim_backing_check(sim, pool);
    }
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.stream_reuses, 5);
    for (uint64_t fence = 1; fence <= sim->fences; fence++)
        assert_int_equal(sim->fence_dropped[fence], 1);
    sim_pool_end(sim, pool);
}

static void others_wait_for_the_fence(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (int i = 0; i < 5; i++) {
        uint64_t a = sim_alloc_on(pool, sizes[i], 7);
        sim_free_pending(sim, a, 7, sim->now + 100);
        assert_int_not_equal(sim_alloc_on(pool, sizes[i], 8), a);
        assert_int_not_equal(sim_alloc(pool, sizes[i]), a);
        assert_int_equal(pool_collect(pool), 0);
        sim->now += 100;
        assert_int_equal(pool_collect(pool), 1);
        sim_backing_check(sim, pool);
        struct pool_block found;
        assert_int_equal(pool_find(a, &found), POOL_NOT_LIVE);
    }
    sim_pool_end(sim, pool);
}

/* Two threads that free on one stream may hand in their fences in the other order. */
static void a_fence_speaks_for_its_own_block_only(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block found;
    uint64_t late = sim_alloc_on(pool, 4096, 5), early = sim_alloc_on(pool, 4096, 5);
    sim_free_pending(sim, late, 5, 200);
    sim_free_pending(sim, early, 5, 100);
    sim->now = 150;
    pool_collect(pool);
    assert_int_equal(pool_find(late, &found), POOL_OK);
    assert_int_equal(found.state, POOL_BLOCK_PENDING);
    for (int i = 0; i < 100; i++)
        assert_int_not_equal(sim_alloc(pool, 4096), late);
    sim->now = 200;
    pool_collect(pool);
    sim_backing_check(sim, pool);
    assert_int_equal(pool_find(late, &found), POOL_NOT_LIVE);
    sim_pool_end(sim, pool);
}

/* Blocks of no stream do not hold up each other. */
static void unordered_fences_pass_in_any_order(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (uint64_t i = 0; i < 10; i++)
        sim_free_pending(sim, sim_alloc(pool, 4096), POOL_NO_STREAM, i % 2 == 0 ? 1000 : 10);
    sim->now = 10;
    assert_int_equal(pool_collect(pool), 5);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_failed_fence_does_not_hold_up_later_ones(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block found;
    uint64_t a = sim_alloc_on(pool, 4096, 5);
    sim_free_pending(sim, a, 5, 10);
    sim_free_pending(sim, sim_alloc_on(pool, 8192, 5), 5, 10);
    sim->now = 10;
    sim->fail_at[SIM_POLL] = 1;
    assert_int_equal(pool_collect(pool), 1);
    assert_int_equal(pool_find(a, &found), POOL_OK);
    assert_int_equal(found.state, POOL_BLOCK_PENDING);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_collector_asks_no_more_than_it_frees_and_one(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (uint64_t i = 1; i <= 1000; i++)
        sim_free_pending(sim, sim_alloc(pool, 4096), 3, i);
    sim->now = 600;
    assert_int_equal(pool_collect(pool), 600);
    assert_int_equal(sim->calls[SIM_POLL], 601);
    sim_pool_end(sim, pool);
}

/* A longer run of the stream serves, and what it has too much stays behind its fence. */
static void a_longer_run_is_cut_and_its_tail_stays_pending(void **state)
{
    (void)state;
    static const uint64_t pages[] = {136, 144, 145, 500, 640, 1000, 1700};
    for (int i = 0; i < 7; i++) {
        uint64_t more = pages[i] / 8;
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct pool_block found;
        uint64_t a = sim_alloc_on(pool, (pages[i] + more) * POOL_PAGE_BYTES, 7);
        uint64_t tail = a + pages[i] * POOL_PAGE_BYTES;
        sim_free_pending(sim, a, 7, 100);
        assert_int_equal(sim_alloc_on(pool, pages[i] * POOL_PAGE_BYTES - 5, 7), a);
        sim_backing_check(sim, pool);
        assert_int_equal(pool_find(tail, &found), POOL_OK);
        assert_int_equal(found.state, POOL_BLOCK_PENDING);
        assert_int_equal(found.block_bytes, more * POOL_PAGE_BYTES);
        uint64_t other = sim_alloc_on(pool, more * POOL_PAGE_BYTES, 8);
        assert_int_not_equal(other, tail);
        assert_int_equal(sim_alloc_on(pool, more * POOL_PAGE_BYTES, 7), tail);
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

static void a_much_longer_run_is_left_alone(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc_on(pool, 91 * POOL_PAGE_BYTES, 7);
    sim_free_pending(sim, a, 7, 100);
    assert_int_not_equal(sim_alloc_on(pool, 80 * POOL_PAGE_BYTES, 7), a);
    assert_int_equal(sim_alloc_on(pool, 81 * POOL_PAGE_BYTES, 7), a);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* What another thread may do while a collector asks about a block. */
static struct pool *asked_pool;
static uint64_t asked_bytes, asked_got;

static void reuse_meanwhile(struct sim_backing *sim)
{
    sim->hook[SIM_POLL] = NULL;
    asked_got = sim_alloc_on(asked_pool, asked_bytes, 7);
}

static void reuse_and_free_meanwhile(struct sim_backing *sim)
{
    sim->hook[SIM_POLL] = NULL;
    asked_got = sim_alloc_on(asked_pool, asked_bytes, 7);
    sim_free_pending(sim, asked_got, 7, 500);
}

static void forget_meanwhile(struct sim_backing *sim)
{
    sim->hook[SIM_POLL] = NULL;
    asked_got = 0;
    pool_forget_stream(asked_pool, 7);
}

static void end_all_meanwhile(struct sim_backing *sim)
{
    sim->hook[SIM_POLL] = NULL;
    asked_got = 0;
    assert_int_equal(pool_collect_all(asked_pool), 1); /* the other one; this one is asked */
}

static void collector_race(uint64_t bytes, uint64_t asked, void (*hook)(struct sim_backing *sim),
                           uint64_t now, enum pool_block_state after)
{
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block found = {0};
    uint64_t a = sim_alloc_on(pool, bytes, 7), b = sim_alloc_on(pool, 1024, 7);
    sim_free_pending(sim, a, 7, 100);
    sim_free_pending(sim, b, 7, 101);
    asked_pool = pool;
    asked_bytes = asked;
    sim->now = now;
    sim->hook[SIM_POLL] = hook;
    pool_collect(pool);
    sim_backing_check(sim, pool);
    if (asked_got != 0)
        assert_int_equal(asked_got, a);
    pool_find(a, &found);
    assert_int_equal(found.state, after);
    sim->now = 1000;
    pool_collect(pool);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_block_taken_while_it_is_asked_about_stays_taken(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        for (uint64_t now = 99; now <= 101; now++) {
            collector_race(sizes[i], sizes[i], reuse_meanwhile, now, POOL_BLOCK_LIVE);
            collector_race(sizes[i], sizes[i], reuse_and_free_meanwhile, now, POOL_BLOCK_PENDING);
            collector_race(sizes[i], sizes[i], end_all_meanwhile, now, POOL_BLOCK_FREE);
            collector_race(sizes[i], sizes[i], forget_meanwhile, now,
                           now < 100 ? POOL_BLOCK_PENDING : POOL_BLOCK_FREE);
        }
    for (uint64_t now = 99; now <= 101; now++) /* cut: the tail is what is asked about now */
        collector_race(9 * MIB, 8 * MIB + 5 * KIB, reuse_meanwhile, now, POOL_BLOCK_LIVE);
}

static void fences_pass_in_order_from_the_oldest(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (uint64_t i = 0; i < 10; i++)
        sim_free_pending(sim, sim_alloc_on(pool, 4096, 3 + 10 * i), 3, 10 * (i + 1));
    sim->now = 35;
    assert_int_equal(pool_collect(pool), 3);
    sim_backing_check(sim, pool);
    sim->now = 1000;
    assert_int_equal(pool_collect(pool), 7);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_forgotten_stream_reuses_nothing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc_on(pool, 4096, 5);
    sim_free_pending(sim, a, 5, 100);
    pool_forget_stream(pool, 5);
    assert_int_not_equal(sim_alloc_on(pool, 4096, 5), a); /* the number was given to a new stream */
    sim_backing_check(sim, pool);
    sim->now = 100;
    assert_int_equal(pool_collect(pool), 1);
    sim_backing_check(sim, pool);
    assert_null(pool->limbo.all); /* its record is gone as well */
    sim_pool_end(sim, pool);
}

/* More streams than the table of what they can reuse has places. */
static void streams_that_share_a_place_share_no_block(void **state)
{
    (void)state;
    enum { STREAMS_EACH = 2 * LIMBO_SIZE_BUCKETS };
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    for (uint64_t i = 1; i <= STREAMS_EACH; i++)
        sim_free_pending(sim, sim_alloc(pool, 512), i, 100);
    for (uint64_t i = 1; i <= STREAMS_EACH; i++)
        sim_alloc_on(pool, 512, STREAMS_EACH + i);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.stream_reuses, 0);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_failed_fence_never_passes(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc_on(pool, 4096, 5);
    sim_free_pending(sim, a, 5, 1);
    sim->now = 50;
    sim->fail_at[SIM_POLL] = SIM_FAIL_ALWAYS;
    assert_int_equal(pool_collect(pool), 0);
    for (int i = 0; i < 100; i++)
        assert_int_not_equal(sim_alloc(pool, 4096), a);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* Case 12: merging free neighbours must not free a pending one between them. */
static void case_12_merging_leaves_pending_neighbours_alone(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 32 * MIB, 0);
    uint64_t a = sim_alloc_on(pool, MIB, 5), b = sim_alloc_on(pool, MIB, 5),
             c = sim_alloc_on(pool, MIB, 5);
    assert_int_equal(b, a + MIB);
    assert_int_equal(c, b + MIB);
    sim_free_pending(sim, b, 5, 100);
    sim_free(a);
    sim_free(c);
    sim_backing_check(sim, pool);
    for (int i = 0; i < 40; i++) {
        uint64_t d = sim_alloc(pool, MIB / 2);
        assert_true(d + MIB / 2 <= b || d >= b + MIB);
    }
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void waiting_is_the_last_resort(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(100 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc_on(pool, 90 * MIB, 5);
    sim_free_pending(sim, a, 5, 1000);
    uint64_t b = sim_alloc_on(pool, 90 * MIB, 6);
    assert_int_equal(b, a);
    assert_true(sim->calls[SIM_WAIT] > 0);
    assert_int_equal(sim->now, 1000);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void all_work_done_frees_all(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    for (uint64_t i = 0; i < 100; i++)
        sim_free_pending(sim, sim_alloc_on(pool, 512 * (i + 1), i % 5), i % 5, 1000000);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.limbo_blocks + stats.stream_reuses, 100);
    assert_int_equal(pool_collect_all(pool), stats.limbo_blocks);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.limbo_bytes, 0);
    assert_int_equal(stats.live_blocks, 0);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_stream_reuses_at_once),
        cmocka_unit_test(others_wait_for_the_fence),
        cmocka_unit_test(a_fence_speaks_for_its_own_block_only),
        cmocka_unit_test(unordered_fences_pass_in_any_order),
        cmocka_unit_test(a_failed_fence_does_not_hold_up_later_ones),
        cmocka_unit_test(a_collector_asks_no_more_than_it_frees_and_one),
        cmocka_unit_test(a_longer_run_is_cut_and_its_tail_stays_pending),
        cmocka_unit_test(a_much_longer_run_is_left_alone),
        cmocka_unit_test(a_block_taken_while_it_is_asked_about_stays_taken),
        cmocka_unit_test(fences_pass_in_order_from_the_oldest),
        cmocka_unit_test(a_forgotten_stream_reuses_nothing),
        cmocka_unit_test(streams_that_share_a_place_share_no_block),
        cmocka_unit_test(a_failed_fence_never_passes),
        cmocka_unit_test(case_12_merging_leaves_pending_neighbours_alone),
        cmocka_unit_test(waiting_is_the_last_resort),
        cmocka_unit_test(all_work_done_frees_all),
    };
    return cmocka_run_group_tests_name("limbo", tests, NULL, NULL);
}
