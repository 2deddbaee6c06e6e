/* test_cases.c - what went wrong for users of other pools, by number, as far as the pool alone
 * decides it. Each is a test of its kind: the sizes of the report and others around them.
 */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "../../pool/pool_internal.h"
#include "sim_backing.h"

#define MB ((uint64_t)1000000)

static uint64_t held_after(struct sim_backing *sim, struct pool *pool)
{
    sim_backing_check(sim, pool);
    return sim->held_bytes;
}

static void end(struct sim_backing *sim, struct pool *pool)
{
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

/* A size just above a power of two must not be rounded to the next. */
static void case_01_waste_is_at_most_a_page(void **state)
{
    (void)state;
    for (uint64_t top = MIB; top <= 64 * GIB; top *= 2) {
        static const uint64_t over[] = {0, 1, 8, 4096, 65535};
        for (int i = 0; i < 5; i++) {
            struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
            struct pool *pool = sim_pool_create(sim, 0, 0);
            struct pool_block block;
            assert_int_equal(pool_find(sim_alloc(pool, top + over[i]), &block), POOL_OK);
            assert_true(block.block_bytes - block.requested_bytes <
                        (block.requested_bytes > MIB ? 64 * KIB : POOL_PAGE_BYTES));
            end(sim, pool);
        }
    }
    struct sim_backing *sim = sim_backing_create(15 * GIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (int i = 0; i < 14; i++)
        sim_alloc(pool, GIB + 8);
    end(sim, pool);
}

/* Sizes that change a little each time: the same bytes are used again. */
static void case_02_footprint_is_flat_after_the_first_round(void **state)
{
    (void)state;
    static const uint64_t rounds[][3] = {{10 * MB, 11 * MB, 12 * MB},
                                         {8 * MIB + 1, 8 * MIB + 1, 8 * MIB + 1},
                                         {100 * MB, 101 * MB, 99 * MB},
                                         {40 * KIB, 41 * KIB, 39 * KIB}};
    for (int r = 0; r < 4; r++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        uint64_t flat = 0;
        for (int i = 0; i < 300; i++) {
            for (int k = 0; k < 3; k++)
                sim_free(sim_alloc(pool, rounds[r][k]));
            pool_trim(pool, UINT64_MAX);
            if (i == 1)
                flat = held_after(sim, pool);
        }
        assert_int_equal(held_after(sim, pool), flat);
        end(sim, pool);
    }
}

/* Memory freed in one size serves another, to the whole of the limit. */
static void case_03_a_limit_can_be_used_in_other_sizes(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, GIB);
    sim_free(sim_alloc(pool, 512 * MIB));
    sim_alloc(pool, 768 * MIB);
    end(sim, pool);
    for (uint64_t percent = 10; percent <= 45; percent += 5) {
        sim = sim_backing_create(SIM_CARD_NO_BOUND);
        pool = sim_pool_create(sim, 0, GIB);
        uint64_t part = GIB / 100 * percent;
        uint64_t a = sim_alloc(pool, part);
        sim_alloc(pool, part);
        sim_free(a);
        sim_alloc(pool, GIB / 100 * (98 - percent));
        assert_true(sim->held_peak_bytes <= GIB);
        end(sim, pool);
    }
}

/* A small block must not settle in the large hole while there is another place. */
static void case_04_the_large_hole_stays_whole(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(8 * GIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    sim_alloc(pool, GIB);
    uint64_t large = sim_alloc(pool, 4 * GIB);
    sim_free(large);
    sim_alloc(pool, GIB);
    sim_alloc(pool, GIB);
    sim_alloc(pool, 4 * GIB);
    sim_backing_check(sim, pool);
    end(sim, pool);
}

/* The same sequence again and again, empty in between: each run is identical, and nothing is left
 * behind. The first run makes the segments. Where memory is in parts, some of it goes back in the
 * next runs to lie elsewhere: it has settled after the fourth. */
static void case_05_every_run_is_the_first(void **state)
{
    (void)state;
    enum { RUNS = 8 };
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    static uint64_t block[RUNS][500];
    struct pool_stats stats;
    uint64_t acquires = 0, releases = 0;
    int settled = sim->parts ? 3 : 1;
    for (int run = 0; run < RUNS; run++) {
        for (uint64_t i = 0; i < 500; i++)
            block[run][i] = sim_alloc(pool, 300 + i * i * 53);
        for (uint64_t i = 0; i < 500; i++)
            sim_free(block[run][(i * 7) % 500]);
        sim_backing_check(sim, pool);
        pool_stats_read(pool, &stats);
        assert_int_equal(stats.free_runs, stats.segments);
        assert_int_equal(stats.run_free_bytes, stats.backed_bytes);
        if (run <= settled) {
            acquires = sim->calls[SIM_ACQUIRE];
            releases = sim->calls[SIM_RELEASE];
        } else {
            assert_memory_equal(block[run], block[settled], sizeof(block[run]));
        }
    }
    assert_int_equal(sim->calls[SIM_ACQUIRE], acquires);
    assert_int_equal(sim->calls[SIM_RELEASE], releases);
    assert_true(sim->parts || (releases == 0 && stats.idle_segment_bytes == stats.backed_bytes));
    end(sim, pool);
}

/* A huge segment is freed and must not be pinned by medium blocks. */
static void case_06_medium_blocks_stay_out_of_huge_holes(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(40 * GIB);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    struct pool_block block;
    uint64_t huge = sim_alloc(pool, 11600 * MB);
    sim_free(huge);
    static const uint64_t medium[] = {16500000, 11400000, 18200000, 40 * MB, 512, 100000};
    for (int i = 0; i < 6; i++) {
        uint64_t a = sim_alloc(pool, medium[i]);
        assert_int_equal(pool_find(a, &block), POOL_OK);
        assert_true(block.segment_address != huge);
    }
    assert_int_equal(sim_alloc(pool, 11600 * MB), huge);
    end(sim, pool);
}

/* The whole capacity can be had in equal parts. */
static void case_07_full_capacity_is_reachable(void **state)
{
    (void)state;
    for (uint64_t parts = 1; parts <= 64; parts *= 2) {
        struct sim_backing *sim = sim_backing_create(64 * MIB);
        struct pool *pool = sim_pool_create(sim, 64 * MIB, 64 * MIB);
        for (uint64_t i = 0; i < parts; i++)
            sim_alloc(pool, 64 * MIB / parts);
        sim_backing_check(sim, pool);
        end(sim, pool);
    }
}

/* A network run on batches of changing size, over weights that stay. The bytes that the program
 * itself holds are counted here, to compare with. */
enum { LAYERS = 12, ROUNDS = 1000, WARM_ROUNDS = 100 };

struct network {
    struct sim_backing *sim;
    struct pool *pool;
    uint64_t live_bytes, live_peak_bytes;
    uint64_t layer[2][LAYERS]; /* of two batches; 0: not held */
    uint64_t layer_bytes[2][LAYERS];
};

static uint64_t network_take(struct network *network, uint64_t bytes)
{
    network->live_bytes += bytes;
    if (network->live_peak_bytes < network->live_bytes)
        network->live_peak_bytes = network->live_bytes;
    return sim_alloc(network->pool, bytes);
}

/* As a cudaFree does it: what is idle beyond the slack goes back. */
static void layer_end(struct network *network, int which, int i)
{
    struct pool_block block;
    if (network->layer[which][i] == 0)
        return;
    network->live_bytes -= network->layer_bytes[which][i];
    assert_int_equal(pool_free_begin(network->layer[which][i], &block), POOL_OK);
    network->layer[which][i] = 0;
    if (pool_free_finish(&block) > 0)
        pool_trim(network->pool, UINT64_MAX);
}

static void layer_begin(struct network *network, int which, int i, uint64_t items)
{
    static const uint64_t item_bytes[LAYERS] = {31500000, 150528, 3211264, 802816, 9633792,  4000,
                                                1605632,  12345,  401408,  65537,  20000000, 600};
    network->layer_bytes[which][i] = items * item_bytes[i];
    network->layer[which][i] = network_take(network, items * item_bytes[i]);
}

enum order { NEIGHBOURS, ALL_AT_ONCE, NEXT_BEFORE_LAST, ORDERS };

static void network_run(struct network *network, enum order order, int round, uint64_t items)
{
    int which = order == NEXT_BEFORE_LAST ? round % 2 : 0;
    for (int i = 0; i < LAYERS; i++) {
        layer_begin(network, which, i, items);
        if (order == NEIGHBOURS && i > 0)
            layer_end(network, which, i - 1);
    }
    for (int i = 0; i < LAYERS; i++)
        layer_end(network, order == NEXT_BEFORE_LAST ? 1 - which : which, i * 5 % LAYERS);
}

/* A working set that swings between shapes must not grow each time: after the first rounds no more
 * is ever held than at the most until then: 1.5 times the most that was live, 1.15 times where
 * memory comes and goes in parts. */
static void case_08_footprint_plateaus(void **state)
{
    (void)state;
    static const uint64_t batch[][4] = {
        {16, 7, 7, 7}, {16, 7, 16, 7}, {7, 16, 11, 16}, {32, 1, 7, 16}};
    for (int test = 0; test < 4 * ORDERS * 2; test++) {
        const uint64_t *items = batch[test % 4];
        enum order order = (enum order)(test / 4 % ORDERS);
        struct network network = {.sim = sim_backing_create(SIM_CARD_NO_BOUND)};
        network.sim->parts = test >= 4 * ORDERS;
        network.pool = sim_pool_create(network.sim, 0, 0);
        for (uint64_t i = 1; i <= 20; i++)
            network_take(&network, i * i * 40000);
        uint64_t plateau = 0;
        for (int round = 0; round < ROUNDS; round++) {
            network_run(&network, order, round, items[round % 4]);
            sim_backing_check(network.sim, network.pool);
            if (round < WARM_ROUNDS)
                plateau = network.sim->held_peak_bytes;
        }
        assert_int_equal(network.sim->held_peak_bytes, plateau);
        assert_true(network.sim->held_peak_bytes <=
                    network.live_peak_bytes / 100 * (network.sim->parts ? 115 : 150));
        end(network.sim, network.pool);
    }
}

/* Eight blocks become four of twice the size, and the reverse. */
static void case_09_memory_changes_shape_without_growth(void **state)
{
    (void)state;
    for (int reverse = 0; reverse < 2; reverse++) {
        struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        int first = reverse ? 4 : 8, second = reverse ? 8 : 4;
        uint64_t block[8];
        for (int i = 0; i < first; i++)
            block[i] = sim_alloc(pool, 128 * MIB / (uint64_t)first);
        for (int i = 0; i < first; i++)
            sim_free(block[i]);
        uint64_t held = held_after(sim, pool);
        for (int i = 0; i < second; i++)
            sim_alloc(pool, 128 * MIB / (uint64_t)second);
        if (sim->parts) /* some went back, to be had in one piece */
            assert_true(held_after(sim, pool) <= held);
        else
            assert_int_equal(held_after(sim, pool), held);
        assert_int_equal(sim->held_peak_bytes, held);
        end(sim, pool);
    }
}

/* Half of the card, then more than the rest: refused, and granted after a free. */
static void case_10_refused_then_granted_after_a_free(void **state)
{
    (void)state;
    for (uint64_t card = GIB; card <= 192 * GIB; card = card * 3 + 2 * MIB) {
        struct sim_backing *sim = sim_backing_create(card);
        struct pool *pool = sim_pool_create(sim, 0, 0);
        uint64_t address;
        uint64_t half = sim_alloc(pool, card / 2);
        assert_int_equal(pool_alloc(pool, card * 6 / 10, POOL_NO_STREAM, 0, &address),
                         POOL_NO_MEMORY);
        sim_free(half);
        sim_alloc(pool, card * 6 / 10);
        sim_backing_check(sim, pool);
        end(sim, pool);
    }
}

static void case_18_every_block_is_aligned_to_512(void **state)
{
    (void)state;
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    for (uint64_t bytes = 1; bytes < 100 * MIB; bytes = bytes * 5 / 4 + 1)
        for (int i = 0; i < 5; i++)
            sim_alloc(pool, bytes); /* checks the alignment */
    end(sim, pool);
}

/* A fixed number of allocations and frees, shared between threads that begin together. */
enum { PAIRS = 160000, TRIES = 5, THREADS_MAX = 16 };

struct crowd {
    struct pool *pool;
    pthread_barrier_t begin;
    uint64_t pairs;   /* of each thread */
    int between;      /* steps of the program's own work after each pair */
    uint64_t started; /* ns; of the first thread */
    uint64_t ended;   /* of the last */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void time_note(uint64_t *time, uint64_t now, bool first)
{
    uint64_t seen = __atomic_load_n(time, __ATOMIC_RELAXED);
    while ((seen == 0 || (first ? now < seen : now > seen)) &&
           !__atomic_compare_exchange_n(time, &seen, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void *crowd_work(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t block[8] = {0};
    pthread_barrier_wait(&crowd->begin);
    time_note(&crowd->started, now_ns(), true);
    for (uint64_t i = 0; i < crowd->pairs; i++) {
        struct pool_block freed;
        uint64_t *at = &block[i % 8];
        if (*at != 0 && pool_free_begin(*at, &freed) == POOL_OK)
            pool_free_finish(&freed);
        if (pool_alloc(crowd->pool, (uint64_t)256 << i % 12, POOL_NO_STREAM, 0, at) != POOL_OK)
            abort();
        for (volatile int step = 0; step < crowd->between; step++)
            ;
    }
    time_note(&crowd->ended, now_ns(), false);
    for (int i = 0; i < 8; i++)
        sim_free(block[i]);
    return NULL;
}

/* Pairs a second. */
static double crowd_throughput(uint64_t threads, int between)
{
    struct sim_backing *sim = sim_backing_create(SIM_CARD_NO_BOUND);
    struct crowd crowd = {
        .pool = sim_pool_create(sim, 0, 0), .pairs = PAIRS / threads, .between = between};
    struct pool_stats stats;
    pthread_t thread[THREADS_MAX];
    pthread_barrier_init(&crowd.begin, NULL, (unsigned)threads);
    for (uint64_t i = 0; i < threads; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, crowd_work, &crowd), 0);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    pool_stats_read(crowd.pool, &stats);
    assert_int_equal(stats.allocations, PAIRS);
    assert_int_equal(stats.frees, PAIRS);
    assert_int_equal(stats.live_blocks, 0);
    pthread_barrier_destroy(&crowd.begin);
    sim_backing_check(sim, crowd.pool);
    end(sim, crowd.pool);
    return PAIRS / ((double)(crowd.ended - crowd.started) / 1e9);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Medians at 1, 4 and 16 threads. */
static void crowd_measure(int between, double median[3])
{
    static const uint64_t threads[] = {1, 4, THREADS_MAX};
    double tries[3][TRIES];
    for (int t = 0; t < TRIES; t++)
        for (int i = 0; i < 3; i++)
            tries[i][t] = crowd_throughput(threads[i], between);
    for (int i = 0; i < 3; i++) {
        qsort(tries[i], TRIES, sizeof(tries[i][0]), by_size);
        median[i] = tries[i][TRIES / 2];
        print_message(
            "%3d steps between, %2d threads: %.2f million pairs a second (%.2f to %.2f)\n", between,
            (int)threads[i], median[i] / 1e6, tries[i][0] / 1e6, tries[i][TRIES - 1] / 1e6);
    }
}

/* Threads share one pool and do not bring it to a halt: the same work, measured in 1, 4 and 16
 * threads. How much faster it gets is the machine's matter. Ours is that it keeps a fifth of one
 * thread's throughput where the program does something itself (half a microsecond, less than a
 * kernel launch takes), and a fiftieth where all that each thread does is to contend for the pool.
 */
static void case_30_threads_do_not_collapse(void **state)
{
    (void)state;
    double busy[3], bare[3];
    crowd_measure(1000, busy);
    crowd_measure(0, bare);
    for (int i = 1; i < 3; i++) {
        assert_true(busy[i] >= busy[0] / 5);
        assert_true(bare[i] >= bare[0] / 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_01_waste_is_at_most_a_page),
        cmocka_unit_test(case_02_footprint_is_flat_after_the_first_round),
        cmocka_unit_test(case_03_a_limit_can_be_used_in_other_sizes),
        cmocka_unit_test(case_04_the_large_hole_stays_whole),
        cmocka_unit_test(case_05_every_run_is_the_first),
        cmocka_unit_test(case_06_medium_blocks_stay_out_of_huge_holes),
        cmocka_unit_test(case_07_full_capacity_is_reachable),
        cmocka_unit_test(case_08_footprint_plateaus),
        cmocka_unit_test(case_09_memory_changes_shape_without_growth),
        cmocka_unit_test(case_10_refused_then_granted_after_a_free),
        cmocka_unit_test(case_18_every_block_is_aligned_to_512),
        cmocka_unit_test(case_30_threads_do_not_collapse),
    };
    return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
