/* test_pool_ladder.c - what is tried before a request is refused: empty slabs, other threads'
 * releases, collections and growth, memory that the host has no records for.
 */
#include "unit.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

static void pause_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000L};
    nanosleep(&time, NULL);
}

/* A hook that stays inside its call until the test opens the gate. */
static bool gate_reached, gate_open;

static void gate_hook(struct sim_backing *sim)
{
    (void)sim;
    if (__atomic_exchange_n(&gate_reached, true, __ATOMIC_ACQ_REL))
        return; /* only the first call waits */
    while (!__atomic_load_n(&gate_open, __ATOMIC_ACQUIRE))
        pause_ms(1);
}

static void gate_reset(void)
{
    __atomic_store_n(&gate_reached, false, __ATOMIC_RELEASE);
    __atomic_store_n(&gate_open, false, __ATOMIC_RELEASE);
}

static void gate_await(void)
{
    while (!__atomic_load_n(&gate_reached, __ATOMIC_ACQUIRE))
        pause_ms(1);
}

struct request {
    struct pool *pool;
    uint64_t bytes, address;
    enum pool_status status;
    bool done;
};

static void *request_thread(void *arg)
{
    struct request *request = arg;
    request->status =
        pool_alloc(request->pool, request->bytes, POOL_NO_STREAM, 0, &request->address);
    __atomic_store_n(&request->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void *trim_thread(void *arg)
{
    pool_trim(arg, 0);
    return NULL;
}

static void *collect_thread(void *arg)
{
    pool_collect(arg);
    return NULL;
}

static void *destroy_thread(void *arg)
{
    struct request *request = arg;
    pool_destroy(request->pool, true);
    __atomic_store_n(&request->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static pthread_t start(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

static bool is_done(struct request *request)
{
    return __atomic_load_n(&request->done, __ATOMIC_ACQUIRE);
}

static void empty_slabs_serve_before_a_refusal(void **state)
{
    (void)state;
    for (uint64_t pages = 1; pages <= 31; pages++) {
        struct sim_backing *sim = sim_backing_create(2 * MIB);
        struct pool *pool = sim_pool_create(sim, 2 * MIB, 0);
        sim_alloc(pool, 512);
        for (int c = 1; c < SIZE_CLASS_COUNT; c++) { /* leaves as many empty slabs as fit */
            uint64_t address;
            if (pool_alloc(pool, size_class_get(c).slot_bytes, 0, 0, &address) == POOL_OK)
                sim_free(address);
        }
        uint64_t a = sim_alloc(pool, pages * POOL_PAGE_BYTES);
        sim_free(a);
        sim_backing_check(sim, pool);
        sim_pool_end(sim, pool);
    }
}

/* 80 of 100 MiB are on their way back: whether the card or a limit is at its end, a request for 90
 * is neither refused nor served before they are. */
static void release_in_flight(uint64_t card_bytes, uint64_t limit_bytes)
{
    struct sim_backing *sim = sim_backing_create(card_bytes);
    struct pool *pool = sim_pool_create(sim, 0, limit_bytes);
    struct request request = {.pool = pool, .bytes = 90 * MIB};
    char why[200];
    sim_free(sim_alloc(pool, 80 * MIB));
    gate_reset();
    sim->hook[SIM_RELEASE] = gate_hook;
    pthread_t trimmer = start(trim_thread, pool);
    gate_await();
    assert_true(pool_check(pool, why, sizeof(why)));
    pthread_t asker = start(request_thread, &request);
    pause_ms(30);
    assert_false(
        is_done(&request)); /* neither refused nor served: 80 of 100 MiB are on their way */
    __atomic_store_n(&gate_open, true, __ATOMIC_RELEASE);
    pthread_join(trimmer, NULL);
    pthread_join(asker, NULL);
    assert_int_equal(request.status, POOL_OK);
    assert_true(sim->held_peak_bytes <= 100 * MIB);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_release_in_flight_is_waited_for(void **state)
{
    (void)state;
    release_in_flight(100 * MIB, 0);
    release_in_flight(SIM_CARD_NO_BOUND, 100 * MIB);
}

/* A collector that only asks must not make another thread, which would wait, fail. */
static void fences_are_waited_for_though_another_thread_asks_them(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(100 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct request request = {.pool = pool, .bytes = 90 * MIB};
    sim_free_pending(sim, sim_alloc(pool, 80 * MIB), 3, 1000);
    gate_reset();
    sim->hook[SIM_POLL] = gate_hook;
    pthread_t collector = start(collect_thread, pool);
    gate_await();
    pthread_t asker = start(request_thread, &request);
    pause_ms(30);
    assert_false(is_done(&request));
    __atomic_store_n(&gate_open, true, __ATOMIC_RELEASE);
    pthread_join(collector, NULL);
    pthread_join(asker, NULL);
    assert_int_equal(request.status, POOL_OK);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_growth_in_flight_is_waited_for(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(32 * MIB);
    struct pool *pool = sim_pool_create(sim, 30 * MIB, 0);
    struct request first = {.pool = pool, .bytes = 15 * MIB};
    struct request second = {.pool = pool, .bytes = 15 * MIB};
    gate_reset();
    sim->hook[SIM_ACQUIRE] = gate_hook;
    pthread_t a = start(request_thread, &first);
    gate_await();
    pthread_t b = start(request_thread, &second);
    pause_ms(20);
    assert_false(is_done(&second));
    __atomic_store_n(&gate_open, true, __ATOMIC_RELEASE);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    assert_int_equal(first.status, POOL_OK);
    assert_int_equal(second.status, POOL_OK); /* out of what the first one acquired */
    assert_int_equal(sim->calls[SIM_ACQUIRE], 1);
    sim_pool_end(sim, pool);
}

static void held_memory_is_served_while_another_thread_waits(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(200 * MIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct request request = {.pool = pool, .bytes = 190 * MIB};
    sim_free(sim_alloc(pool, 512));
    sim_free_pending(sim, sim_alloc(pool, 160 * MIB), 3, 1000);
    gate_reset();
    sim->hook[SIM_WAIT] = gate_hook;
    pthread_t asker = start(request_thread, &request);
    gate_await();
    sim_free(sim_alloc(pool, 512)); /* would hang if a lock were held across a wait */
    sim_free(sim_alloc(pool, 20 * MIB));
    sim_free(sim_alloc(pool, 35 * MIB)); /* grows */
    assert_false(is_done(&request));
    __atomic_store_n(&gate_open, true, __ATOMIC_RELEASE);
    pthread_join(asker, NULL);
    assert_int_equal(request.status, POOL_OK);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

static void a_pool_ends_after_those_who_are_inside(void **state)
{
    (void)state;
    static const enum sim_call calls[] = {SIM_RELEASE, SIM_POLL};
    for (int i = 0; i < 2; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct request request = {.pool = pool};
        sim_free(sim_alloc(pool, 40 * MIB));
        sim_free_pending(sim, sim_alloc(pool, 512), 3, 1000);
        gate_reset();
        sim->hook[calls[i]] = gate_hook;
        pthread_t inside = start(i == 0 ? trim_thread : collect_thread, pool);
        gate_await();
        pthread_t ender = start(destroy_thread, &request);
        pause_ms(20);
        assert_false(is_done(&request));
        __atomic_store_n(&gate_open, true, __ATOMIC_RELEASE);
        pthread_join(inside, NULL);
        pthread_join(ender, NULL);
        assert_int_equal(sim->held_bytes, 0);
        sim_backing_destroy(sim); /* every fence was dropped */
    }
}

/* --- a host without memory ------------------------------------------------------------------- */

static struct pool *starved_pool;
static bool growth_was_free;

/* From here on, mmap fails. */
static void host_starve(struct sim_backing *sim)
{
    struct rlimit limit;
    (void)sim;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &limit);
}

static void host_feed(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
}

static void growth_look(struct sim_backing *sim)
{
    (void)sim;
    growth_was_free = pthread_mutex_trylock(&starved_pool->growth) == 0;
    if (growth_was_free)
        pthread_mutex_unlock(&starved_pool->growth);
}

static void memory_without_records_goes_back_without_a_lock(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_stats stats;
    uint64_t address = 1;
    starved_pool = pool;
    growth_was_free = false;
    sim_alloc(pool, 512);
    sim->hook[SIM_ACQUIRE] = host_starve;
    sim->hook[SIM_RELEASE] = growth_look;
    enum pool_status status = pool_alloc(pool, 100 * GIB, POOL_NO_STREAM, 0, &address);
    host_feed();
    assert_int_equal(status, POOL_NO_METADATA);
    assert_int_equal(address, 0);
    assert_true(growth_was_free);
    pool_stats_read(pool, &stats);
    assert_int_equal(stats.backed_bytes, sim->held_bytes);
    sim_backing_check(sim, pool);
    sim->hook[SIM_ACQUIRE] = NULL;
    sim_alloc(pool, 100 * GIB); /* and all is well again */
    assert_int_equal(pool_alloc(pool, UINT64_MAX, POOL_NO_STREAM, 0, &address), POOL_NO_MEMORY);
    sim_backing_check(sim, pool);
    sim_pool_end(sim, pool);
}

/* Its free cannot be filed: the block is lost, its fence is dropped, and nobody has it early. */
static void a_free_without_a_record_loses_its_block(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {512, MIB};
    for (int i = 0; i < 2; i++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        struct pool_block block, found;
        uint64_t a = sim_alloc(pool, sizes[i]), fence = sim_backing_fence(sim, 100);
        assert_int_equal(pool_free_begin(a, &block), POOL_OK);
        host_starve(NULL);
        while (metadata_take(&pool->metadata, sizeof(struct pending)) != NULL) {
        }
        pool_free_pend(&block, 7, fence);
        host_feed();
        assert_int_equal(sim->fence_dropped[fence], 1);
        assert_int_equal(pool_find(a, &found), POOL_OK);
        assert_int_not_equal(found.state, POOL_BLOCK_LIVE);
        assert_int_not_equal(sim_alloc_on(pool, sizes[i], 7), a);
        sim_pool_end(sim, pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_slabs_serve_before_a_refusal),
        cmocka_unit_test(a_release_in_flight_is_waited_for),
        cmocka_unit_test(fences_are_waited_for_though_another_thread_asks_them),
        cmocka_unit_test(a_growth_in_flight_is_waited_for),
        cmocka_unit_test(held_memory_is_served_while_another_thread_waits),
        cmocka_unit_test(a_pool_ends_after_those_who_are_inside),
        cmocka_unit_test(memory_without_records_goes_back_without_a_lock),
        cmocka_unit_test(a_free_without_a_record_loses_its_block),
    };
    return cmocka_run_group_tests_name("pool_ladder", tests, NULL, NULL);
}
