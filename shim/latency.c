/* latency.c - which calls are timed, and where that is noted. See latency.h. */
#include "latency.h"

#include "clock.h"
#include "devices.h"

enum {
    CALLS_A_STEP = 16, /* timed before the distance doubles */
    DOUBLINGS_MAX = 8, /* up to one of 256 calls */
    CLOCK_READS = 16   /* to learn what one costs */
};

__thread struct latency_thread latency_thread;

/* What two readings of the clock in turn are apart, at least. */
static uint64_t clock_cost_ns(void)
{
    static uint64_t known_plus_1;
    uint64_t known = __atomic_load_n(&known_plus_1, __ATOMIC_RELAXED);
    if (known != 0)
        return known - 1;
    uint64_t least_ns = UINT64_MAX, before_ns = clock_ns();
    for (int i = 0; i < CLOCK_READS; i++) {
        uint64_t now_ns = clock_ns();
        least_ns = now_ns - before_ns < least_ns ? now_ns - before_ns : least_ns;
        before_ns = now_ns;
    }
    __atomic_store_n(&known_plus_1, least_ns + 1, __ATOMIC_RELAXED);
    return least_ns;
}

/* Marsaglia, "Xorshift RNGs" (2003). */
static uint64_t random_next(struct latency_thread *thread)
{
    uint64_t random = thread->random != 0 ? thread->random : clock_ns() | 1;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    thread->random = random;
    return random;
}

/* Calls from this timed one to the next: `mean` on average, from half of that to one and a half. */
static uint32_t distance(struct latency_thread *thread, uint32_t mean)
{
    return mean == 1 ? 1 : mean / 2 + (uint32_t)(random_next(thread) % (mean + 1));
}

uint64_t latency_draw(void)
{
    struct latency_thread *thread = &latency_thread;
    uint32_t doublings = thread->timed / CALLS_A_STEP;
    uint32_t mean = (uint32_t)1 << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
    if (thread->timed < CALLS_A_STEP * DOUBLINGS_MAX)
        thread->timed++;
    thread->weight = thread->mean != 0 ? thread->mean : 1;
    thread->mean = mean;
    thread->left = distance(thread, mean) - 1;
    clock_cost_ns(); /* not within what is timed */
    return clock_ns();
}

static uint64_t since(uint64_t begin_ns, uint64_t now_ns, uint64_t cost_ns)
{
    return now_ns > begin_ns + cost_ns ? now_ns - begin_ns - cost_ns : 0;
}

void latency_record(enum latency_kind kind, uint64_t begin_ns)
{
    CUcontext current;
    uint64_t now_ns = clock_ns();
    struct latency_thread *thread = &latency_thread;
    uint64_t slow_ns = thread->slow_since_ns;
    struct context *context = kind == LATENCY_ALLOC ? context_current(&current) : NULL;
    struct device *device = kind == LATENCY_FREE ? thread->device
                            : context != NULL    ? context->device
                                                 : device_for_counting();
    if (device == NULL || !process_serves())
        return;
    if (slow_ns != 0)
        histogram_add(&device->latency.slow[kind],
                      since(begin_ns != 0 ? begin_ns : slow_ns, now_ns, clock_cost_ns()), 1);
    else
        histogram_add(&device->latency.sampled[kind], since(begin_ns, now_ns, clock_cost_ns()),
                      thread->weight);
    if (context != NULL)
        pool_observe(context->pool);
}

void latency_slow(void)
{
    if (latency_thread.slow_since_ns == 0)
        latency_thread.slow_since_ns = clock_ns();
}

/* A wait of two ticks or more shows as such each time; one of less than that only now and then. */
void latency_waited(uint64_t ns)
{
    static uint64_t tick_ns;
    uint64_t known_ns = __atomic_load_n(&tick_ns, __ATOMIC_RELAXED);
    if (known_ns == 0) {
        struct timespec tick;
        known_ns = clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0
                       ? (uint64_t)tick.tv_sec * 1000000000U + (uint64_t)tick.tv_nsec
                       : UINT64_MAX / 2;
        __atomic_store_n(&tick_ns, known_ns, __ATOMIC_RELAXED);
    }
    if (ns >= 2 * known_ns && latency_thread.slow_since_ns == 0)
        latency_thread.slow_since_ns = clock_ns() - ns;
}

void latency_growth(struct device *device, uint64_t begin_ns)
{
    histogram_add(&device->latency.growth, clock_ns() - begin_ns, 1);
}
