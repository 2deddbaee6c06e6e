/* test_backed.c - a visit of all the memory of a pool: what goes on while a visitor takes its time,
 * and what waits for it. Run under ThreadSanitizer as well.
 */
#include "unit.h"

#include <time.h>

#include "sim_backing.h"

enum { OWN_SEGMENTS = 100, RANGES_MAX = 300 };

struct range {
    uint64_t address, bytes;
};

struct visit {
    struct pool *pool;
    uint64_t ranges, bytes;
    struct range range[RANGES_MAX];
    bool entered, may_go; /* atomic */
};

/* What another thread does to the pool. */
struct other {
    pthread_t thread;
    struct pool *pool;
    uint64_t result;
    bool ended; /* atomic */
};

static void nap(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

static void flag_set(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELEASE);
}

static bool flag_is(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void flag_wait(const bool *flag)
{
    while (!flag_is(flag))
        nap();
}

static void range_note(void *arg, uint64_t address, uint64_t bytes)
{
    struct visit *visit = arg;
    assert_true(visit->ranges < RANGES_MAX);
    visit->range[visit->ranges++] = (struct range){address, bytes};
    visit->bytes += bytes;
    flag_set(&visit->entered);
    flag_wait(&visit->may_go);
}

static void *visit_begin(void *arg)
{
    struct visit *visit = arg;
    pool_visit_backed(visit->pool, range_note, visit);
    return NULL;
}

static void *trim(void *arg)
{
    struct other *other = arg;
    other->result = pool_trim(other->pool, 0);
    flag_set(&other->ended);
    return NULL;
}

static void *grow(void *arg)
{
    struct other *other = arg;
    pool_alloc(other->pool, GIB, POOL_NO_STREAM, 0, &other->result);
    flag_set(&other->ended);
    return NULL;
}

static void *destroy(void *arg)
{
    struct other *other = arg;
    pool_destroy(other->pool, true);
    flag_set(&other->ended);
    return NULL;
}

static void other_begin(struct other *other, struct pool *pool, void *(*work)(void *))
{
    *other = (struct other){.pool = pool};
    assert_int_equal(pthread_create(&other->thread, NULL, work, other), 0);
}

/* Small blocks that threads keep, and blocks that always go by the lock. */
static void hit_often(struct pool *pool)
{
    struct pool_block block;
    struct pool_stats stats;
    for (int i = 0; i < 20; i++) {
        uint64_t small = sim_alloc(pool, 4096), medium = sim_alloc(pool, 2 * MIB);
        assert_int_equal(pool_find(medium, &block), POOL_OK);
        sim_free(small);
        sim_free(medium);
        pool_stats_read(pool, &stats);
        nap();
    }
}

static uint64_t calls_of(struct sim_backing *sim, enum sim_call call)
{
    pthread_mutex_lock(&sim->lock);
    uint64_t calls = sim->calls[call];
    pthread_mutex_unlock(&sim->lock);
    return calls;
}

/* A first segment with holes, which are without memory where that goes back in parts, and many
 * segments more. */
static struct pool *pool_with_holes(struct sim_backing *sim)
{
    struct pool *pool = sim_pool_create(sim, GIB, 0);
    uint64_t block[64];
    for (int i = 0; i < 64; i++)
        block[i] = sim_alloc(pool, 16 * MIB);
    for (int i = 0; i < OWN_SEGMENTS; i++)
        sim_alloc(pool, 40 * MIB);
    for (int i = 0; i < 64; i++)
        if (i % 4 < 2)
            sim_free(block[i]);
    pool_trim(pool, 0);
    if (sim->parts)
        assert_int_equal(sim->held_bytes, GIB / 2 + OWN_SEGMENTS * 40 * MIB);
    return pool;
}

static void all_memory_is_visited_once(void **state)
{
    (void)state;
    for (int parts = 0; parts < 2; parts++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        sim->parts = parts;
        struct visit visit = {.pool = pool_with_holes(sim), .may_go = true};
        visit_begin(&visit);
        assert_int_equal(visit.bytes, sim->held_bytes);
        assert_int_equal(visit.ranges, OWN_SEGMENTS + (parts ? 16 : 1));
        for (uint64_t i = 0; i < visit.ranges; i++) {
            assert_true(pool_owns(visit.range[i].address));
            assert_true(pool_owns(visit.range[i].address + visit.range[i].bytes - 1));
            for (uint64_t k = 0; k < i; k++)
                assert_true(
                    visit.range[k].address + visit.range[k].bytes <= visit.range[i].address ||
                    visit.range[i].address + visit.range[i].bytes <= visit.range[k].address);
        }
        sim_pool_end(sim, visit.pool);
    }
}

/* Neither comes nor goes any memory, and nobody waits who needs none. */
static void hits_go_on_while_a_visitor_blocks(void **state)
{
    (void)state;
    for (int parts = 0; parts < 2; parts++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        sim->parts = parts;
        struct visit visit = {.pool = sim_pool_create(sim, 0, 0)};
        struct other trimming, growing;
        pthread_t visitor;
        sim_alloc(visit.pool, 4096);
        sim_free(sim_alloc(visit.pool, 400 * MIB));
        uint64_t held_bytes = sim->held_bytes;
        assert_int_equal(pthread_create(&visitor, NULL, visit_begin, &visit), 0);
        flag_wait(&visit.entered);
        uint64_t acquires = calls_of(sim, SIM_ACQUIRE), releases = calls_of(sim, SIM_RELEASE);
        hit_often(visit.pool);
        other_begin(&trimming, visit.pool, trim);
        other_begin(&growing, visit.pool, grow);
        hit_often(visit.pool);
        assert_int_equal(calls_of(sim, SIM_ACQUIRE), acquires);
        assert_int_equal(calls_of(sim, SIM_RELEASE), releases);
        flag_set(&visit.may_go);
        pthread_join(visitor, NULL);
        pthread_join(trimming.thread, NULL);
        pthread_join(growing.thread, NULL);
        assert_int_equal(visit.bytes, held_bytes);
        assert_true(calls_of(sim, SIM_RELEASE) > releases);
        assert_true(growing.result != 0);
        sim_backing_check(sim, visit.pool);
        sim_pool_end(sim, visit.pool);
    }
}

static bool release_entered, release_may_go; /* atomic */
static void release_slowly(struct sim_backing *sim)
{
    (void)sim;
    flag_set(&release_entered);
    flag_wait(&release_may_go);
}

/* What is going back is not visited; and if it does not go back, it is. */
static void a_visit_waits_for_a_release(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct visit visit = {.pool = sim_pool_create(sim, 0, 0), .may_go = true};
        struct other trimming;
        pthread_t visitor;
        sim_alloc(visit.pool, 4096);
        sim_free(sim_alloc(visit.pool, 400 * MIB));
        release_entered = release_may_go = false;
        sim->hook[SIM_RELEASE] = release_slowly;
        sim->fail_at[SIM_RELEASE] = refused ? SIM_FAIL_ALWAYS : 0;
        other_begin(&trimming, visit.pool, trim);
        flag_wait(&release_entered);
        assert_int_equal(pthread_create(&visitor, NULL, visit_begin, &visit), 0);
        hit_often(visit.pool);
        assert_false(flag_is(&visit.entered));
        flag_set(&release_may_go);
        pthread_join(visitor, NULL);
        pthread_join(trimming.thread, NULL);
        assert_true(visit.bytes >= (refused ? 400 * MIB : 8 * MIB));
        assert_true(refused || visit.bytes < 400 * MIB);
        sim->fail_at[SIM_RELEASE] = 0;
        sim_pool_end(sim, visit.pool);
    }
}

