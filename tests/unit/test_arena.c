/* test_arena.c - growth, limit, slack, release, and a backing that refuses. */
#include "unit.h"

#include "sim_backing.h"

static void the_first_segment_is_as_configured(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 100 * MIB + 1, 0);
    sim_alloc(pool, 1);
    assert_int_equal(sim->held_bytes, 102 * MIB);
    pool_destroy(pool, true);
    assert_int_equal(sim->held_bytes, 0);
    sim_backing_destroy(sim);
}

/* The configured segment comes also where a large block was first, and serves large blocks. */
static void the_arena_is_had_whatever_comes_first(void **state)
{
    (void)state;
    static const struct {
        uint64_t first_bytes, held_bytes, held_in_parts_bytes;
    } rows[] = {{512, GIB, GIB},
                {100 * MIB, GIB, GIB},
                /* it fills the arena; the next segment is for the small one, and where memory is in
                 * parts no longer than it must be, since all that may be held is held */
                {GIB, GIB + 128 * MIB, GIB + 2 * MIB},
                {3 * GIB, 4 * GIB, 4 * GIB}};
    for (int i = 0; i < 4; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, GIB, 0);
        uint64_t a = sim_alloc(pool, rows[i].first_bytes);
        sim_alloc(pool, 512);
        assert_int_equal(sim->held_bytes,
                         sim->parts ? rows[i].held_in_parts_bytes : rows[i].held_bytes);
        sim_free(a);
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

static void a_refused_arena_is_halved(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(300 * MIB);
    struct pool *pool = sim_pool_create(sim, GIB, 0);
    sim_alloc(pool, 512);
    assert_int_equal(sim->held_bytes, 256 * MIB);
    sim_pool_end(sim, pool);
}

static void an_idle_arena_is_kept(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, GIB, 0);
    struct pool_block block;
    assert_int_equal(pool_free_begin(sim_alloc(pool, 512), &block), POOL_OK);
    assert_int_equal(pool_free_finish(&block), 0);
    assert_int_equal(pool_trim(pool, UINT64_MAX), 0);
    assert_int_equal(sim->held_bytes, GIB);
    sim_pool_end(sim, pool);
}

static void the_longest_idle_goes_first(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t block[5];
    for (int i = 0; i < 5; i++)
        block[i] = sim_alloc(pool, (100 + 2 * (uint64_t)i) * MIB);
    static const int order[] = {3, 0, 4, 1, 2};
    for (int i = 0; i < 5; i++)
        sim_free(block[order[i]]);
    uint64_t kept = 520 * MIB;
    for (int i = 0; i < 5; i++) {
        kept -= (100 + 2 * (uint64_t)order[i]) * MIB;
        assert_true(pool_owns(block[order[i]]));
        pool_trim(pool, kept);
        assert_false(pool_owns(block[order[i]]));
        assert_int_equal(sim->held_bytes, kept);
        sim_backing_check(sim, pool);
    }
    sim_pool_end(sim, pool);
}

static void no_slack_keeps_the_peak_and_the_floor(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct backing backing = sim_backing_get(sim);
    struct pool_config config = {.slack_percent = 0};
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    uint64_t block[40];
    for (int i = 0; i < 40; i++)
        block[i] = sim_alloc(pool, 50 * MIB);
    for (int i = 0; i < 40; i++)
        sim_free(block[i]);
    sim_free(sim_alloc(pool, 512)); /* the first segment */
    for (int i = 0; i < 3; i++)
        sim_free(sim_alloc(pool, (2100 + 100 * (uint64_t)i) * MIB));
    pool_trim(pool, UINT64_MAX);
    assert_true(sim->held_bytes <= (2300 + 64) * MIB);
    sim_pool_end(sim, pool);
}

