/* test_pool_faults.c - every call of the backing fails, once at each turn and always, with every
 * status, under a workload that uses them all: the pool stays whole, keeps no byte that it does not
 * know of, and recovers. And a pool whose own records are broken closes instead of serving.
 */
#include "unit.h"

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

enum { BLOCKS = 24 };

struct load {
    struct sim_backing *sim;
    struct pool *pool;
    uint64_t address[BLOCKS];
    uint64_t served, refused;
};

static void load_alloc(struct load *load, int i, uint64_t bytes)
{
    enum pool_status status =
        pool_alloc(load->pool, bytes, 1 + (uint64_t)i % 3, 0, &load->address[i]);
    assert_true(status == POOL_OK || status == POOL_NO_MEMORY);
    assert_int_equal(load->address[i] != 0, status == POOL_OK);
    load->served += status == POOL_OK;
    load->refused += status != POOL_OK;
    sim_backing_check(load->sim, load->pool);
}

static void load_free(struct load *load, int i)
{
    if (load->address[i] == 0)
        return;
    if (i % 2 == 0)
        sim_free(load->address[i]);
    else
        sim_free_pending(load->sim, load->address[i], 1 + (uint64_t)i % 3, load->sim->now + 5);
    load->address[i] = 0;
    sim_backing_check(load->sim, load->pool);
}

/* On a card of 256 MiB: fills it, frees, changes shape, trims, so that every call is needed. */
static void load_run(struct load *load)
{
    static const uint64_t sizes[] = {512, 20 * MIB, 50 * MIB, 100 * KIB, 70 * MIB, 4096};
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < BLOCKS; i++)
            load_alloc(load, i, sizes[(i + round) % 6] + (uint64_t)round * 10000);
        pool_collect(load->pool);
        for (int i = 0; i < BLOCKS; i++)
            load_free(load, (i * 7 + round) % BLOCKS);
        load->sim->now += 2;
        if (round % 2 == 1)
            pool_trim(load->pool, UINT64_MAX);
        sim_backing_check(load->sim, load->pool);
    }
}

/* With the backing well again, everything comes back. */
static void load_end(struct load *load)
{
    struct pool_stats stats;
    memset(load->sim->fail_at, 0, sizeof(load->sim->fail_at));
    load->sim->now += 1000;
    pool_collect(load->pool);
    pool_collect(load->pool);
    pool_stats_read(load->pool, &stats);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.limbo_blocks, 0);
    assert_int_equal(stats.backed_bytes, load->sim->held_bytes);
    assert_int_equal(stats.free_runs, stats.segments);
    pool_trim(load->pool, 0);
    assert_int_equal(load->sim->held_bytes, 0);
    sim_free(sim_alloc(load->pool, 256 * MIB));
    sim_pool_end(load->sim, load->pool);
}

static struct load load_begin(void)
{
    struct load load = {.sim = sim_backing_create(256 * MIB)};
    load.pool = sim_pool_create(load.sim, 0, 0);
    return load;
}

static void the_workload_uses_every_call(void **state)
{
    (void)state;
    struct load load = load_begin();
    load_run(&load);
    for (int call = 0; call < SIM_CALLS; call++)
        assert_true(load.sim->calls[call] >= 3);
    assert_true(load.served > 0 && load.refused > 0);
    load_end(&load);
}

static void any_call_may_fail_once(void **state)
{
    (void)state;
    static const enum backing_status statuses[] = {BACKING_NO_MEMORY, BACKING_FAILED};
    uint64_t failures = 0;
    for (int call = 0; call < SIM_CALLS; call++)
        for (uint64_t at = 1; at <= 40; at++)
            for (int s = 0; s < 2; s++) {
                struct load load = load_begin();
                load.sim->fail_at[call] = at;
                load.sim->fail_status = statuses[s];
                load_run(&load);
                failures += load.sim->calls[call] >= at;
                load_end(&load);
            }
    assert_true(failures > 50);
}

static void any_call_may_fail_always(void **state)
{
    (void)state;
    static const enum backing_status statuses[] = {BACKING_NO_MEMORY, BACKING_FAILED};
    for (unsigned calls = 1; calls < 1U << SIM_CALLS; calls++)
        for (int s = 0; s < 2; s++) {
            struct load load = load_begin();
            load.sim->fail_status = statuses[s];
            for (int call = 0; call < SIM_CALLS; call++)
                load.sim->fail_at[call] = calls >> call & 1 ? SIM_FAIL_ALWAYS : 0;
            load_run(&load);
            load_end(&load);
        }
}

/* The backing works for a while, then never again: what is held is still served. */
static void held_memory_outlives_the_backing(void **state)
{
    (void)state;
    struct load load = load_begin();
    load_run(&load);
    for (int call = 0; call < SIM_CALLS; call++)
        load.sim->fail_at[call] = SIM_FAIL_ALWAYS;
    load.sim->fail_status = BACKING_FAILED;
    uint64_t served = load.served;
    load_run(&load);
    assert_true(load.served > served);
    load_end(&load);
}

