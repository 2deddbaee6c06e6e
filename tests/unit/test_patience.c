/* test_patience.c - config.patience_us: rather than hold more than the slack allows, a request
 * waits a little for pending fences; never twice in vain without progress. And frees_due, called
 * before any of that. */
#include "unit.h"

#include <time.h>

#include "sim_backing.h"

enum { PATIENCE_US = 100000 };

static int due_calls;
static struct pool_block kept; /* by somebody who hands it in at the third call */
static uint64_t kept_fence;

static void frees_due(void *self)
{
    (void)self;
    if (++due_calls == 3 && kept_fence != 0)
        pool_free_pend(&kept, 9, kept_fence);
}

static struct pool *patient_pool(struct sim_backing *sim)
{
    struct backing backing = sim_backing_get(sim);
    struct pool_config config = {.slack_percent = 80, .patience_us = PATIENCE_US};
    backing.frees_due = frees_due;
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    return pool;
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The GPU goes on while it is asked. */
static void time_passes(struct sim_backing *sim)
{
    sim_backing_advance(sim, sim->now + 1);
}

static void waiting_replaces_growing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = patient_pool(sim);
    uint64_t a = sim_alloc(pool, 512 * MIB);
    sim_free_pending(sim, a, 9, 40);
    sim->hook[SIM_POLL] = time_passes;
    due_calls = 0;
    assert_int_equal(sim_alloc(pool, 512 * MIB), a);
    assert_true(due_calls >= 1);
    assert_int_equal(sim->held_bytes, 512 * MIB);
    sim_pool_end(sim, pool);
}

/* Threads that wait here fill each other's batches while they do. */
static void what_others_keep_back_is_asked_for_again(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = patient_pool(sim);
    uint64_t a = sim_alloc(pool, 512 * MIB), begin = now_us();
    assert_int_equal(pool_free_begin(a, &kept), POOL_OK);
    kept_fence = sim_backing_fence(sim, sim->now);
    due_calls = 0;
    assert_int_equal(sim_alloc(pool, 512 * MIB), a);
    assert_true(now_us() - begin < PATIENCE_US);
    assert_int_equal(sim->held_bytes, 512 * MIB);
    kept_fence = 0;
    sim_pool_end(sim, pool);
}

/* One question is enough for blocks behind one fence. */
static void a_shared_fence_is_asked_once(void **state)
{
    (void)state;
    struct pool_stats stats;
    struct pool_block blocks[40];
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t fence = sim_backing_fence_shared(sim, 10, 40);
    for (int i = 0; i < 40; i++)
        assert_int_equal(pool_free_begin(sim_alloc(pool, 4096), &blocks[i]), POOL_OK);
    pool_free_pend_all(blocks, 40, 9, fence);
    sim_free_pending(sim, sim_alloc(pool, 4096), 9, 20);
    assert_int_equal(pool_collect(pool), 0);
    sim_backing_advance(sim, 10);
    assert_int_equal(pool_collect(pool), 40);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.fence_polls, 3); /* not yet; passed; the other one not yet */
    assert_int_equal(stats.limbo_blocks, 1);
    sim_backing_advance(sim, 20);
    assert_int_equal(pool_collect(pool), 1);
    sim_pool_end(sim, pool);
}

static void without_patience_it_grows_at_once(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    uint64_t a = sim_alloc(pool, 512 * MIB);
    sim_free_pending(sim, a, 9, 40);
    assert_int_not_equal(sim_alloc(pool, 512 * MIB), a);
    sim_pool_end(sim, pool);
}

static void within_the_slack_it_grows_at_once(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = patient_pool(sim);
    uint64_t a = sim_alloc(pool, 20 * MIB);
    sim_free_pending(sim, a, 9, 1000000);
    uint64_t begin = now_us();
    sim_alloc(pool, 20 * MIB);
    assert_true(now_us() - begin < PATIENCE_US / 2);
    sim_pool_end(sim, pool);
}

/* A kernel may be waiting for this very thread: one wait in vain is the last until something
 * passes. */
static void waiting_in_vain_is_not_repeated(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = patient_pool(sim);
    sim_free_pending(sim, sim_alloc(pool, 512 * MIB), 9, 1000000);
    uint64_t begin = now_us();
    for (int i = 0; i < 50; i++)
        sim_alloc(pool, 300 * MIB);
    uint64_t waited_us = now_us() - begin;
    assert_true(waited_us >= PATIENCE_US && waited_us < 10 * PATIENCE_US);
    sim_backing_advance(sim, 1000000);
    pool_collect(pool);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* Everything passed, and no hole fits: that is no wait in vain, and the next one is made. */
static void a_wait_that_saw_something_pass_is_repeated(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    sim->parts = false; /* else what passed would be moved together */
    struct pool *pool = patient_pool(sim);
    uint64_t a = sim_alloc(pool, 300 * MIB), b = sim_alloc(pool, 300 * MIB);
    sim->hook[SIM_POLL] = time_passes;
    sim_free_pending(sim, a, 9, 10);
    sim_free_pending(sim, b, 9, 20);
    uint64_t c = sim_alloc(pool, 500 * MIB); /* neither hole is long enough */
    assert_int_equal(sim->calls[SIM_ACQUIRE], 3);
    uint64_t d = sim_alloc(pool, 300 * MIB), e = sim_alloc(pool, 300 * MIB);
    assert_int_equal(sim->calls[SIM_ACQUIRE], 3);
    sim_free_pending(sim, d, 9, sim->now + 1000);
    assert_int_equal(sim_alloc(pool, 300 * MIB), d);
    assert_int_equal(sim->calls[SIM_ACQUIRE], 3);
    sim_free(c);
    sim_free(e);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_replaces_growing),
        cmocka_unit_test(what_others_keep_back_is_asked_for_again),
        cmocka_unit_test(a_shared_fence_is_asked_once),
        cmocka_unit_test(without_patience_it_grows_at_once),
        cmocka_unit_test(within_the_slack_it_grows_at_once),
        cmocka_unit_test(waiting_in_vain_is_not_repeated),
        cmocka_unit_test(a_wait_that_saw_something_pass_is_repeated),
    };
    return cmocka_run_group_tests_name("patience", tests, NULL, NULL);
}
