/* sim_backing.c - a backing for tests. See sim_backing.h. */
#include "unit.h"

#include "sim_backing.h"

static void misuse(struct sim_backing *sim, const char *what)
{
    if (sim->misuse == NULL)
        sim->misuse = what;
}

static bool fails_now(uint64_t at, uint64_t count)
{
    return at == UINT64_MAX || at == count;
}

static enum backing_status acquire(void *self, uint64_t bytes, uint64_t *address_out)
{
    struct sim_backing *sim = self;
    enum backing_status status = BACKING_NO_MEMORY;
    uint64_t address;
    pthread_mutex_lock(&sim->lock);
    if (bytes == 0 || bytes % BACKING_SEGMENT_ALIGN_BYTES != 0)
        misuse(sim, "acquire of a size that is no multiple of 2 MiB");
    if (fails_now(sim->fail_acquire_at, ++sim->acquires)) {
        status = sim->fail_status;
    } else if (card_allocate(sim->card, bytes, &address)) {
        int i = 0;
        while (i < SIM_SEGMENTS_MAX && sim->segments[i].bytes != 0)
            i++;
        assert_true(i < SIM_SEGMENTS_MAX);
        sim->segments[i].address = address;
        sim->segments[i].bytes = bytes;
        sim->held_bytes += bytes;
        if (sim->held_bytes > sim->held_peak_bytes)
            sim->held_peak_bytes = sim->held_bytes;
        *address_out = address;
        status = BACKING_OK;
    }
    pthread_mutex_unlock(&sim->lock);
    return status;
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes)
{
    struct sim_backing *sim = self;
    if (sim->in_release != NULL)
        sim->in_release(sim);
    pthread_mutex_lock(&sim->lock);
    int i = 0;
    while (i < SIM_SEGMENTS_MAX &&
           !(sim->segments[i].address == address && sim->segments[i].bytes == bytes))
        i++;
    bool failing = fails_now(sim->fail_release_at, ++sim->releases);
    if (i == SIM_SEGMENTS_MAX || bytes == 0) {
        misuse(sim, "release of what is not held");
    } else if (!failing) {
        card_release(sim->card, address, bytes);
        sim->segments[i].bytes = 0;
        sim->held_bytes -= bytes;
    }
    pthread_mutex_unlock(&sim->lock);
    return failing ? sim->fail_status : BACKING_OK;
}

static enum backing_fence_state fence_state(struct sim_backing *sim, uint64_t fence)
{
    if (fence == 0 || fence > sim->fences || sim->fence_dropped[fence])
        misuse(sim, "a fence was asked that is not there");
    if (sim->fences_fail)
        return BACKING_FENCE_FAILED;
    return sim->fence_time[fence] <= sim->now ? BACKING_FENCE_PASSED : BACKING_FENCE_PENDING;
}

static enum backing_fence_state fence_poll(void *self, uint64_t fence)
{
    struct sim_backing *sim = self;
    pthread_mutex_lock(&sim->lock);
    sim->polls++;
    enum backing_fence_state state = fence_state(sim, fence);
    pthread_mutex_unlock(&sim->lock);
    return state;
}

static enum backing_fence_state fence_wait(void *self, uint64_t fence)
{
    struct sim_backing *sim = self;
    pthread_mutex_lock(&sim->lock);
    sim->waits++;
    enum backing_fence_state state = fence_state(sim, fence);
    if (state == BACKING_FENCE_PENDING) {
        sim->now = sim->fence_time[fence];
        state = BACKING_FENCE_PASSED;
    }
    pthread_mutex_unlock(&sim->lock);
    return state;
}

static void fence_drop(void *self, uint64_t fence)
{
    struct sim_backing *sim = self;
    pthread_mutex_lock(&sim->lock);
    if (fence == 0 || fence > sim->fences || sim->fence_dropped[fence]++)
        misuse(sim, "a fence was dropped that is not there");
    pthread_mutex_unlock(&sim->lock);
}

struct sim_backing *sim_backing_create(uint64_t card_bytes)
{
    struct sim_backing *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    pthread_mutex_init(&sim->lock, NULL);
    sim->card = card_create(card_bytes);
    sim->fence_time = calloc(SIM_FENCES_MAX, sizeof(*sim->fence_time));
    sim->fence_dropped = calloc(SIM_FENCES_MAX, sizeof(*sim->fence_dropped));
    sim->fail_status = BACKING_NO_MEMORY;
    assert_non_null(sim->card);
    assert_non_null(sim->fence_time);
    assert_non_null(sim->fence_dropped);
    return sim;
}

void sim_backing_destroy(struct sim_backing *sim)
{
    assert_null(sim->misuse);
    card_destroy(sim->card);
    free(sim->fence_time);
    free(sim->fence_dropped);
    free(sim);
}

struct backing sim_backing_get(struct sim_backing *sim)
{
    return (struct backing){.self = sim,
                            .acquire = acquire,
                            .release = release,
                            .fence_poll = fence_poll,
                            .fence_wait = fence_wait,
                            .fence_drop = fence_drop};
}

uint64_t sim_backing_fence(struct sim_backing *sim, uint64_t time)
{
    pthread_mutex_lock(&sim->lock);
    uint64_t fence = ++sim->fences;
    assert_true(fence < SIM_FENCES_MAX);
    sim->fence_time[fence] = time;
    pthread_mutex_unlock(&sim->lock);
    return fence;
}

void sim_backing_check(struct sim_backing *sim, struct pool *pool)
{
    char why[200];
    if (!pool_check(pool, why, sizeof(why)))
        fail_msg("pool_check: %s", why);
    if (sim->misuse != NULL)
        fail_msg("%s", sim->misuse);
}

struct pool *sim_pool_create(struct sim_backing *sim, uint64_t arena_bytes, uint64_t limit_bytes)
{
    struct backing backing = sim_backing_get(sim);
    struct pool_config config = {
        .arena_bytes = arena_bytes, .limit_bytes = limit_bytes, .slack_percent = 10};
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    return pool;
}

uint64_t sim_alloc(struct pool *pool, uint64_t bytes)
{
    uint64_t address;
    assert_int_equal(pool_alloc(pool, bytes, POOL_NO_STREAM, 0, &address), POOL_OK);
    assert_int_equal(address % POOL_MIN_BLOCK_BYTES, 0);
    return address;
}

void sim_free(uint64_t address)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    pool_free_finish(&block);
}
