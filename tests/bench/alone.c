/* alone.c - the patterns of one thread: pairs, batches, and random mixes as RMM's benchmark
 * "random_allocations" makes them. See bench.h.
 *
 * A figure is the time of an allocation and a free together. All random choices are made beforehand
 * and are the same for every contender and round.
 */
#include "bench.h"

/* --- pairs --------------------------------------------------------------------------------------
 */

static void pair_work(void *arg, uint64_t operations)
{
    uint64_t bytes = *(const uint64_t *)arg;
    for (uint64_t i = 0; i < operations; i++)
        block_free(block_get(bytes));
}

void pairs(void)
{
    static const uint64_t sizes[] = {256, 4 * KIB, 64 * KIB, 1 * MIB, 4 * MIB, 64 * MIB, 1 * GIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint64_t bytes = sizes[i];
        row(measure(pair_work, &bytes), "pair %s", size_words(bytes));
    }
}

/* --- batches ------------------------------------------------------------------------------------
 */

#define BATCH_BLOCKS ((uint64_t)10000)

struct batch {
    uint64_t count;
    uint32_t *order; /* in which blocks are freed */
    uint32_t sizes[SIZES];
    void **blocks;
};

static void batch_work(void *arg)
{
    struct batch *batch = arg;
    for (uint64_t i = 0; i < batch->count; i++)
        batch->blocks[i] = block_get(batch->sizes[i % SIZES]);
    for (uint64_t i = 0; i < batch->count; i++)
        block_free(batch->blocks[batch->order[i]]);
}

static void order_forward(struct batch *batch)
{
    for (uint64_t i = 0; i < batch->count; i++)
        batch->order[i] = (uint32_t)i;
}

static void order_reverse(struct batch *batch)
{
    for (uint64_t i = 0; i < batch->count; i++)
        batch->order[i] = (uint32_t)(batch->count - 1 - i);
}

static void order_random(struct batch *batch)
{
    uint64_t state = 1234567;
    order_forward(batch);
    for (uint64_t i = batch->count - 1; i > 0; i--) {
        uint64_t j = random_next(&state) % (i + 1);
        uint32_t other = batch->order[j];
        batch->order[j] = batch->order[i];
        batch->order[i] = other;
    }
}

static void batch_rows(struct batch *batch, const char *what)
{
    order_forward(batch);
    row(measure_runs(batch_work, batch, batch->count), "1e4 of %s in order", what);
    order_reverse(batch);
    row(measure_runs(batch_work, batch, batch->count), "1e4 of %s in reverse", what);
    order_random(batch);
    row(measure_runs(batch_work, batch, batch->count), "1e4 of %s at random", what);
}

void batches(void)
{
    struct batch *batch = memory_map(sizeof(*batch));
    batch->count = divided(BATCH_BLOCKS);
    batch->order = memory_map(BATCH_BLOCKS * sizeof(*batch->order));
    batch->blocks = memory_map(BATCH_BLOCKS * sizeof(*batch->blocks));
    sizes_draw(batch->sizes, 256, 256);
    batch_rows(batch, "256 B");
    sizes_draw(batch->sizes, 256, MIB);
    batch_rows(batch, "256 B-1 MiB");
}

/* --- random mixes -------------------------------------------------------------------------------
 */

#define MIX_LIVE_BYTES    (16000 * MIB) /* the bound that RMM's benchmark sets */
#define MIX_ALLOC_PERCENT 73

struct mix {
    uint64_t count; /* of steps */
    uint64_t allocations;
    uint64_t *step; /* bytes to allocate, or FREE_STEP with the index of the block to free */
    void **blocks;
};

#define FREE_STEP ((uint64_t)1 << 63)

static void mix_work(void *arg)
{
    const struct mix *mix = arg;
    uint64_t live = 0;
    for (uint64_t i = 0; i < mix->count; i++) {
        uint64_t step = mix->step[i];
        if ((step & FREE_STEP) == 0) {
            mix->blocks[live++] = block_get(step);
        } else {
            uint64_t index = step & ~FREE_STEP;
            block_free(mix->blocks[index]);
            mix->blocks[index] = mix->blocks[--live];
        }
    }
}

/* The steps; at the end all that is left is freed. */
static void mix_plan(struct mix *mix, uint64_t bytes_max, uint64_t *live_bytes)
{
    uint64_t state = 20011 + bytes_max, live = 0, total = 0, made = 0;
    mix->count = 0;
    while (made < mix->allocations || live > 0) {
        uint64_t bytes = random_next(&state) % bytes_max + 1;
        bool alloc =
            random_next(&state) % 100 < MIX_ALLOC_PERCENT && total + bytes < MIX_LIVE_BYTES;
        if (made < mix->allocations && (alloc || live == 0)) {
            live_bytes[live++] = bytes;
            total += bytes;
            made++;
            mix->step[mix->count++] = bytes;
        } else {
            uint64_t index = random_next(&state) % live;
            total -= live_bytes[index];
            live_bytes[index] = live_bytes[--live];
            mix->step[mix->count++] = FREE_STEP | index;
        }
    }
}

static void mix_row(uint64_t bytes_max, uint64_t allocations, const char *count_words)
{
    struct mix mix = {.allocations = divided(allocations)};
    uint64_t bytes = mix.allocations * sizeof(uint64_t);
    uint64_t *live_bytes = memory_map(bytes);
    mix.step = memory_map(2 * bytes);
    mix.blocks = memory_map(bytes);
    mix_plan(&mix, bytes_max, live_bytes);
    row(measure_runs(mix_work, &mix, mix.allocations), "random to %s x %s", size_words(bytes_max),
        count_words);
    memory_unmap(live_bytes, bytes);
    memory_unmap(mix.step, 2 * bytes);
    memory_unmap(mix.blocks, bytes);
}

void random_mixes(void)
{
    static const uint64_t sizes[] = {1 * MIB, 16 * MIB, 256 * MIB, 4 * GIB};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        if (settings.lengthy) {
            mix_row(sizes[i], 100000, "1e5");
            continue;
        }
        mix_row(sizes[i], 1000, "1e3");
        mix_row(sizes[i], 10000, "1e4");
    }
}
