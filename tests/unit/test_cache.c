/* test_cache.c - what threads keep: used without the lock, found by all who need it, counted. */
#include "unit.h"

#include <pthread.h>
#include <unistd.h>

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

static struct pool *cached_pool(struct sim_backing *sim)
{
    return sim_pool_create(sim, 0, 0);
}

/* The first of a kind goes by the lock; then it is kept. */
static uint64_t keep_one(struct pool *pool, uint64_t bytes)
{
    uint64_t address = sim_alloc(pool, bytes);
    sim_free(address);
    return address;
}

static const uint64_t kept_sizes[] = {1, 512, 8192, 8193, 100000, 1 << 20};
enum { KEPT_SIZES = sizeof(kept_sizes) / sizeof(kept_sizes[0]) };

static void a_hit_takes_no_lock(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    for (int i = 0; i < KEPT_SIZES; i++) {
        keep_one(pool, kept_sizes[i]);
        keep_one(pool, kept_sizes[i]);
        lock_take(&pool->lock); /* who takes it again hangs */
        for (int round = 0; round < 100; round++)
            keep_one(pool, kept_sizes[i]);
        lock_give(&pool->lock);
        sim_backing_check(sim, pool);
    }
    sim_pool_end(sim, pool);
}

static void a_kept_block_is_free_to_all_who_ask(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    struct pool_block block;
    struct pool_stats stats;
    for (int i = 0; i < KEPT_SIZES; i++) {
        uint64_t address = keep_one(pool, kept_sizes[i]);
        assert_int_equal(pool_find(address, &block), POOL_NOT_LIVE);
        assert_int_equal(pool_retag(address, 1), POOL_NOT_LIVE);
        assert_int_equal(pool_free_begin(address, &block), POOL_NOT_LIVE);
        sim_backing_check(sim, pool);
    }
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.invalid_frees, KEPT_SIZES);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.allocations, KEPT_SIZES);
    assert_int_equal(stats.frees, KEPT_SIZES);
    assert_int_equal(stats.free_runs, 1); /* nothing is kept from who reads the figures */
    assert_int_equal(stats.largest_free_run_bytes, stats.backed_bytes);
    sim_pool_end(sim, pool);
}

static void peaks_of_one_thread_are_exact(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    struct pool_stats stats;
    uint64_t block[3];
    for (int i = 0; i < 3; i++)
        block[i] = sim_alloc(pool, 1000);
    for (int round = 0; round < 10;
         round++) { /* three, two and one at a time, all without a lock */
        for (int i = 0; i < 3 - round % 3; i++)
            sim_free(block[i]);
        for (int i = 0; i < 3 - round % 3; i++)
            block[i] = sim_alloc(pool, 700);
    }
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.peak_live_blocks, 3);
    assert_int_equal(stats.peak_live_block_bytes, 3 * 1024);
    assert_int_equal(stats.peak_live_requested_bytes, 3 * 1000);
    assert_int_equal(stats.peak_limbo_bytes, 1024);
    sim_pool_end(sim, pool);
}

static uint64_t kept_bytes(struct pool *pool)
{
    uint64_t blocks, bytes;
    lock_take(&pool->lock);
    caches_stop(pool);
    assert_true(caches_check(pool, &blocks, &bytes));
    caches_resume(pool);
    lock_give(&pool->lock);
    return bytes;
}

/* The most that is kept while blocks are freed, each so much shorter than the one before. */
static uint64_t kept_most(struct pool *pool, uint64_t bytes, uint64_t shorter)
{
    enum { BLOCKS = 60 };
    uint64_t block[BLOCKS], most_bytes = 0;
    for (uint64_t i = 0; i < BLOCKS; i++)
        block[i] = sim_alloc(pool, bytes - i * shorter);
    for (int i = 0; i < BLOCKS; i++) {
        sim_free(block[i]);
        uint64_t now_bytes = kept_bytes(pool);
        most_bytes = now_bytes > most_bytes ? now_bytes : most_bytes;
    }
    sim_backing_check(pool->backing.self, pool);
    lock_take(&pool->lock);
    caches_flush(pool);
    lock_give(&pool->lock);
    return most_bytes;
}

