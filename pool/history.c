/* history.c - what a pool remembers of its past: when its peaks were, how much was live and held on
 * average, and the moment at which its free memory lay in the worst pieces.
 *
 * Means. Levels are looked at now and then: before the held memory changes, at a peak, and whenever
 * pool_observe() is called. Between two looks the held memory did not change, so its mean is
 * exact; live memory is taken to have gone from the one level to the other evenly, so its mean is
 * an estimate.
 *
 * The worst moment is looked for where it hurts, when the pool must grow and when it refuses:
 * the most free bytes outside the longest free run. Who is in the way then: of the segments that
 * are more than half free, what lies in them, by size. That walk is made only when a moment is
 * worse than the last by an eighth and 1 MiB, and ends after some runs.
 *
 * What it leaves out: levels in between. The clock is the backing's; without one nothing is
 * remembered. Lock: pool.lock, held by the caller.
 */
#include "pool_internal.h"

#define WORSE_BYTES ((uint64_t)1 << 20)

enum { WORSE_SHARE = 8, WALK_RUNS_MAX = 8192 };

static uint64_t now_ns(const struct pool *pool)
{
    return pool->backing.clock_ns != NULL ? pool->backing.clock_ns(pool->backing.self) : 0;
}

void history_observe(struct pool *pool)
{
    struct pool_history *history = &pool->history;
    const struct pool_stats *stats = &pool->stats;
    uint64_t now = now_ns(pool);
    if (now == 0 || pool->closed)
        return;
    uint64_t live_bytes = (int64_t)stats->live_block_bytes > 0 ? stats->live_block_bytes : 0;
    if (history->last_ns != 0 && now > history->last_ns) {
        double ns = (double)(now - history->last_ns);
        history->live_byte_ns += ns * ((double)pool->observed_live_bytes + (double)live_bytes) / 2;
        history->held_byte_ns += ns * (double)stats->backed_bytes;
    }
    history->first_ns = history->first_ns != 0 ? history->first_ns : now;
    history->last_ns = now;
    pool->observed_live_bytes = live_bytes;
}

void history_peak_live(struct pool *pool)
{
    pool->history.peak_live_ns = now_ns(pool);
}

void history_peak_backed(struct pool *pool)
{
    pool->history.peak_backed_ns = now_ns(pool);
}

/* Blocks by the power of two that their size lies above. */
struct sizes {
    uint64_t blocks[64];
    uint64_t bytes[64];
    uint64_t free_pages;
};

static void size_add(struct sizes *sizes, uint64_t blocks, uint64_t block_bytes)
{
    int doubling = 63 - __builtin_clzll(block_bytes | 1);
    sizes->blocks[doubling] += blocks;
    sizes->bytes[doubling] += blocks * block_bytes;
}

static void run_add(struct sizes *sizes, const struct run *run)
{
    if (run->kind == RUN_FREE)
        sizes->free_pages += run->pages;
    else if (run->kind == RUN_SLAB)
        size_add(sizes, run->slab->used, size_class_get((int)run->slab->class_index).slot_bytes);
    else if (run->kind == RUN_BLOCK)
        size_add(sizes, 1, run->pages * POOL_PAGE_BYTES);
}

static void sizes_join(struct sizes *sum, const struct sizes *more)
{
    for (int i = 0; i < 64; i++) {
        sum->blocks[i] += more->blocks[i];
        sum->bytes[i] += more->bytes[i];
    }
}

/* What lies in segments that are more than half free, but not idle. */
static void pins_find(const struct pool *pool, struct pool_worst *worst)
{
    struct sizes sum = {0};
    int runs = 0;
    for (const struct segment *s = pool->segments; s != NULL && runs < WALK_RUNS_MAX; s = s->next) {
        struct sizes sizes = {0};
        for (uint64_t page = 0; page < s->pages; page += s->page_run[page]->pages, runs++)
            run_add(&sizes, s->page_run[page]);
        if (2 * sizes.free_pages <= s->pages - s->gap_pages || sizes.free_pages == s->pages)
            continue;
        worst->pinned_segments++;
        sizes_join(&sum, &sizes);
    }
    int most = 0;
    for (int i = 1; i < 64; i++)
        if (sum.bytes[i] > sum.bytes[most])
            most = i;
    worst->pin_blocks = sum.blocks[most];
    worst->pin_bytes = sum.bytes[most];
    worst->pin_size_bytes = sum.bytes[most] > 0 ? (uint64_t)1 << most : 0;
}

void history_fragmented(struct pool *pool, uint64_t asked_bytes)
{
    struct pool_worst *worst = &pool->history.worst;
    uint64_t free_bytes = pool->stats.run_free_bytes, largest_bytes = buddy_largest_bytes(pool);
    uint64_t before = worst->free_bytes - worst->largest_bytes;
    if (pool->closed || now_ns(pool) == 0 ||
        free_bytes - largest_bytes < before + before / WORSE_SHARE + WORSE_BYTES)
        return;
    *worst = (struct pool_worst){.at_ns = now_ns(pool),
                                 .asked_bytes = asked_bytes,
                                 .free_bytes = free_bytes,
                                 .largest_bytes = largest_bytes};
    pins_find(pool, worst);
}
