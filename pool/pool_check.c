/* pool_check.c - walks a whole pool and proves its invariants: for tests and debug builds.
 *
 * Every segment is covered by runs without a gap; boundary tags and start bits agree with them; no
 * two free runs touch; every free run is in the right tree, in order; every slab's bitmap agrees
 * with its blocks; limbo's records agree with the blocks they stand for; what threads keep is what
 * is marked so; and the sums of all that are the statistics. What threads did is counted first, but
 * what they keep stays with them.
 *
 * Lock: pool.lock, taken here.
 */
#include "pool_internal.h"

#include <stdio.h>
#include <string.h>

struct check {
    struct pool *pool;
    char *why;
    size_t why_bytes;
    bool ok;
    struct pool_stats sum;
    uint64_t tree_runs;
    uint64_t gap_pages;      /* of the segment */
    uint64_t pending_blocks; /* in state PENDING */
    uint64_t cached_blocks;  /* in state CACHED */
    uint64_t cached_bytes;
};

static bool rule(struct check *check, bool holds, const char *words)
{
    if (!holds && check->ok) {
        check->ok = false;
        snprintf(check->why, check->why_bytes, "%s", words);
    }
    return holds;
}

static void block_check(struct check *check, const struct pool_block *block)
{
    if (block->state == POOL_BLOCK_CACHED) {
        check->cached_blocks++;
        check->cached_bytes += block->block_bytes;
        return;
    }
    rule(check, block->requested_bytes >= 1 && block->requested_bytes <= block->block_bytes,
         "a block is at least as large as what was asked for");
    rule(check, block->address % POOL_MIN_BLOCK_BYTES == 0, "a block is aligned to 512 bytes");
    rule(check, block->serial != 0, "a block has a serial number");
    if (block->state == POOL_BLOCK_LIVE) {
        check->sum.live_blocks++;
        check->sum.live_requested_bytes += block->requested_bytes;
        check->sum.live_block_bytes += block->block_bytes;
        check->sum.driver_live_bytes += block->block_bytes + driver_extra_bytes(block->block_bytes);
    } else {
        check->sum.limbo_blocks++;
        check->sum.limbo_bytes += block->block_bytes;
        check->pending_blocks += block->state == POOL_BLOCK_PENDING;
    }
}

static void slab_check(struct check *check, struct run *run)
{
    struct slab *slab = run->slab;
    struct size_class size = size_class_get((int)slab->class_index);
    struct pool_class_stats *sums = &check->sum.classes[slab->class_index];
    uint32_t used = 0;
    rule(check, slab->run == run, "a slab knows its run");
    rule(check, run->pages == size.slab_pages, "a slab has the pages of its class");
    for (uint32_t slot = 0; slot < size.slots; slot++) {
        struct pool_block block;
        bool marked_free = (slab->free_slots[slot / 64] >> (slot % 64) & 1) != 0;
        pool_block_describe(run, slot, &block);
        rule(check, marked_free == (block.state == POOL_BLOCK_FREE),
             "a slot is marked free exactly when its block is free");
        if (block.state == POOL_BLOCK_FREE)
            continue;
        used++;
        block_check(check, &block);
        sums->slots_live += block.state == POOL_BLOCK_LIVE;
        sums->slots_limbo +=
            block.state == POOL_BLOCK_RELEASING || block.state == POOL_BLOCK_PENDING;
        sums->requested_bytes += block.state == POOL_BLOCK_LIVE ? block.requested_bytes : 0;
    }
    sums->slabs++;
    sums->slots_total += size.slots;
    check->sum.slab_bytes += run->pages * POOL_PAGE_BYTES;
    check->sum.slab_free_bytes += run->pages * POOL_PAGE_BYTES - used * (uint64_t)size.slot_bytes;
    rule(check, slab->used == used, "a slab counts its used slots");
    rule(check, slab->listed == (used > 0 && used < size.slots),
         "a slab is listed exactly when it has free and used slots");
}