static void a_thread_keeps_little(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    assert_int_equal(kept_most(pool, 512, 0), 16 * 512);
    assert_int_equal(kept_most(pool, 8192, 0), 4 * 8192);
    uint64_t most_bytes = kept_most(pool, 1 << 20, 4096);
    assert_in_range(most_bytes, MIB, sim->held_bytes / 32);
    sim_free(sim_alloc(pool, GIB));
    assert_in_range(kept_most(pool, 1 << 20, 4096), 3 * MIB, 4 * MIB);
    sim_pool_end(sim, pool);
}

static void *looks(void *pool)
{
    struct pool_stats stats;
    pool_stats_read(pool, &stats);
    return NULL;
}

/* Who looks takes what is kept; then the thread keeps again. */
static void a_look_is_soon_over(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    pthread_t thread;
    keep_one(pool, 512);
    assert_int_equal(pthread_create(&thread, NULL, looks, pool), 0);
    pthread_join(thread, NULL);
    keep_one(pool, 512);
    lock_take(&pool->lock); /* who takes it again hangs */
    keep_one(pool, 512);
    lock_give(&pool->lock);
    sim_pool_end(sim, pool);
}

static const uint64_t large_sizes[] = {(1 << 20) + 1, 5 << 20, (uint64_t)1 << 30};
enum { LARGE_SIZES = sizeof(large_sizes) / sizeof(large_sizes[0]), TURNS_ENOUGH = 50 };

static void be_lone(struct pool *pool, uint64_t bytes)
{
    for (int i = 0; i < TURNS_ENOUGH; i++)
        keep_one(pool, bytes);
}

static void a_lone_thread_keeps_large_blocks_too(void **state)
{
    (void)state;
    for (int i = 0; i < LARGE_SIZES; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = cached_pool(sim);
        be_lone(pool, large_sizes[i]);
        uint64_t address = keep_one(pool, large_sizes[i]);
        lock_take(&pool->lock); /* who takes it again hangs */
        for (int round = 0; round < 100; round++)
            assert_int_equal(keep_one(pool, large_sizes[i]), address);
        lock_give(&pool->lock);
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

/* As the shim frees: what is then held beyond the budget goes back. */
static void free_and_trim(struct pool *pool, uint64_t address)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    if (pool_free_finish(&block) > 0)
        pool_trim(pool, UINT64_MAX);
}

static uint64_t held_after_ten_are_freed(bool uncached)
{
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = uncached ? sim_pool_create_uncached(sim, 0) : cached_pool(sim);
    uint64_t block[10];
    be_lone(pool, 5 << 20);
    for (int i = 0; i < 10; i++)
        block[i] = sim_alloc(pool, (uint64_t)1 << 30);
    for (int i = 0; i < 10; i++)
        free_and_trim(pool, block[i]);
    uint64_t held_bytes = sim->held_bytes;
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
    return held_bytes;
}

static void a_large_block_beyond_the_budget_is_not_kept(void **state)
{
    (void)state;
    assert_int_equal(held_after_ten_are_freed(false), held_after_ten_are_freed(true));
}

/* The hole that a large block leaves is there for every other one at once, though there is another
 * beside it. */
static void a_kept_large_block_is_a_hole_to_the_next(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 128 * MIB, 0);
    struct pool_stats before, after;
    be_lone(pool, 24 << 20);
    pool_stats_read(pool, &before);
    uint64_t address = keep_one(pool, 24 << 20);
    assert_int_equal(keep_one(pool, 20 << 20), address);
    pool_stats_read(pool, &after);
    assert_int_equal(after.segment_acquires, before.segment_acquires);
    sim_pool_end(sim, pool);
}

static void *takes_a_turn(void *pool)
{
    keep_one(pool, 3 << 20);
    return NULL;
}

static void another_threads_turn_ends_it(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    struct pool_stats stats;
    struct pool_block ending;
    pthread_t thread;
    be_lone(pool, (uint64_t)1 << 30);
    assert_non_null(pool->lone);
    uint64_t block = sim_alloc(pool, 1 << 30);
    pthread_create(&thread, NULL, takes_a_turn, pool);
    pthread_join(thread, NULL);
    assert_null(pool->lone);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.peak_live_block_bytes, ((uint64_t)1 << 30) + (3 << 20));
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(pool_free_begin(block, &ending), POOL_OK);
    assert_int_equal(pool->stats.live_blocks, 0); /* counted at once: it went by the lock */
    pool_free_finish(&ending);
    sim_backing_check(sim, pool); /* nothing large is kept */
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.largest_free_run_bytes, (uint64_t)1 << 30);
    sim_pool_end(sim, pool);
}