static void a_small_card_gets_small_segments(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(6 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    sim_alloc(pool, MIB);
    assert_true(sim->held_bytes <= 6 * MIB);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void the_limit_is_never_exceeded(void **state)
{
    (void)state;
    for (uint64_t limit = 2 * MIB; limit < 300 * MIB; limit += 17 * MIB + 333) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, limit);
        uint64_t address, got = 0;
        while (pool_alloc(pool, MIB, POOL_NO_STREAM, 0, &address) == POOL_OK)
            got += MIB;
        assert_true(sim->held_peak_bytes <= limit);
        assert_int_equal(got, limit / (2 * MIB) * 2 * MIB);
        sim_backing_check(sim, pool);
        pool_destroy(pool, true);
        sim_backing_destroy(sim);
    }
}

static void idle_memory_over_the_slack_is_released_on_trim(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block block;
    uint64_t a = sim_alloc(pool, GIB);
    sim_free(a);
    assert_int_equal(sim->held_bytes, GIB); /* kept: no more than was live */
    uint64_t b = sim_alloc(pool, GIB + 300 * MIB);
    uint64_t over_bytes = sim->parts ? 0 : GIB; /* parts went back before more was acquired */
    assert_int_equal(sim->held_bytes, GIB + 300 * MIB + over_bytes);
    assert_int_equal(pool_free_begin(b, &block), POOL_OK);
    assert_int_equal(pool_free_finish(&block) > 0, over_bytes > 0);
    assert_int_equal(pool_trim(pool, UINT64_MAX), over_bytes);
    assert_int_equal(sim->held_bytes, GIB + 300 * MIB);
    sim_backing_check(sim, pool);
    assert_int_equal(pool_trim(pool, 0), GIB + 300 * MIB);
    assert_int_equal(sim->held_bytes, 0);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_refused_release_leaves_the_pool_whole(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    uint64_t a = sim_alloc(pool, 100 * MIB);
    sim_free(a);
    sim->fail_at[SIM_RELEASE] = UINT64_MAX;
    assert_int_equal(pool_trim(pool, 0), 0);
    sim_backing_check(sim, pool);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.segment_release_failures, 1);
    assert_int_equal(sim_alloc(pool, 100 * MIB), a);
    sim->fail_at[SIM_RELEASE] = 0;
    sim_free(a);
    assert_int_equal(pool_trim(pool, 0), 100 * MIB);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static void a_refused_growth_leaves_the_pool_whole(void **state)
{
    (void)state;
    static const enum backing_status refusals[] = {BACKING_NO_MEMORY, BACKING_FAILED};
    for (int r = 0; r < 2; r++) {
        for (uint64_t at = 1; at < 8; at++) {
            struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
            struct pool *pool = sim_pool_create(sim, 0, 0);
            uint64_t address;
            sim->fail_status = refusals[r];
            sim->fail_at[SIM_ACQUIRE] = at;
            for (uint64_t i = 1; i < 40; i++) {
                pool_alloc(pool, i * 3 * MIB, POOL_NO_STREAM, 0, &address);
                sim_backing_check(sim, pool);
            }
            pool_destroy(pool, true);
            assert_int_equal(sim->held_bytes, 0);
            sim_backing_destroy(sim);
        }
    }
}

static void nothing_is_had_from_a_card_that_refuses_all(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t address = 1;
    sim->fail_at[SIM_ACQUIRE] = UINT64_MAX;
    assert_int_equal(pool_alloc(pool, 1, POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
    assert_int_equal(address, 0);
    assert_int_equal(pool_alloc(pool, GIB, POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static struct pool *released_pool;
static void allocate_meanwhile(struct sim_backing *sim)
{
    (void)sim;
    sim_free(sim_alloc(released_pool, 4096)); /* would hang if a lock were held across a release */
    sim_free(sim_alloc(released_pool, 40 * MIB));
}

static void others_allocate_while_a_segment_is_released(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    sim_alloc(pool, 512);
    sim_free(sim_alloc(pool, 500 * MIB));
    released_pool = pool;
    sim->hook[SIM_RELEASE] = allocate_meanwhile;
    assert_true(pool_trim(pool, 0) >= 500 * MIB);
    sim->hook[SIM_RELEASE] = NULL;
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

/* One small block pins the segment that holds nearly all of the card; the rest of it can be had. */
static void memory_taken_ahead_is_told_to_be_free(void **state)
{
    (void)state;
    uint64_t card_bytes = (uint64_t)512 << 20;
    struct sim_backing *sim = sim_backing_create(card_bytes);
    struct pool *pool = sim_pool_create(sim, card_bytes, 0);
    sim_alloc(pool, 1000);
    uint64_t free_bytes = card_bytes - sim->held_bytes;
    uint64_t told_bytes = free_bytes + pool_available_bytes(pool, free_bytes);
    assert_in_range(told_bytes, card_bytes - ((uint64_t)4 << 20), card_bytes);
    sim_alloc(pool, told_bytes / 10 * 9);
    sim_pool_end(sim, pool);
}

enum { ROTATED = 16 };

/* A program that holds the same all the time, and frees the oldest block for each new one; between
 * that and the next it allocates and frees `between` small ones. */
static struct pool *rotate(struct sim_backing *sim, uint64_t block[ROTATED], int rounds,
                           int between)
{
    sim->parts = false;
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (int i = 0; i < ROTATED; i++)
        block[i] = sim_alloc(pool, 100 * MIB);
    for (int i = 0; i < rounds; i++) {
        sim_free(block[i % ROTATED]);
        pool_trim(pool, UINT64_MAX);
        for (int j = 0; j < between; j++)
            sim_free(sim_alloc(pool, 4096));
        block[i % ROTATED] = sim_alloc(pool, 100 * MIB);
    }
    return pool;
}

static void what_comes_back_at_once_stays(void **state)
{
    (void)state;
    uint64_t block[ROTATED];
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = rotate(sim, block, 200, 0);
    assert_in_range(sim->calls[SIM_RELEASE], 1, 10);
    assert_int_equal(sim->held_bytes, ROTATED * 100 * MIB);
    sim_free(block[0]); /* one stays idle ... */
    sim_free(block[1]);
    pool_trim(pool, UINT64_MAX);
    assert_int_equal(sim->held_bytes, (ROTATED - 1) * 100 * MIB);
    block[0] = sim_alloc(pool, 150 * MIB); /* ... until it is of no use */
    pool_trim(pool, UINT64_MAX);
    assert_int_equal(sim->held_bytes, (ROTATED - 2) * 100 * MIB + 150 * MIB);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* Some frees later it is no longer at once. */
static void what_comes_back_later_is_given_back(void **state)
{
    (void)state;
    uint64_t block[ROTATED];
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = rotate(sim, block, 50, 5);
    assert_in_range(sim->calls[SIM_RELEASE], 40, 50); /* threads count frees a little late */
    sim_pool_end(sim, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_taken_ahead_is_told_to_be_free),
        cmocka_unit_test(the_first_segment_is_as_configured),
        cmocka_unit_test(the_arena_is_had_whatever_comes_first),
        cmocka_unit_test(a_refused_arena_is_halved),
        cmocka_unit_test(an_idle_arena_is_kept),
        cmocka_unit_test(the_longest_idle_goes_first),
        cmocka_unit_test(no_slack_keeps_the_peak_and_the_floor),
        cmocka_unit_test(a_small_card_gets_small_segments),
        cmocka_unit_test(the_limit_is_never_exceeded),
        cmocka_unit_test(idle_memory_over_the_slack_is_released_on_trim),
        cmocka_unit_test(a_refused_release_leaves_the_pool_whole),
        cmocka_unit_test(a_refused_growth_leaves_the_pool_whole),
        cmocka_unit_test(nothing_is_had_from_a_card_that_refuses_all),
        cmocka_unit_test(others_allocate_while_a_segment_is_released),
        cmocka_unit_test(what_comes_back_at_once_stays),
        cmocka_unit_test(what_comes_back_later_is_given_back),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
