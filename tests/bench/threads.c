/* threads.c - the patterns of several threads: one allocates and another frees; and pairs in up to
 * 16 threads at once. See bench.h.
 *
 * A figure is the time that passed, divided by the blocks of all threads together.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

/* --- one allocates, another frees ----------------------------------------------------------------
 */

#define HANDED_BLOCKS ((uint64_t)100000)

enum { RING = 1024, SPINS = 64 };

struct ring {
    _Alignas(128) uint64_t written; /* by the one who allocates */
    _Alignas(128) uint64_t read;    /* by the one who frees */
    _Alignas(128) void *block[RING];
    uint32_t sizes[SIZES];
    uint64_t count;
};

/* Waits until *counter is above `than`. */
static uint64_t counter_wait(const uint64_t *counter, uint64_t than)
{
    uint64_t value;
    for (int spins = 0; (value = __atomic_load_n(counter, __ATOMIC_ACQUIRE)) <= than; spins++)
        if (spins % SPINS == SPINS - 1)
            sched_yield();
    return value;
}

static void *consume(void *arg)
{
    struct ring *ring = arg;
    uint64_t written = 0;
    for (uint64_t i = 0; i < ring->count; i++) {
        if (written <= i)
            written = counter_wait(&ring->written, i);
        block_free(ring->block[i % RING]);
        __atomic_store_n(&ring->read, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void handover_work(void *arg)
{
    struct ring *ring = arg;
    pthread_t consumer;
    uint64_t read = 0;
    ring->written = ring->read = 0;
    if (pthread_create(&consumer, NULL, consume, ring) != 0) {
        refused = true;
        return;
    }
    for (uint64_t i = 0; i < ring->count; i++) {
        if (read + RING <= i)
            read = counter_wait(&ring->read, i - RING);
        ring->block[i % RING] = block_get(ring->sizes[i % SIZES]);
        __atomic_store_n(&ring->written, i + 1, __ATOMIC_RELEASE);
    }
    pthread_join(consumer, NULL);
}

void handovers(void)
{
    struct ring *ring = memory_map(sizeof(*ring));
    ring->count = divided(HANDED_BLOCKS);
    sizes_draw(ring->sizes, 4 * KIB, 4 * KIB);
    row(measure_runs(handover_work, ring, ring->count), "handed over 4 KiB");
    sizes_draw(ring->sizes, 64 * KIB, 64 * KIB);
    row(measure_runs(handover_work, ring, ring->count), "handed over 64 KiB");
    sizes_draw(ring->sizes, 256, MIB);
    row(measure_runs(handover_work, ring, ring->count), "handed over 256 B-1 MiB");
}

/* --- pairs in threads ----------------------------------------------------------------------------
 */

enum { THREADS_MAX = 16, WARM_UP = 100, CHUNK = 64, WINDOWS = 3 };

struct member {
    _Alignas(128) uint64_t pairs; /* that it made */
    struct crew *crew;
};

struct crew {
    uint64_t bytes;
    int threads;
    pthread_barrier_t start;
    bool stop;
    struct member member[THREADS_MAX];
};

static void pairs_do(uint64_t bytes, int count)
{
    for (int i = 0; i < count; i++)
        block_free(block_get(bytes));
}

static void *crew_member(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    uint64_t pairs = 0;
    pairs_do(crew->bytes, WARM_UP);
    pthread_barrier_wait(&crew->start);
    while (!__atomic_load_n(&crew->stop, __ATOMIC_RELAXED)) {
        pairs_do(crew->bytes, CHUNK);
        pairs += CHUNK;
    }
    member->pairs = pairs;
    return NULL;
}

static void sleep_ns(double ns)
{
    struct timespec pause = {(time_t)(ns / 1e9), (long)fmod(ns, 1e9)};
    nanosleep(&pause, NULL);
}

static double crew_run(struct crew *crew)
{
    pthread_t thread[THREADS_MAX];
    double total = 0;
    crew->stop = false;
    pthread_barrier_init(&crew->start, NULL, (unsigned)crew->threads + 1);
    for (int i = 0; i < crew->threads; i++) {
        crew->member[i].crew = crew;
        pthread_create(&thread[i], NULL, crew_member, &crew->member[i]);
    }
    pthread_barrier_wait(&crew->start);
    double begin = now_ns();
    sleep_ns(settings.ms * 1e6);
    __atomic_store_n(&crew->stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < crew->threads; i++)
        pthread_join(thread[i], NULL);
    double taken_ns = now_ns() - begin;
    for (int i = 0; i < crew->threads; i++)
        total += (double)crew->member[i].pairs;
    pthread_barrier_destroy(&crew->start);
    return taken_ns / total;
}

static void crew_rows(struct crew *crew, uint64_t bytes)
{
    double window[WINDOWS];
    crew->bytes = bytes;
    for (crew->threads = 1; crew->threads <= THREADS_MAX; crew->threads *= 2) {
        for (int i = 0; i < WINDOWS; i++)
            window[i] = crew_run(crew);
        row(median(window, WINDOWS), "%s in %d thread%s", size_words(bytes), crew->threads,
            crew->threads > 1 ? "s" : "");
    }
}

void threads(void)
{
    struct crew *crew = memory_map(sizeof(*crew));
    crew_rows(crew, 4 * KIB);
    crew_rows(crew, 64 * KIB);
}
