/* test_together.c - levels of several pools added up: random operations against sums made anew.
 */
#include "unit.h"

#include "sim_backing.h"

enum { POOLS = 3, BLOCKS = 200, STEPS = 20000 };

struct world {
    struct sim_backing *sim; /* all on one card */
    struct pool *pool[POOLS];
    uint64_t block[POOLS][BLOCKS];
    uint64_t time;
    struct pool_together together;
    struct pool_together model;
};

static void level_check(uint64_t sum, uint64_t *level, uint64_t *peak)
{
    *level = sum;
    if (sum > *peak)
        *peak = sum;
}

static void model_compare(struct world *w, bool peaks)
{
    static struct pool_stats stats[POOLS];
    for (int p = 0; p < POOLS; p++)
        pool_stats_read(w->pool[p], &stats[p]);
#define TOGETHER(name)                                                                             \
    level_check(stats[0].name + stats[1].name + stats[2].name, &w->model.name,                     \
                &w->model.peak_##name);                                                            \
    assert_int_equal(w->together.name, w->model.name);                                             \
    if (peaks)                                                                                     \
        assert_true(w->together.peak_##name >= w->model.peak_##name);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
}

static void step(struct world *w, unsigned *seed)
{
    int p = rand_r(seed) % POOLS, i = rand_r(seed) % BLOCKS;
    if (w->block[p][i] == 0)
        w->block[p][i] = sim_alloc(w->pool[p], (uint64_t)1 << (8 + rand_r(seed) % 16));
    else if (rand_r(seed) % 2 == 0)
        sim_free(w->block[p][i]), w->block[p][i] = 0;
    else
        sim_free_pending(w->sim, w->block[p][i], 7, ++w->time), w->block[p][i] = 0;
    if (rand_r(seed) % 50 == 0) {
        sim_backing_advance(w->sim, w->time);
        pool_collect(w->pool[p]);
        pool_trim(w->pool[p], 0);
    }
}

static void world_make(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->sim = sim_backing_create(SIM_CARD_NO_BOUND);
    for (int p = 0; p < POOLS; p++)
        w->pool[p] = sim_pool_create(w->sim, 0, 0);
}

static void sums_follow_the_pools(void **state)
{
    (void)state;
    static struct world w;
    unsigned seed = 20261202;
    char why[256];
    world_make(&w);
    for (int i = 0; i < 1000; i++) /* what was before counts from the joining on */
        step(&w, &seed);
    for (int p = 0; p < POOLS; p++)
        pool_join(w.pool[p], &w.together);
    for (int i = 0; i < STEPS; i++) {
        step(&w, &seed);
        model_compare(&w, true);
        if (i % 100 == 0)
            for (int p = 0; p < POOLS; p++)
                assert_true(pool_check(w.pool[p], why, sizeof(why)));
    }
    for (int p = 0; p < POOLS; p++)
        pool_destroy(w.pool[p], true);
    sim_backing_destroy(w.sim);
#define TOGETHER(name)                                                                             \
    assert_int_equal(w.together.name, 0);                                                          \
    assert_true(w.together.peak_##name > 0);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
}

/* Two pools that peak at different times: the peak is not the sum of the peaks. */
static void peaks_are_of_one_moment(void **state)
{
    (void)state;
    static struct world w;
    world_make(&w);
    for (int p = 0; p < POOLS; p++)
        pool_join(w.pool[p], &w.together);
    for (int p = 0; p < POOLS; p++) {
        uint64_t block = sim_alloc(w.pool[p], 100 * MIB);
        sim_free(block);
    }
    assert_int_equal(w.together.peak_live_blocks, 1);
    assert_int_equal(w.together.peak_live_requested_bytes, 100 * MIB);
    pool_join(w.pool[0], &w.together); /* changes nothing */
    sim_alloc(w.pool[0], MIB);
    sim_alloc(w.pool[1], MIB);
    assert_int_equal(w.together.live_requested_bytes, 2 * MIB);
    for (int p = 0; p < POOLS; p++)
        pool_destroy(w.pool[p], true);
    sim_backing_destroy(w.sim);
    assert_int_equal(w.together.live_blocks, 0);
    assert_int_equal(w.together.backed_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_follow_the_pools),
                                       cmocka_unit_test(peaks_are_of_one_moment)};
    return cmocka_run_group_tests_name("together", tests, NULL, NULL);
}
