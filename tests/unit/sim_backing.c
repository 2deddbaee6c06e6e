/* sim_backing.c - a backing for tests. See sim_backing.h. */
#include "unit.h"

#include "sim_backing.h"

static void misuse(struct sim_backing *sim, const char *what)
{
    if (sim->misuse == NULL)
        sim->misuse = what;
}

/* Counts a call. On return the lock is held. True: the call fails by order. */
static bool call_begin(struct sim_backing *sim, enum sim_call call)
{
    if (sim->hook[call] != NULL)
        sim->hook[call](sim);
    pthread_mutex_lock(&sim->lock);
    uint64_t count = ++sim->calls[call];
    return sim->fail_at[call] == SIM_FAIL_ALWAYS || sim->fail_at[call] == count;
}

static uint64_t unit_of(uint64_t address)
{
    return (address - SIM_BASE_ADDRESS) / BACKING_SEGMENT_ALIGN_BYTES;
}

/* The lowest free range. */
static uint64_t units_find(const struct sim_backing *sim, uint64_t units)
{
    uint64_t run = 0;
    for (uint64_t i = 0; i < SIM_UNITS; i++) {
        run = sim->unit_used[i] ? 0 : run + 1;
        if (run == units)
            return i + 1 - units;
    }
    fail_msg("the simulated address space is full");
    return 0;
}

static uint64_t segment_place(struct sim_backing *sim, uint64_t bytes)
{
    uint64_t units = bytes / BACKING_SEGMENT_ALIGN_BYTES;
    uint64_t first = units_find(sim, units);
    memset(&sim->unit_used[first], 1, units);
    sim->segment_bytes[first] = bytes;
    sim->held_bytes += bytes;
    if (sim->held_bytes > sim->held_peak_bytes)
        sim->held_peak_bytes = sim->held_bytes;
    return SIM_BASE_ADDRESS + first * BACKING_SEGMENT_ALIGN_BYTES;
}

static enum backing_status acquire(void *self, uint64_t bytes, uint64_t *address_out)
{
    struct sim_backing *sim = self;
    enum backing_status status = BACKING_OK;
    bool failing = call_begin(sim, SIM_ACQUIRE);
    if (bytes == 0 || bytes % BACKING_SEGMENT_ALIGN_BYTES != 0)
        misuse(sim, "acquire of a size that is no multiple of 2 MiB");
    if (failing)
        status = sim->fail_status;
    else if (bytes > sim->card_bytes || sim->held_bytes > sim->card_bytes - bytes)
        status = BACKING_NO_MEMORY;
    else
        *address_out = segment_place(sim, bytes);
    pthread_mutex_unlock(&sim->lock);
    return status;
}

static void parts_place(struct sim_backing *sim, uint64_t first, uint64_t bytes,
                        uint64_t part_bytes)
{
    uint64_t part_units = part_bytes / BACKING_SEGMENT_ALIGN_BYTES;
    uint64_t units = bytes / BACKING_SEGMENT_ALIGN_BYTES;
    if (part_bytes == 0 || part_bytes % BACKING_SEGMENT_ALIGN_BYTES != 0)
        misuse(sim, "parts that are no multiple of 2 MiB");
    for (uint64_t at = 0; part_units > 0 && at < units; at += part_units)
        sim->part_bytes[first + at] =
            (units - at < part_units ? units - at : part_units) * BACKING_SEGMENT_ALIGN_BYTES;
}

static enum backing_status acquire_parts(void *self, uint64_t bytes, uint64_t part_bytes,
                                         uint64_t *address_out)
{
    struct sim_backing *sim = self;
    enum backing_status status = acquire(self, bytes, address_out);
    pthread_mutex_lock(&sim->lock);
    if (status == BACKING_OK)
        parts_place(sim, unit_of(*address_out), bytes, part_bytes);
    pthread_mutex_unlock(&sim->lock);
    return status;
}