static void what_the_lone_thread_did_is_counted_when_it_ends(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    pthread_t thread;
    uint64_t beside = sim_alloc(pool, 3 << 20); /* its segment has room for the other thread */
    be_lone(pool, (uint64_t)1 << 30);
    assert_int_equal(pool->stats.live_blocks, 2); /* the last free is not counted yet */
    pthread_create(&thread, NULL, takes_a_turn, pool);
    pthread_join(thread, NULL);
    assert_int_equal(pool->stats.live_blocks, 1);
    assert_int_equal(pool->stats.peak_live_block_bytes, ((uint64_t)1 << 30) + (3 << 20));
    sim_free(beside);
    sim_pool_end(sim, pool);
}

static void where_memory_is_scarce_nothing_is_kept(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    keep_one(pool, 512);
    keep_one(pool, 100000);
    lock_take(&pool->lock);
    pool->scarce = true;
    caches_decide(pool);
    lock_give(&pool->lock);
    sim_backing_check(sim, pool); /* would find a kept block */
    keep_one(pool, 512);
    sim_backing_check(sim, pool);
    assert_false(pool->caching);
    sim_pool_end(sim, pool);
}

static void where_too_much_is_held_what_is_kept_goes_back(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    for (int i = 0; i < KEPT_SIZES; i++)
        keep_one(pool, kept_sizes[i]);
    assert_true(kept_bytes(pool) > 0);
    lock_take(&pool->lock);
    caches_yield(pool);
    lock_give(&pool->lock);
    assert_int_equal(kept_bytes(pool), 0);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

struct actor {
    struct pool *pool;
    uint64_t address;
    uint64_t bytes;
    pthread_barrier_t *barrier;
};

static void *actor_keeps_and_stays(void *arg)
{
    struct actor *actor = arg;
    actor->address = keep_one(actor->pool, actor->bytes);
    pthread_barrier_wait(actor->barrier);
    pthread_barrier_wait(actor->barrier);
    return NULL;
}

/* Many more blocks than a cache has serial numbers at a time, all without a turn under the lock but
 * when these are renewed: what the pool has not set apart may be another thread's. */
static void numbers_are_set_apart_before_they_are_given(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    struct pool_block block;
    uint64_t before = pool->last_serial;
    static bool given[40000];
    for (int i = 0; i < 20000; i++) {
        uint64_t address = sim_alloc(pool, 512);
        assert_int_equal(pool_free_begin(address, &block), POOL_OK);
        assert_true(block.serial > before && block.serial <= pool->last_serial);
        assert_true(block.serial - before < 40000 && !given[block.serial - before]);
        given[block.serial - before] = true;
        pool_free_finish(&block);
    }
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* One segment, a part of it kept by another thread: this one gets it whole. */
static void others_give_way(uint64_t card_bytes)
{
    struct sim_backing *sim = sim_backing_create(card_bytes);
    struct pool *pool = cached_pool(sim);
    pthread_barrier_t barrier;
    pthread_t thread;
    struct actor actor = {.pool = pool, .bytes = 1 << 20, .barrier = &barrier};
    pthread_barrier_init(&barrier, NULL, 2);
    keep_one(pool, 512);
    assert_int_equal(pthread_create(&thread, NULL, actor_keeps_and_stays, &actor), 0);
    pthread_barrier_wait(&barrier);
    sim_free(sim_alloc(pool, 32 * MIB));
    assert_int_equal(sim->held_bytes, 32 * MIB);
    sim_backing_check(sim, pool);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    sim_pool_end(sim, pool);
    pthread_barrier_destroy(&barrier);
}

static void what_others_keep_is_no_reason_to_fail(void **state)
{
    (void)state;
    others_give_way(32 * MIB);
}

static void what_others_keep_is_no_reason_to_grow(void **state)
{
    (void)state;
    others_give_way(SIM_CARD_NO_BOUND);
}

struct visitor {
    struct actor actor;
    bool done;
};

static void *visitor_keeps_twice(void *arg)
{
    struct visitor *visitor = arg;
    actor_keeps_and_stays(&visitor->actor);
    keep_one(visitor->actor.pool, visitor->actor.bytes);
    __atomic_store_n(&visitor->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* A thread that could do without the lock waits for it meanwhile. */
static void who_stops_caches_has_them_alone(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    pthread_barrier_t barrier;
    pthread_t thread;
    struct visitor visitor = {.actor = {.pool = pool, .bytes = 512, .barrier = &barrier}};
    pthread_barrier_init(&barrier, NULL, 2);
    keep_one(pool, 512);
    assert_int_equal(pthread_create(&thread, NULL, visitor_keeps_twice, &visitor), 0);
    pthread_barrier_wait(&barrier);
    lock_take(&pool->lock);
    caches_stop(pool);
    pthread_barrier_wait(&barrier);
    usleep(50000);
    assert_false(__atomic_load_n(&visitor.done, __ATOMIC_ACQUIRE));
    caches_resume(pool);
    lock_give(&pool->lock);
    pthread_join(thread, NULL);
    assert_true(visitor.done);
    sim_pool_end(sim, pool);
    pthread_barrier_destroy(&barrier);
}

static void *actor_frees(void *arg)
{
    sim_free(((struct actor *)arg)->address);
    return NULL;
}

/* The note of a block that another thread freed leads nowhere, whatever is there since. */
static void a_block_freed_elsewhere_leaves_a_stale_note(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    struct pool_block block;
    struct pool_stats stats;
    for (int round = 0; round < 200; round++) {
        struct actor actor = {.address = sim_alloc(pool, kept_sizes[round % KEPT_SIZES])};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, actor_frees, &actor), 0);
        pthread_join(thread, NULL);
        assert_int_equal(pool_free_begin(actor.address, &block), POOL_NOT_LIVE);
        sim_backing_check(sim, pool);
        uint64_t other = sim_alloc(pool, kept_sizes[(round + 1) % KEPT_SIZES]);
        pool_stats_read(pool, &stats); /* runs and slabs come and go */
        sim_free(other);
    }
    sim_pool_end(sim, pool);
}

static void a_thread_that_ends_keeps_nothing(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = cached_pool(sim);
    pthread_barrier_t barrier;
    struct pool_stats stats;
    uint64_t blocks, bytes;
    pthread_barrier_init(&barrier, NULL, 1);
    keep_one(pool, 512);
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        struct actor actor = {.pool = pool, .bytes = 3000, .barrier = &barrier};
        assert_int_equal(pthread_create(&thread, NULL, actor_keeps_and_stays, &actor), 0);
        pthread_join(thread, NULL);
    }
    lock_take(&pool->lock);
    caches_flush(pool);
    caches_stop(pool);
    assert_true(caches_check(pool, &blocks, &bytes));
    caches_resume(pool);
    lock_give(&pool->lock);
    assert_int_equal(blocks, 0);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.frees, 51);
    assert_int_equal(stats.limbo_blocks, 0);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
    pthread_barrier_destroy(&barrier);
}