static void run_check(struct check *check, const struct segment *segment, struct run *run)
{
    uint64_t end = run->first_page + run->pages;
    rule(check, segment->page_run[end - 1] == run, "the last page of a run points to it");
    rule(check, buddy_run_at(segment, end - 1) == run, "start bits lead to the run");
    rule(check,
         run->kind == RUN_GAP || run->kind == RUN_LEAVING ||
             (page_map_get(run_address(run)) == segment &&
              page_map_get(segment->address + end * POOL_PAGE_BYTES - 1) == segment),
         "the map leads to the segment");
    if (run->kind == RUN_FREE) {
        check->sum.free_runs++;
        check->sum.run_free_bytes += run->pages * POOL_PAGE_BYTES;
        if (run->pages == segment->pages)
            check->sum.idle_segment_bytes += segment->bytes;
        rule(check, end == segment->pages || segment->page_run[end]->kind != RUN_FREE,
             "no two free runs touch");
    } else if (run->kind == RUN_SLAB) {
        slab_check(check, run);
    } else if (run->kind == RUN_GAP || run->kind == RUN_LEAVING) {
        rule(check, page_map_get(run_address(run)) == NULL, "the map does not know a gap");
        rule(check,
             segment->part_pages > 0 && run->first_page % segment->part_pages == 0 &&
                 (end == segment->pages || end % segment->part_pages == 0),
             "a gap is whole parts");
        check->gap_pages += run->pages;
    } else {
        struct pool_block block;
        pool_block_describe(run, POOL_SLOT_NONE, &block);
        rule(check, block.state != POOL_BLOCK_FREE, "a run in use has a block");
        block_check(check, &block);
    }
}

static void segment_check(struct check *check, const struct segment *segment)
{
    uint64_t page = 0, runs = 0, starts = 0;
    rule(check, segment->bytes == segment->pages * POOL_PAGE_BYTES, "a segment is whole pages");
    check->gap_pages = 0;
    while (check->ok && page < segment->pages) {
        struct run *run = segment->page_run[page];
        if (!rule(check,
                  run != NULL && run->segment == segment && run->first_page == page &&
                      run->pages > 0 && run->pages <= segment->pages - page,
                  "runs cover a segment without a gap"))
            return;
        run_check(check, segment, run);
        page += run->pages;
        runs++;
    }
    for (uint64_t group = 0; group < (segment->pages + 4095) / 4096; group++) {
        uint64_t bits = segment->start_words[group];
        for (; bits != 0; bits &= bits - 1) {
            uint64_t word = segment->run_starts[group * 64 + (uint64_t)__builtin_ctzll(bits)];
            rule(check, word != 0, "a word of start bits that is marked has some");
            starts += (uint64_t)__builtin_popcountll(word);
        }
    }
    rule(check, starts == runs, "as many start bits under marked words as runs");
    rule(check, check->gap_pages == segment->gap_pages, "a segment counts its gaps");
    check->sum.segments++;
    check->sum.backed_bytes += segment->bytes - check->gap_pages * POOL_PAGE_BYTES;
}

static void tree_check(struct check *check, const struct run *run, int domain, int order,
                       const struct run **before)
{
    if (run == NULL || !check->ok)
        return;
    tree_check(check, run->left, domain, order, before);
    const struct run *low = *before;
    rule(check, run->kind == RUN_FREE, "a run in the index is free");
    rule(check, (int)run->segment->domain == domain, "a run is filed in its domain");
    rule(check, run->pages >> order == 1, "a run is filed under its order");
    rule(check,
         low == NULL || low->pages < run->pages ||
             (low->pages == run->pages && run_address(low) < run_address(run)),
         "an order is sorted by pages, then address");
    rule(check,
         (run->left == NULL || run->left->priority <= run->priority) &&
             (run->right == NULL || run->right->priority <= run->priority),
         "a tree is a heap of priorities");
    check->tree_runs++;
    *before = run;
    tree_check(check, run->right, domain, order, before);
}

static void index_check(struct check *check)
{
    for (int domain = 0; domain < DOMAIN_COUNT; domain++) {
        for (int order = 0; order < POOL_STATS_ORDERS; order++) {
            const struct run *before = NULL;
            const struct run *tree = check->pool->index.tree[domain][order];
            tree_check(check, tree, domain, order, &before);
            rule(check, (tree != NULL) == (check->pool->index.filled[domain] >> order & 1),
                 "the bitmap of orders agrees with the trees");
        }
    }
    rule(check, check->tree_runs == check->sum.free_runs, "every free run is in the index");
}

static void limbo_check(struct check *check)
{
    uint64_t count = 0;
    for (struct limbo_stream *s = check->pool->limbo.all; s != NULL; s = s->all) {
        uint64_t filed = 0;
        for (struct pending *p = s->oldest; p != NULL; p = p->next) {
            struct pool_block block;
            filed++;
            rule(check, p->next != NULL || s->newest == p, "a stream knows its newest block");
            if (p->detached) /* its block is somebody's again, or gone */
                continue;
            count++;
            pool_block_describe(p->block.record, p->block.slot, &block);
            rule(check, block.state == POOL_BLOCK_PENDING, "a block in limbo is pending");
            rule(check, block.address == p->block.address && block.serial == p->block.serial,
                 "a block in limbo is still the block that was freed");
        }
        rule(check, filed == s->blocks, "a stream counts its blocks");
    }
    rule(check, count == check->pending_blocks, "every pending block is in limbo");
}

