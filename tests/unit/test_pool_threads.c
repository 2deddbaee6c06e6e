/* test_pool_threads.c - many threads on one pool: no block is handed out twice, and all adds up at
 * the end. Run under ThreadSanitizer as well. */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "sim_backing.h"

enum { THREADS = 8, BLOCKS = 200, OWNERS = 1 << 20 };

struct worker {
    pthread_t thread;
    struct pool *pool;
    struct sim_backing *sim;
    uint64_t random;
    uint64_t operations;
};

/* Who owns each 512-byte step, hashed: a second owner of a live block is seen. */
static uint8_t owned[OWNERS];
static bool stop;

static uint64_t next(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static uint8_t *owner_of(uint64_t address)
{
    return &owned[((address / 512) * UINT64_C(0x9E3779B97F4A7C15)) >> 44];
}

static void free_one(struct worker *worker, uint64_t address)
{
    struct pool_block block;
    uint64_t how = next(worker) % 8;
    __atomic_fetch_sub(owner_of(address), 1, __ATOMIC_RELAXED);
    if (pool_free_begin(address, &block) != POOL_OK)
        abort();
    if (how < 4)
        pool_free_finish(&block);
    else
        pool_free_pend(&block, how, sim_backing_fence(worker->sim, 0));
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t block[BLOCKS] = {0};
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) && worker->operations < 100000) {
        uint64_t i = next(worker) % BLOCKS;
        worker->operations++;
        if (block[i] != 0) {
            free_one(worker, block[i]);
            block[i] = 0;
        } else {
            uint64_t bytes = (uint64_t)1 << next(worker) % 26;
            uint64_t stream = next(worker) % 8;
            if (pool_alloc(worker->pool, bytes, stream, 0, &block[i]) == POOL_OK)
                __atomic_fetch_add(owner_of(block[i]), 1, __ATOMIC_RELAXED);
        }
        if (next(worker) % 64 == 0)
            pool_trim(worker->pool, UINT64_MAX);
        if (next(worker) % 256 == 0)
            pool_trim(worker->pool, 0);
        if (next(worker) % 128 == 0)
            pool_forget_stream(worker->pool, 1 + next(worker) % 7);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i] != 0)
            free_one(worker, block[i]);
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(3 * GIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    static struct worker worker[THREADS];
    struct pool_stats stats;
    struct timespec pause = {.tv_sec = 2};
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.pool = pool, .sim = sim, .random = (uint64_t)i + 12345};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    nanosleep(&pause, NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    uint64_t operations = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(worker[i].thread, NULL);
        operations += worker[i].operations;
    }
    pool_collect(pool);
    sim_backing_check(sim, pool);
    pool_stats_read(pool, &stats);
    printf("%llu operations, %llu refused\n", (unsigned long long)operations,
           (unsigned long long)stats.refused);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.limbo_blocks, 0);
    assert_int_equal(pool_trim(pool, 0), stats.backed_bytes);
    assert_int_equal(sim->held_bytes, 0);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

/* A card with room for one block: a thread must not be refused while another gives memory back. */
static void *squeeze(void *arg)
{
    struct worker *worker = arg;
    for (int i = 0; i < 300; i++) {
        uint64_t address;
        if (pool_alloc(worker->pool, (40 + next(worker) % 20) * MIB, POOL_NO_STREAM, 0, &address) !=
            POOL_OK) {
            worker->operations++; /* refused */
            continue;
        }
        struct pool_block block;
        if (pool_free_begin(address, &block) != POOL_OK)
            abort();
        pool_free_finish(&block);
    }
    return NULL;
}

static void nobody_is_refused_while_memory_comes_back(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(4 * 60 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct worker worker[4];
    for (int i = 0; i < 4; i++) { /* four threads, room for four of the largest */
        worker[i] = (struct worker){.pool = pool, .sim = sim, .random = (uint64_t)i + 99};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, squeeze, &worker[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(worker[i].thread, NULL);
        assert_int_equal(worker[i].operations, 0);
    }
    sim_backing_check(sim, pool);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(nobody_is_refused_while_memory_comes_back),
    };
    return cmocka_run_group_tests_name("pool_threads", tests, NULL, NULL);
}