/* More pools, one after the other and side by side, than a thread has caches. */
static void pools_come_and_go(void **state)
{
    (void)state;
    enum { POOLS = 3 * POOL_CACHE_PLACES };
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool[POOLS];
    for (int i = 0; i < POOLS; i++) {
        pool[i] = cached_pool(sim);
        keep_one(pool[i], 512);
        keep_one(pool[i], 512);
        sim_backing_check(sim, pool[i]);
        if (i % 2 == 0)
            pool_destroy(pool[i], true);
    }
    for (int i = 1; i < POOLS; i += 2) {
        keep_one(pool[i], 9000);
        sim_backing_check(sim, pool[i]);
        pool_destroy(pool[i], true);
    }
    assert_int_equal(sim->held_bytes, 0);
    sim_backing_destroy(sim);
}

/* --- many threads, and those who look ------------------------------------------------------------
 */

enum { WORKERS = 4, HELD = 40, WORK = 30000, SHARED = 64 };

struct work {
    struct pool *pool;
    uint64_t shared[SHARED]; /* blocks that any worker may free; exchanged atomically */
    uint32_t running;
};

static void *work_run(void *arg)
{
    struct work *work = arg;
    uint64_t held[HELD] = {0};
    uint64_t random = (uint64_t)(uintptr_t)held;
    for (int i = 0; i < WORK; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
        uint64_t *place = &held[(random >> 33) % HELD];
        if (*place != 0)
            sim_free(*place);
        *place =
            random >> 62 == 0 ? 0 : sim_alloc(work->pool, kept_sizes[(random >> 40) % KEPT_SIZES]);
        if ((random >> 56) % 16 == 5)
            *place = __atomic_exchange_n(&work->shared[(random >> 20) % SHARED], *place,
                                         __ATOMIC_ACQ_REL);
    }
    for (int i = 0; i < HELD; i++)
        if (held[i] != 0)
            sim_free(held[i]);
    __atomic_sub_fetch(&work->running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void visit_count(void *arg, const struct pool_block *block)
{
    *(uint64_t *)arg += block->requested_bytes;
}

/* Whoever looks, at any moment, finds figures that add up and every rule kept. */
static void those_who_look_see_a_whole_picture(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct work work = {.pool = cached_pool(sim), .running = WORKERS};
    pthread_t thread[WORKERS];
    struct pool_stats stats;
    uint64_t looks = 0, visited = 0;
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work_run, &work), 0);
    while (__atomic_load_n(&work.running, __ATOMIC_ACQUIRE) > 0 || looks == 0) {
        sim_backing_check(sim, work.pool);
        pool_stats_read(work.pool, &stats);
        assert_int_equal(stats.live_requested_bytes + stats.internal_waste_bytes +
                             stats.limbo_bytes + stats.slab_free_bytes + stats.run_free_bytes,
                         stats.backed_bytes);
        pool_visit_live(work.pool, visit_count, &visited);
        pool_available_bytes(work.pool, GIB);
        looks++;
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (work.shared[i] != 0)
            sim_free(work.shared[i]);
    pool_stats_read(work.pool, &stats);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.allocations, stats.frees);
    assert_int_equal(stats.free_runs, stats.segments);
    printf("%llu looks, %llu allocations\n", (unsigned long long)looks,
           (unsigned long long)stats.allocations);
    sim_backing_check(sim, work.pool);
    sim_pool_end(sim, work.pool);
}