/* A closed pool holds nobody up, visits no more than it has begun with, and ends after that. */
static void a_pool_that_closes_ends_the_visit(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct visit visit = {.pool = sim_pool_create(sim, 0, 0)};
    struct other trimming, destroying;
    pthread_t visitor;
    for (int i = 0; i < OWN_SEGMENTS; i++)
        sim_alloc(visit.pool, 40 * MIB);
    assert_int_equal(pthread_create(&visitor, NULL, visit_begin, &visit), 0);
    flag_wait(&visit.entered);
    sim_free(visit.range[0].address);
    other_begin(&trimming, visit.pool, trim);
    nap();
    pool_close(visit.pool);
    pthread_join(trimming.thread, NULL);
    assert_int_equal(trimming.result, 0);
    other_begin(&destroying, visit.pool, destroy);
    for (int i = 0; i < 20; i++)
        nap();
    assert_false(flag_is(&destroying.ended));
    assert_int_equal(calls_of(sim, SIM_RELEASE), 0);
    flag_set(&visit.may_go);
    pthread_join(visitor, NULL);
    pthread_join(destroying.thread, NULL);
    assert_true(visit.ranges < OWN_SEGMENTS);
    assert_int_equal(sim->held_bytes, 0);
    visit.ranges = 0;
    visit_begin(&visit);
    assert_int_equal(visit.ranges, 0);
    sim_backing_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_memory_is_visited_once),
        cmocka_unit_test(hits_go_on_while_a_visitor_blocks),
        cmocka_unit_test(a_visit_waits_for_a_release),
        cmocka_unit_test(a_pool_that_closes_ends_the_visit),
    };
    return cmocka_run_group_tests_name("backed", tests, NULL, NULL);
}