static enum backing_status release_parts(void *self, uint64_t address, uint64_t bytes,
                                         uint64_t part_bytes)
{
    struct sim_backing *sim = self;
    bool failing = call_begin(sim, SIM_RELEASE);
    uint64_t at = 0, first = unit_of(address);
    while (at < bytes && sim->part_bytes[first + at / BACKING_SEGMENT_ALIGN_BYTES] != 0)
        at += sim->part_bytes[first + at / BACKING_SEGMENT_ALIGN_BYTES];
    if (bytes == 0 || at != bytes || part_bytes == 0)
        misuse(sim, "release of what are no whole parts");
    else if (!failing) {
        memset(&sim->part_bytes[first], 0,
               bytes / BACKING_SEGMENT_ALIGN_BYTES * sizeof(*sim->part_bytes));
        sim->held_bytes -= bytes;
    }
    pthread_mutex_unlock(&sim->lock);
    return failing ? sim->fail_status : BACKING_OK;
}

static void retire(void *self, uint64_t address, uint64_t bytes)
{
    struct sim_backing *sim = self;
    uint64_t first = unit_of(address), units = bytes / BACKING_SEGMENT_ALIGN_BYTES;
    pthread_mutex_lock(&sim->lock);
    if (first >= SIM_UNITS || sim->segment_bytes[first] != bytes)
        misuse(sim, "addresses retired that are not held");
    for (uint64_t i = 0; i < units; i++)
        if (sim->part_bytes[first + i] != 0)
            misuse(sim, "addresses retired under which memory lies");
    memset(&sim->unit_used[first], 0, units);
    sim->segment_bytes[first] = 0;
    pthread_mutex_unlock(&sim->lock);
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes)
{
    struct sim_backing *sim = self;
    bool failing = call_begin(sim, SIM_RELEASE);
    uint64_t first = unit_of(address);
    if (bytes == 0 || first >= SIM_UNITS || sim->segment_bytes[first] != bytes) {
        misuse(sim, "release of what is not held");
    } else if (!failing) {
        memset(&sim->unit_used[first], 0, bytes / BACKING_SEGMENT_ALIGN_BYTES);
        sim->segment_bytes[first] = 0;
        sim->held_bytes -= bytes;
    }
    pthread_mutex_unlock(&sim->lock);
    return failing ? sim->fail_status : BACKING_OK;
}

static enum backing_fence_state fence_ask(struct sim_backing *sim, enum sim_call call,
                                          uint64_t fence)
{
    bool failing = call_begin(sim, call);
    enum backing_fence_state state = BACKING_FENCE_FAILED;
    if (fence == 0 || fence > sim->fences || sim->fence_dropped[fence]) {
        misuse(sim, "a fence was asked that is not there");
    } else if (!failing) {
        if (call == SIM_WAIT && sim->fence_time[fence] > sim->now)
            sim->now = sim->fence_time[fence];
        state = sim->fence_time[fence] <= sim->now ? BACKING_FENCE_PASSED : BACKING_FENCE_PENDING;
    }
    pthread_mutex_unlock(&sim->lock);
    return state;
}

static enum backing_fence_state fence_poll(void *self, uint64_t fence)
{
    return fence_ask(self, SIM_POLL, fence);
}

static enum backing_fence_state fence_wait(void *self, uint64_t fence)
{
    return fence_ask(self, SIM_WAIT, fence);
}

static void fence_drop(void *self, uint64_t fence)
{
    struct sim_backing *sim = self;
    pthread_mutex_lock(&sim->lock);
    if (fence != 0 && fence <= sim->fences && sim->fence_more[fence] > 0)
        sim->fence_more[fence]--;
    else if (fence == 0 || fence > sim->fences || sim->fence_dropped[fence]++)
        misuse(sim, "a fence was dropped that is not there");
    pthread_mutex_unlock(&sim->lock);
}

static uint64_t room(void *self, uint64_t *total_out)
{
    struct sim_backing *sim = self;
    pthread_mutex_lock(&sim->lock);
    uint64_t bytes = sim->card_bytes > sim->held_bytes ? sim->card_bytes - sim->held_bytes : 0;
    *total_out = sim->card_bytes;
    pthread_mutex_unlock(&sim->lock);
    return bytes;
}

