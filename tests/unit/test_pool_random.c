/* test_pool_random.c - random operations against a naive model, with pool_check() after each step.
 *
 * The model is a plain array of blocks with the rules of pool.h: no two blocks that are not free
 * overlap; every block has its size and alignment; memory freed under a fence is handed out again
 * only to its stream, or after the fence has passed; live blocks and bytes are what the statistics
 * say. Fences are handed in slightly out of order at times; in the last run the backing fails at
 * random. Seed and steps come from VRAMALLOC_TEST_SEED
 * and VRAMALLOC_TEST_STEPS; the seed is printed.
 */
#include "unit.h"

#include <time.h>

#include "../../pool/size_class.h"
#include "sim_backing.h"

/* Reading the figures takes back what threads keep. */
enum { MODEL_MAX = 3000, STREAMS = 6, FIGURES_EVERY = 64 };

enum model_state { MODEL_NONE = 0, MODEL_LIVE, MODEL_RELEASING, MODEL_PENDING };

struct model_block {
    enum model_state state;
    uint64_t address, bytes;
    uint64_t stream, fence_time; /* pending; stream 0: nobody may reuse it before */
    struct pool_block handle;    /* releasing */
};

struct model {
    struct sim_backing *sim;
    struct pool *pool;
    struct model_block block[MODEL_MAX];
    uint64_t stream_time[STREAMS + 1]; /* fences of one stream pass in order */
    uint64_t random;
    uint64_t served, refused;
    uint64_t live_blocks, live_bytes;
    uint64_t most_bytes; /* the pool may hold: the card's, or the limit */
    bool faults;         /* the backing fails at times */
};

static uint64_t random_next(struct model *model)
{
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return model->random;
}

static uint64_t random_below(struct model *model, uint64_t bound)
{
    return random_next(model) % bound;
}

/* Sizes as programs ask for them: many small, some odd, a few large. */
static uint64_t random_bytes(struct model *model)
{
    static const uint64_t usual[] = {512, 1024, 3000, 8192, 9000, 65536, 100000, 524288, 1 << 20};
    uint64_t top = (uint64_t)1 << random_below(model, 28);
    if (random_below(model, 3) == 0) /* again and again, so that what a thread keeps is asked for */
        return usual[random_below(model, sizeof(usual) / sizeof(usual[0]))];
    uint64_t bytes = top + random_below(model, top);
    return random_below(model, 4) == 0 ? top : bytes;
}

static struct model_block *random_block(struct model *model, enum model_state state)
{
    uint64_t start = random_below(model, MODEL_MAX);
    for (uint64_t i = 0; i < MODEL_MAX; i++) {
        struct model_block *block = &model->block[(start + i) % MODEL_MAX];
        if (block->state == state)
            return block;
    }
    return NULL;
}

/* Its stream took the first part of a pending block: what is left is pending still. */
static void tail_keep(struct model_block *old, const struct model_block *fresh)
{
    uint64_t taken = size_run_pages(fresh->bytes) * POOL_PAGE_BYTES;
    assert_int_equal(fresh->address, old->address);
    old->state = taken < old->bytes ? MODEL_PENDING : MODEL_NONE;
    old->address += taken;
    old->bytes -= taken < old->bytes ? taken : old->bytes;
}

/* The new block may lie on pending memory only where order allows it. */
static void overlap_check(struct model *model, const struct model_block *fresh, uint64_t stream)
{
    for (int i = 0; i < MODEL_MAX; i++) {
        struct model_block *old = &model->block[i];
        if (old == fresh || old->state == MODEL_NONE ||
            old->address >= fresh->address + fresh->bytes ||
            fresh->address >= old->address + old->bytes)
            continue;
        if (old->state != MODEL_PENDING)
            fail_msg("a block that is not free was handed out again");
        bool ordered = stream != POOL_NO_STREAM && old->stream == stream;
        bool passed = old->fence_time <= model->sim->now;
        if (!ordered && !passed)
            fail_msg("a block was handed out before its fence had passed");
        if (!passed)
            tail_keep(old, fresh);
        else
            old->state = MODEL_NONE;
    }
}

/* A refusal is true: nothing is idle, nothing waits for a fence, no hole is long enough, and the
 * card has no room. */