/* A pool that ends under the threads that use it: they are told, and nothing crashes. */
static void *work_until_closed(void *arg)
{
    struct work *work = arg;
    struct pool_block block;
    uint64_t address;
    while (pool_alloc(work->pool, 5000, POOL_NO_STREAM, 0, &address) == POOL_OK) {
        if (pool_free_begin(address, &block) != POOL_OK)
            break;
        pool_free_finish(&block);
    }
    return NULL;
}

static void a_pool_may_end_under_its_threads(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct work work = {.pool = cached_pool(sim)};
        pthread_t thread[WORKERS];
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, work_until_closed, &work), 0);
        keep_one(work.pool, 5000);
        if (round % 2 == 0)
            pool_close(work.pool);
        pool_destroy(work.pool, true);
        for (int i = 0; i < WORKERS; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(sim->held_bytes, 0);
        sim_backing_destroy(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_takes_no_lock),
        cmocka_unit_test(a_kept_block_is_free_to_all_who_ask),
        cmocka_unit_test(peaks_of_one_thread_are_exact),
        cmocka_unit_test(a_thread_keeps_little),
        cmocka_unit_test(a_look_is_soon_over),
        cmocka_unit_test(a_lone_thread_keeps_large_blocks_too),
        cmocka_unit_test(a_large_block_beyond_the_budget_is_not_kept),
        cmocka_unit_test(a_kept_large_block_is_a_hole_to_the_next),
        cmocka_unit_test(another_threads_turn_ends_it),
        cmocka_unit_test(what_the_lone_thread_did_is_counted_when_it_ends),
        cmocka_unit_test(where_memory_is_scarce_nothing_is_kept),
        cmocka_unit_test(where_too_much_is_held_what_is_kept_goes_back),
        cmocka_unit_test(numbers_are_set_apart_before_they_are_given),
        cmocka_unit_test(what_others_keep_is_no_reason_to_fail),
        cmocka_unit_test(what_others_keep_is_no_reason_to_grow),
        cmocka_unit_test(who_stops_caches_has_them_alone),
        cmocka_unit_test(a_block_freed_elsewhere_leaves_a_stale_note),
        cmocka_unit_test(a_thread_that_ends_keeps_nothing),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(those_who_look_see_a_whole_picture),
        cmocka_unit_test(a_pool_may_end_under_its_threads),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