/* What threads keep is what is marked so. */
static void caches_agree(struct check *check)
{
    uint64_t blocks, bytes;
    rule(check, caches_check(check->pool, &blocks, &bytes), "a thread keeps cached blocks alone");
    rule(check, blocks == check->cached_blocks && bytes == check->cached_bytes,
         "every cached block is kept by one thread");
    rule(check, blocks == 0 || check->pool->caching, "nothing is kept where nothing should be");
}

/* The idle segments are listed, and no others. */
static void idle_check(struct check *check)
{
    const struct segment *before = NULL;
    uint64_t bytes = 0;
    for (const struct segment *s = check->pool->idle_oldest; s != NULL; s = s->idle_next) {
        rule(check, buddy_segment_idle(s) != NULL, "a segment listed as idle is idle");
        rule(check, s->idle_previous == before, "the list of idle segments leads back");
        bytes += s->bytes;
        before = s;
    }
    rule(check, check->pool->idle_newest == before, "the newest idle segment is the last");
    rule(check, bytes == check->pool->stats.idle_segment_bytes, "every idle segment is listed");
}

static void sums_check(struct check *check)
{
    const struct pool_stats *stats = &check->pool->stats;
    const struct pool_stats *sum = &check->sum;
#define EQUAL(field)                                                                               \
    rule(check, stats->field == sum->field, "the sum of " #field " is the statistic")
    EQUAL(live_blocks);
    EQUAL(live_requested_bytes);
    EQUAL(live_block_bytes);
    EQUAL(driver_live_bytes);
    EQUAL(limbo_blocks);
    EQUAL(limbo_bytes);
    EQUAL(slab_bytes);
    EQUAL(slab_free_bytes);
    EQUAL(free_runs);
    EQUAL(run_free_bytes);
    EQUAL(idle_segment_bytes);
    EQUAL(segments);
    EQUAL(backed_bytes);
    for (int i = 0; i < SIZE_CLASS_COUNT; i++) {
        EQUAL(classes[i].slabs);
        EQUAL(classes[i].slots_total);
        EQUAL(classes[i].slots_live);
        EQUAL(classes[i].slots_limbo);
        EQUAL(classes[i].requested_bytes);
    }
#undef EQUAL
    rule(check,
         stats->internal_waste_bytes == stats->live_block_bytes - stats->live_requested_bytes,
         "internal waste is what blocks have beyond what was asked for");
    rule(check,
         stats->live_requested_bytes + stats->internal_waste_bytes + stats->limbo_bytes +
                 stats->slab_free_bytes + stats->run_free_bytes + check->cached_bytes ==
             stats->backed_bytes,
         "requested + waste + limbo + free = backed");
    rule(check,
         stats->allocations ==
             stats->frees + stats->live_blocks + (stats->limbo_blocks - check->pending_blocks),
         "allocations = frees + live + releasing");
    rule(check,
         stats->live_blocks <= stats->peak_live_blocks &&
             stats->live_requested_bytes <= stats->peak_live_requested_bytes &&
             stats->live_block_bytes <= stats->peak_live_block_bytes &&
             stats->driver_live_bytes <= stats->peak_driver_live_bytes &&
             stats->limbo_bytes <= stats->peak_limbo_bytes &&
             stats->backed_bytes <= stats->peak_backed_bytes,
         "no level is above its peak");
#define TOGETHER(level)                                                                            \
    rule(check, check->pool->together == NULL || check->pool->told.level == stats->level,          \
         "pools that are together know each other's " #level);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
}

bool pool_check(struct pool *pool, char *why, size_t why_bytes)
{
    struct check check = {.pool = pool, .why = why, .why_bytes = why_bytes, .ok = true};
    lock_take(&pool->lock);
    if (pool->broken != NULL)
        rule(&check, false, pool->broken);
    if (!pool->closed) {
        caches_stop(pool);
        caches_fold(pool);
        idle_check(&check);
        for (struct segment *s = pool->segments; s != NULL && check.ok; s = s->next)
            segment_check(&check, s);
        if (check.ok)
            index_check(&check);
        if (check.ok)
            limbo_check(&check);
        if (check.ok)
            caches_agree(&check);
        if (check.ok)
            sums_check(&check);
        caches_resume(pool);
    }
    lock_give(&pool->lock);
    return check.ok;
}