static void refusal_check(struct model *model, uint64_t bytes)
{
    struct pool_stats stats;
    uint64_t pages = bytes <= SIZE_CLASS_MAX_BYTES ? size_class_get(size_class_of(bytes)).slab_pages
                                                   : size_run_pages(bytes);
    uint64_t segment_bytes = (pages * POOL_PAGE_BYTES + 2 * MIB - 1) / (2 * MIB) * 2 * MIB;
    pool_stats_read(model->pool, &stats);
    assert_int_equal(stats.idle_segment_bytes, 0);
    assert_true(stats.largest_free_run_bytes < pages * POOL_PAGE_BYTES);
    assert_true(model->sim->held_bytes + segment_bytes > model->most_bytes);
    for (int i = 0; i < MODEL_MAX; i++)
        if (model->block[i].state == MODEL_PENDING) /* all were waited for */
            assert_true(model->block[i].fence_time <= model->sim->now);
}

static void step_alloc(struct model *model)
{
    struct model_block *block = random_block(model, MODEL_NONE);
    uint64_t stream = random_below(model, 2) == 0 ? random_below(model, STREAMS + 1) : 0;
    if (block == NULL)
        return;
    block->bytes = random_bytes(model);
    enum pool_status status =
        pool_alloc(model->pool, block->bytes, stream, (uint32_t)stream, &block->address);
    if (status == POOL_NO_MEMORY) {
        assert_int_equal(block->address, 0);
        model->refused++;
        if (!model->faults)
            refusal_check(model, block->bytes);
        return;
    }
    assert_int_equal(status, POOL_OK);
    assert_int_equal(block->address % POOL_MIN_BLOCK_BYTES, 0);
    model->served++;
    model->live_blocks++;
    model->live_bytes += block->bytes;
    block->state = MODEL_LIVE;
    overlap_check(model, block, stream);
}

static void step_free_begin(struct model *model)
{
    struct model_block *block = random_block(model, MODEL_LIVE);
    if (block == NULL)
        return;
    assert_int_equal(pool_free_begin(block->address, &block->handle), POOL_OK);
    assert_int_equal(block->handle.requested_bytes, block->bytes);
    block->state = MODEL_RELEASING;
    model->live_blocks--;
    model->live_bytes -= block->bytes;
}

static void step_free_end(struct model *model)
{
    struct model_block *block = random_block(model, MODEL_RELEASING);
    if (block == NULL)
        return;
    uint64_t how = random_below(model, 10);
    if (how == 0) {
        pool_free_cancel(&block->handle);
        block->state = MODEL_LIVE;
        model->live_blocks++;
        model->live_bytes += block->bytes;
    } else if (how < 5) {
        pool_free_finish(&block->handle);
        block->state = MODEL_NONE;
    } else {
        uint64_t stream = random_below(model, STREAMS + 1);
        uint64_t time = model->sim->now + random_below(model, 50);
        if (time < model->stream_time[stream] && random_below(model, 8) != 0)
            time = model->stream_time[stream]; /* else a thread was faster than another */
        if (time > model->stream_time[stream])
            model->stream_time[stream] = time;
        block->stream = stream;
        block->fence_time = time;
        pool_free_pend(&block->handle, stream, sim_backing_fence(model->sim, time));
        block->state = MODEL_PENDING;
    }
}

/* Wrong frees must be refused whatever the state. */
static void step_misuse(struct model *model)
{
    struct pool_block handle;
    struct model_block *block = &model->block[random_below(model, MODEL_MAX)];
    if (block->state == MODEL_RELEASING || block->state == MODEL_PENDING) {
        enum pool_status status = pool_free_begin(block->address, &handle);
        bool passed = block->state == MODEL_PENDING && block->fence_time <= model->sim->now;
        /* once its fence has passed, its segment may have been given back */
        assert_true(status == POOL_NOT_LIVE || (passed && status == POOL_NOT_OWNED));
    }
    if (block->state == MODEL_LIVE && block->bytes > 1) {
        uint64_t inside = block->address + 1 + random_below(model, block->bytes - 1);
        assert_int_equal(pool_free_begin(inside, &handle), POOL_NOT_LIVE);
        assert_int_equal(pool_find(inside, &handle), POOL_OK);
        assert_int_equal(handle.address, block->address);
        assert_int_equal(handle.requested_bytes, block->bytes);
    }
}

static void step_forget(struct model *model)
{
    uint64_t stream = 1 + random_below(model, STREAMS);
    pool_forget_stream(model->pool, stream);
    for (int i = 0; i < MODEL_MAX; i++)
        if (model->block[i].state == MODEL_PENDING && model->block[i].stream == stream)
            model->block[i].stream = POOL_NO_STREAM;
}