/* A backing without fences: blocks behind one wait for good, and nothing crashes. */
static void fence_functions_may_be_missing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(64 * MIB);
    struct backing backing = sim_backing_get(sim);
    struct pool_config config = {0};
    struct pool_block block;
    uint64_t address;
    backing.fence_poll = NULL;
    backing.fence_wait = NULL;
    backing.fence_drop = NULL;
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    assert_int_equal(pool_free_begin(sim_alloc(pool, 40 * MIB), &block), POOL_OK);
    pool_free_pend(&block, 1, 1);
    assert_int_equal(pool_collect(pool), 0);
    assert_int_equal(pool_alloc(pool, 40 * MIB, 0, 0, &address), POOL_NO_MEMORY);
    sim_backing_check(sim, pool);
    assert_int_equal(pool_collect_all(pool), 1);
    sim_free(sim_alloc(pool, 60 * MIB));
    sim_pool_end(sim, pool);
}

/* --- broken records -------------------------------------------------------------------------- */

/* After the break: nothing is served, every call answers, and the check says why. */
static void broken_check(struct pool *pool, uint64_t address, const char *words)
{
    struct pool_block block;
    struct pool_stats stats;
    char why[200];
    uint64_t got = 1;
    assert_int_equal(pool_alloc(pool, 512, 0, 0, &got), POOL_CLOSED);
    assert_int_equal(got, 0);
    assert_int_equal(pool_free_begin(address, &block), POOL_CLOSED);
    assert_int_equal(pool_find(address, &block), POOL_CLOSED);
    assert_null(block.pool);
    assert_true(pool_owns(address));
    assert_int_equal(pool_trim(pool, 0), 0);
    assert_int_equal(pool_collect(pool), 0);
    assert_int_equal(pool_collect_all(pool), 0);
    pool_stats_read(pool, &stats);
    assert_false(pool_check(pool, why, sizeof(why)));
    assert_string_equal(why, words);
}

static void broken_end(struct sim_backing *sim, struct pool *pool)
{
    pool_destroy(pool, true);
    assert_int_equal(sim->held_bytes, 0);
    sim_backing_destroy(sim);
}

static void a_slot_marked_free_under_its_block_closes_the_pool(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 0);
    struct pool_block block;
    uint64_t a = sim_alloc(pool, 512), b = sim_alloc(pool, 512);
    assert_int_equal(pool_free_begin(a, &block), POOL_OK);
    ((struct run *)block.record)->slab->free_slots[0] |= 1;
    pool_free_finish(&block);
    broken_check(pool, b, "a slot is freed once");
    broken_end(sim, pool);
}

static void a_slab_without_the_slot_it_promises_closes_the_pool(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 0);
    struct pool_block block;
    uint64_t address, a = sim_alloc(pool, 512);
    assert_int_equal(pool_find(a, &block), POOL_OK);
    memset(((struct run *)block.record)->slab->free_slots, 0, 128 / 8);
    assert_int_equal(pool_alloc(pool, 512, 0, 0, &address), POOL_CLOSED);
    broken_check(pool, a, "a listed slab has a free slot");
    broken_end(sim, pool);
}

static void a_wrong_boundary_tag_closes_the_pool(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create_uncached(sim, 0);
    struct pool_block block;
    uint64_t a = sim_alloc(pool, MIB), b = sim_alloc(pool, MIB);
    assert_int_equal(pool_free_begin(a, &block), POOL_OK);
    struct run *run = block.record;
    run->segment->page_run[run->first_page + run->pages] = run;
    pool_free_finish(&block);
    broken_check(pool, b, "a run's neighbours begin and end beside it");
    broken_end(sim, pool);
}

static void a_free_that_ends_twice_closes_the_pool(void **state)
{
    (void)state;
    static void (*const ends[])(const struct pool_block *) = {pool_free_cancel, NULL};
    static const uint64_t sizes[] = {512, MIB};
    for (int i = 0; i < 4; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct pool_block block;
        uint64_t keep = sim_alloc(pool, sizes[i / 2]), a = sim_alloc(pool, sizes[i / 2]);
        assert_int_equal(pool_free_begin(a, &block), POOL_OK);
        pool_free_finish(&block);
        if (ends[i % 2] != NULL)
            ends[i % 2](&block);
        else
            pool_free_finish(&block);
        broken_check(pool, keep, "a free that began ends once");
        broken_end(sim, pool);
    }
}

/* The block is another one by then, though its free has begun as well. */
static void an_old_free_does_not_end_a_new_one(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {512, MIB};
    for (int i = 0; i < 2; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct pool_block old, block;
        uint64_t keep = sim_alloc(pool, sizes[i]), a = sim_alloc(pool, sizes[i]);
        assert_int_equal(pool_free_begin(a, &old), POOL_OK);
        pool_free_finish(&old);
        assert_int_equal(sim_alloc(pool, sizes[i]), a);
        assert_int_equal(pool_free_begin(a, &block), POOL_OK);
        pool_free_finish(&old);
        broken_check(pool, keep, "a free that began ends once");
        broken_end(sim, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_workload_uses_every_call),
        cmocka_unit_test(any_call_may_fail_once),
        cmocka_unit_test(any_call_may_fail_always),
        cmocka_unit_test(held_memory_outlives_the_backing),
        cmocka_unit_test(fence_functions_may_be_missing),
        cmocka_unit_test(a_slot_marked_free_under_its_block_closes_the_pool),
        cmocka_unit_test(a_slab_without_the_slot_it_promises_closes_the_pool),
        cmocka_unit_test(a_wrong_boundary_tag_closes_the_pool),
        cmocka_unit_test(a_free_that_ends_twice_closes_the_pool),
        cmocka_unit_test(an_old_free_does_not_end_a_new_one),
    };
    return cmocka_run_group_tests_name("pool_faults", tests, NULL, NULL);
}