struct sim_backing *sim_backing_create(uint64_t card_bytes)
{
    struct sim_backing *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    pthread_mutex_init(&sim->lock, NULL);
    sim->card_bytes = card_bytes;
    sim->parts = getenv("SIM_PARTS") != NULL;
    sim->fence_time = calloc(SIM_FENCES_MAX, sizeof(*sim->fence_time));
    sim->fence_dropped = calloc(SIM_FENCES_MAX, sizeof(*sim->fence_dropped));
    sim->fence_more = calloc(SIM_FENCES_MAX, sizeof(*sim->fence_more));
    assert_non_null(sim->fence_more);
    sim->unit_used = calloc(SIM_UNITS, sizeof(*sim->unit_used));
    sim->segment_bytes = calloc(SIM_UNITS, sizeof(*sim->segment_bytes));
    sim->fail_status = BACKING_NO_MEMORY;
    assert_non_null(sim->fence_time);
    assert_non_null(sim->fence_dropped);
    assert_non_null(sim->unit_used);
    assert_non_null(sim->segment_bytes);
    sim->part_bytes = calloc(SIM_UNITS, sizeof(*sim->part_bytes));
    assert_non_null(sim->part_bytes);
    return sim;
}

void sim_backing_destroy(struct sim_backing *sim)
{
    assert_null(sim->misuse);
    for (uint64_t fence = 1; fence <= sim->fences; fence++)
        assert_int_equal(sim->fence_dropped[fence], 1);
    pthread_mutex_destroy(&sim->lock);
    free(sim->fence_time);
    free(sim->fence_dropped);
    free(sim->fence_more);
    free(sim->unit_used);
    free(sim->segment_bytes);
    free(sim->part_bytes);
    free(sim);
}

static uint64_t clock_ns(void *self)
{
    const struct sim_backing *sim = self;
    return sim->clock_ns;
}

struct backing sim_backing_get(struct sim_backing *sim)
{
    struct backing backing = {.self = sim,
                              .room = room,
                              .fence_poll = fence_poll,
                              .fence_wait = fence_wait,
                              .fence_drop = fence_drop,
                              .clock_ns = clock_ns};
    if (sim->parts) {
        backing.acquire_parts = acquire_parts;
        backing.release_parts = release_parts;
        backing.retire = retire;
    } else {
        backing.acquire = acquire;
        backing.release = release;
    }
    return backing;
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

uint64_t sim_backing_fence_shared(struct sim_backing *sim, uint64_t time, uint32_t blocks)
{
    uint64_t fence = sim_backing_fence(sim, time);
    sim->fence_more[fence] = blocks - 1;
    return fence;
}

void sim_backing_advance(struct sim_backing *sim, uint64_t time)
{
    pthread_mutex_lock(&sim->lock);
    sim->now += time;
    pthread_mutex_unlock(&sim->lock);
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
        .arena_bytes = arena_bytes, .limit_bytes = limit_bytes, .slack_percent = 80};
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    return pool;
}

struct pool *sim_pool_create_uncached(struct sim_backing *sim, uint64_t arena_bytes)
{
    struct backing backing = sim_backing_get(sim);
    struct pool_config config = {.arena_bytes = arena_bytes, .slack_percent = 80, .uncached = true};
    struct pool *pool = pool_create(&config, &backing);
    assert_non_null(pool);
    return pool;
}

void sim_pool_end(struct sim_backing *sim, struct pool *pool)
{
    pool_destroy(pool, true);
    assert_int_equal(sim->held_bytes, 0);
    sim_backing_destroy(sim);
}

uint64_t sim_alloc_on(struct pool *pool, uint64_t bytes, uint64_t stream)
{
    uint64_t address;
    assert_int_equal(pool_alloc(pool, bytes, stream, 1, &address), POOL_OK);
    assert_int_equal(address % POOL_MIN_BLOCK_BYTES, 0);
    return address;
}

uint64_t sim_alloc(struct pool *pool, uint64_t bytes)
{
    return sim_alloc_on(pool, bytes, POOL_NO_STREAM);
}

void sim_free(uint64_t address)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    pool_free_finish(&block);
}

void sim_free_pending(struct sim_backing *sim, uint64_t address, uint64_t stream, uint64_t time)
{
    struct pool_block block;
    assert_int_equal(pool_free_begin(address, &block), POOL_OK);
    pool_free_pend(&block, stream, sim_backing_fence(sim, time));
}