/* The device is idle: nothing is pending afterwards. */
static void step_collect_all(struct model *model)
{
    struct pool_stats stats;
    uint64_t releasing = 0;
    for (int i = 0; i <= STREAMS; i++)
        if (model->stream_time[i] > model->sim->now)
            model->sim->now = model->stream_time[i];
    pool_collect_all(model->pool);
    for (int i = 0; i < MODEL_MAX; i++) {
        if (model->block[i].state == MODEL_PENDING)
            model->block[i].state = MODEL_NONE;
        releasing += model->block[i].state == MODEL_RELEASING;
    }
    pool_stats_read(model->pool, &stats);
    assert_int_equal(stats.limbo_blocks, releasing);
}

/* Each call of the backing begins to fail, or works again. */
static void step_fault(struct model *model)
{
    uint64_t call = random_below(model, SIM_CALLS);
    bool work = model->sim->fail_at[call] != 0 || random_below(model, 2) == 0;
    model->sim->fail_at[call] = work ? 0 : SIM_FAIL_ALWAYS;
    model->sim->fail_status = random_below(model, 2) == 0 ? BACKING_NO_MEMORY : BACKING_FAILED;
}

static void step_housekeeping(struct model *model)
{
    switch (random_below(model, 9)) {
    case 0:
        pool_trim(model->pool, UINT64_MAX);
        break;
    case 1:
        pool_trim(model->pool, random_below(model, 2) * 64 * MIB);
        break;
    case 2:
        step_forget(model);
        break;
    case 4:
        if (random_below(model, 8) == 0)
            step_collect_all(model);
        break;
    case 5:
        if (model->faults)
            step_fault(model);
        break;
    case 3:
        assert_true(pool_available_bytes(model->pool, GIB) <= model->sim->held_bytes);
        break;
    default:
        pool_collect(model->pool);
    }
}

static void step(struct model *model)
{
    uint64_t what = random_below(model, 100);
    if (what < 48)
        step_alloc(model);
    else if (what < 70)
        step_free_begin(model);
    else if (what < 92)
        step_free_end(model);
    else if (what < 95)
        step_misuse(model);
    else if (what < 97)
        step_housekeeping(model);
    else
        model->sim->now += random_below(model, 30);
}

static uint64_t environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void figures_check(const struct model *model)
{
    struct pool_stats stats;
    pool_stats_read(model->pool, &stats);
    assert_int_equal(stats.live_blocks, model->live_blocks);
    assert_int_equal(stats.live_requested_bytes, model->live_bytes);
    assert_int_equal(stats.backed_bytes, model->sim->held_bytes);
    assert_int_equal(stats.allocations, model->served);
    assert_int_equal(stats.refused, model->refused);
}

static void run(uint64_t seed, uint64_t steps, uint64_t card_bytes, uint64_t limit_bytes,
                bool faults)
{
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    model->sim = sim_backing_create(card_bytes);
    model->pool = sim_pool_create(model->sim, 0, limit_bytes);
    model->random = seed * 2654435761U + 88172645463325252U;
    model->faults = faults;
    model->most_bytes = limit_bytes != 0 ? limit_bytes : card_bytes;
    printf("seed %llu, %llu steps, card %llu MiB, limit %llu MiB%s\n", (unsigned long long)seed,
           (unsigned long long)steps, (unsigned long long)(card_bytes / MIB),
           (unsigned long long)(limit_bytes / MIB), faults ? ", the backing fails at times" : "");
    for (uint64_t i = 0; i < steps; i++) {
        step(model);
        sim_backing_check(model->sim, model->pool);
        if (i % FIGURES_EVERY == 0)
            figures_check(model);
        if (limit_bytes != 0)
            assert_true(model->sim->held_peak_bytes <= limit_bytes);
    }
    printf("  %llu served, %llu refused\n", (unsigned long long)model->served,
           (unsigned long long)model->refused);
    memset(model->sim->fail_at, 0, sizeof(model->sim->fail_at));
    sim_pool_end(model->sim, model->pool);
    free(model);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    uint64_t seed = environment_number("VRAMALLOC_TEST_SEED", (uint64_t)time(NULL));
    uint64_t steps = environment_number("VRAMALLOC_TEST_STEPS", 100000);
    run(seed, steps / 4, 64 * GIB, 0, false);
    run(seed + 1, steps / 4, 2 * GIB, 0, false);
    run(seed + 2, steps / 4, 64 * GIB, GIB + 7 * MIB, false);
    run(seed + 3, steps - 3 * (steps / 4), 2 * GIB, 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
    };
    return cmocka_run_group_tests_name("pool_random", tests, NULL, NULL);
}
