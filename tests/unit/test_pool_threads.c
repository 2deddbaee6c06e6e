/* test_pool_threads.c - many threads on one pool: no byte is handed out twice, and all adds up at
 * the end. Run under ThreadSanitizer as well.
 *
 * Who owns what is kept outside the pool, by spans of 64 KiB: a block owns those that it covers
 * whole; of the others it owns its steps of 512 bytes, and each counts as a guest in its span.
 */
#include "unit.h"

#include <pthread.h>
#include <time.h>

#include "sim_backing.h"

enum { THREADS = 8, BLOCKS = 200, SPANS = 1 << 20, STEPS_PER_SPAN = 128, SPAN_OWNED = -1 };

struct worker {
    pthread_t thread;
    struct pool *pool;
    struct sim_backing *sim;
    uint64_t random;
    uint64_t operations;
};

static int span_state[SPANS]; /* SPAN_OWNED, or the number of guests in it */
static bool step_owned[(size_t)SPANS * STEPS_PER_SPAN];
static bool stop;
static uint64_t overlaps;  /* of blocks that were live at the same time */
static uint64_t clock_now; /* of the fences */

static uint64_t next(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static void overlap_if(bool seen)
{
    if (seen)
        __atomic_fetch_add(&overlaps, 1, __ATOMIC_RELAXED);
}

static void span_own(uint64_t span)
{
    overlap_if(__atomic_exchange_n(&span_state[span], SPAN_OWNED, __ATOMIC_RELAXED) != 0);
}

static void span_disown(uint64_t span)
{
    overlap_if(__atomic_exchange_n(&span_state[span], 0, __ATOMIC_RELAXED) != SPAN_OWNED);
}

static void step_own(uint64_t step)
{
    int before = __atomic_fetch_add(&span_state[step / STEPS_PER_SPAN], 1, __ATOMIC_RELAXED);
    overlap_if(before == SPAN_OWNED);
    overlap_if(__atomic_exchange_n(&step_owned[step], true, __ATOMIC_RELAXED));
}

static void step_disown(uint64_t step)
{
    overlap_if(!__atomic_exchange_n(&step_owned[step], false, __ATOMIC_RELAXED));
    overlap_if(__atomic_fetch_sub(&span_state[step / STEPS_PER_SPAN], 1, __ATOMIC_RELAXED) <= 0);
}

/* Tells of a block: owned, or owned no more. */
static void block_tell(uint64_t address, uint64_t bytes, bool own)
{
    uint64_t step = (address - SIM_BASE_ADDRESS) / POOL_MIN_BLOCK_BYTES;
    uint64_t end = step + (bytes + POOL_MIN_BLOCK_BYTES - 1) / POOL_MIN_BLOCK_BYTES;
    if (end > (uint64_t)SPANS * STEPS_PER_SPAN)
        abort();
    while (step < end) {
        if (step % STEPS_PER_SPAN == 0 && end - step >= STEPS_PER_SPAN) {
            (own ? span_own : span_disown)(step / STEPS_PER_SPAN);
            step += STEPS_PER_SPAN;
        } else {
            (own ? step_own : step_disown)(step++);
        }
    }
}

static void free_one(struct worker *worker, uint64_t address)
{
    struct pool_block block;
    uint64_t how = next(worker) % 16;
    if (pool_free_begin(address, &block) != POOL_OK)
        abort();
    block_tell(address, block.requested_bytes, false);
    uint64_t time = __atomic_load_n(&clock_now, __ATOMIC_RELAXED) + next(worker) % 5;
    if (how == 0) {
        block_tell(address, block.requested_bytes, true);
        pool_free_cancel(&block);
        free_one(worker, address);
    } else if (how < 8) {
        pool_free_finish(&block);
    } else {
        pool_free_pend(&block, how - 8, sim_backing_fence(worker->sim, time));
    }
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
            bytes -= next(worker) % (bytes / 2 + 1);
            if (pool_alloc(worker->pool, bytes, stream, 0, &block[i]) == POOL_OK)
                block_tell(block[i], bytes, true);
        }
        if (next(worker) % 64 == 0)
            pool_trim(worker->pool, UINT64_MAX);
        if (next(worker) % 256 == 0)
            pool_trim(worker->pool, 0);
        if (next(worker) % 128 == 0)
            pool_forget_stream(worker->pool, 1 + next(worker) % 7);
        if (next(worker) % 128 == 0)
            pool_collect(worker->pool);
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
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.pool = pool, .sim = sim, .random = (uint64_t)i + 12345};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    for (int ms = 0; ms < 2000; ms++) {
        nanosleep(&pause, NULL);
        sim_backing_advance(sim, 1);
        __atomic_fetch_add(&clock_now, 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    uint64_t operations = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(worker[i].thread, NULL);
        operations += worker[i].operations;
    }
    sim_backing_advance(sim, 1000000);
    pool_collect(pool);
    sim_backing_check(sim, pool);
    assert_int_equal(overlaps, 0);
    pool_stats_read(pool, &stats);
    printf("%llu operations, %llu refused\n", (unsigned long long)operations,
           (unsigned long long)stats.refused);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.limbo_blocks, 0);
    assert_int_equal(pool_trim(pool, 0), stats.backed_bytes);
    assert_int_equal(sim->held_bytes, 0);
    sim_pool_end(sim, pool);
}

/* A card with room for the largest block of each thread: nobody may be refused, also while another
 * thread gives memory back. */
static void *squeeze(void *arg)
{
    struct worker *worker = arg;
    struct timespec pause = {.tv_nsec = 20000};
    for (int i = 0; i < 1000; i++) {
        uint64_t address, bytes = (33 + next(worker) % 28) * MIB;
        if (pool_alloc(worker->pool, bytes, POOL_NO_STREAM, 0, &address) != POOL_OK) {
            worker->operations++; /* refused */
            continue;
        }
        struct pool_block block;
        if (next(worker) % 2 == 0)
            nanosleep(&pause, NULL);
        if (pool_free_begin(address, &block) != POOL_OK)
            abort();
        pool_free_finish(&block);
    }
    return NULL;
}

/* Acquiring and releasing take their time, as on a real card. */
static void slow(struct sim_backing *sim)
{
    struct timespec pause = {.tv_nsec = 100000};
    (void)sim;
    nanosleep(&pause, NULL);
}

static void nobody_is_refused_while_memory_comes_back(void **state)
{
    (void)state;
    for (uint64_t threads = 2; threads <= 8; threads *= 2) {
        struct sim_backing *sim = sim_backing_create(threads * 60 * MIB);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct worker worker[8];
        sim->hook[SIM_ACQUIRE] = slow;
        sim->hook[SIM_RELEASE] = slow;
        for (uint64_t i = 0; i < threads; i++) {
            worker[i] = (struct worker){.pool = pool, .sim = sim, .random = i + 99};
            assert_int_equal(pthread_create(&worker[i].thread, NULL, squeeze, &worker[i]), 0);
        }
        for (uint64_t i = 0; i < threads; i++) {
            pthread_join(worker[i].thread, NULL);
            assert_int_equal(worker[i].operations, 0);
        }
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(nobody_is_refused_while_memory_comes_back),
    };
    return cmocka_run_group_tests_name("pool_threads", tests, NULL, NULL);
}
