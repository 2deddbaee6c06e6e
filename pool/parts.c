/* parts.c - memory that goes back in parts, where the backing can do that.
 *
 * A segment then is a range of addresses under which memory lies in parts. A whole part of a free
 * run can be given back while blocks beside it live on: it becomes a gap, addresses without memory,
 * which the page map does not know. The memory can be had again under other addresses, so free
 * memory that is scattered over many segments serves a block that needs it in one piece.
 *
 * Which parts: of the segments that have been idle for longest, then of the longest free runs,
 * those of the large blocks first; from the end of the run. Their size: 8 MiB, or a thirty-second
 * of a larger block's segment, for a part costs the driver 40 to 60 us, whatever its size.
 * (Recorded GPT and ResNet training, three passes: held 1.011 and 1.002 of what the driver would,
 * 11 and 16 % of its time in the first pass; with eighths, 32 MiB at least, 1.034 and 1.008, 6 and
 * 10 %.) When memory is scarce a segment is one block's or of 2 MiB, and has one part.
 *
 * What it leaves out: when to do it (arena.c, pool.c). Lock: pool.lock, not held across the
 * backing.
 */
#include "pool_internal.h"

#define PART_MIN_BYTES BACKING_SEGMENT_ALIGN_BYTES
#define PART_BYTES     ((uint64_t)8 << 20)

enum { PARTS_OF_LARGE = 32 };

uint64_t parts_bytes_for(const struct pool *pool, uint64_t bytes, bool scarce)
{
    if (pool->backing.acquire_parts == NULL)
        return 0;
    if (scarce)
        return bytes;
    uint64_t part_bytes = pool_round_up(bytes / PARTS_OF_LARGE, BACKING_SEGMENT_ALIGN_BYTES);
    return part_bytes > PART_BYTES ? part_bytes : PART_BYTES;
}

/* Pages of a segment, up to the end of which a part reaches. */
static uint64_t part_end(const struct segment *segment, uint64_t page)
{
    return page == segment->pages ? page : page / segment->part_pages * segment->part_pages;
}

static bool parts_inside(const struct run *run, uint64_t *first_out, uint64_t *end_out)
{
    const struct segment *segment = run->segment;
    if (segment->part_pages == 0)
        return false;
    *first_out = pool_round_up(run->first_page, segment->part_pages);
    *end_out = part_end(segment, run->first_page + run->pages);
    return *first_out < *end_out;
}

static bool has_part(const struct run *run)
{
    uint64_t first, end;
    return parts_inside(run, &first, &end);
}

static struct run *victim_find(struct pool *pool)
{
    uint64_t pages = PART_MIN_BYTES / POOL_PAGE_BYTES;
    if (pool->idle_oldest != NULL)
        return pool->idle_oldest->page_run[0];
    struct run *run = buddy_search(pool, DOMAIN_LARGE, pages, has_part);
    return run != NULL ? run : buddy_search(pool, DOMAIN_SHARED, pages, has_part);
}

/* Takes the last parts of a free run, want_bytes if it has them, away from everybody. */
static struct run *gap_make(struct pool *pool, struct run *run, uint64_t want_bytes)
{
    struct segment *segment = run->segment;
    uint64_t want_pages = (want_bytes + POOL_PAGE_BYTES - 1) / POOL_PAGE_BYTES;
    uint64_t first, end;
    if (!parts_inside(run, &first, &end))
        return NULL;
    if (want_pages < end - first)
        first = (end - want_pages) / segment->part_pages * segment->part_pages;
    struct run *gap = buddy_carve(pool, run, first, end - first);
    if (gap == NULL)
        return NULL;
    gap->block = (struct block_info){0};
    uint64_t bytes = gap->pages * POOL_PAGE_BYTES;
    page_map_set(run_address(gap), bytes, NULL);
    gap->kind = RUN_LEAVING;
    segment->gap_pages += gap->pages;
    history_observe(pool);
    pool->stats.backed_bytes -= bytes;
    levels_changed(pool);
    pool->releasing_bytes += bytes;
    pool->releases++;
    pool->unlocked++;
    return gap;
}

/* All of the segment's memory is gone. The lock is held on entry and on return, not in between. */
static void segment_retire(struct pool *pool, struct segment *segment)
{
    uint64_t address = segment->address, bytes = segment->bytes;
    buddy_segment_end(pool, segment);
    arena_segment_unlist(pool, segment);
    arena_segment_drop(pool, segment);
    pool->stats.segments--;
    lock_give(&pool->lock);
    pool->backing.retire(pool->backing.self, address, bytes);
    lock_take(&pool->lock);
}

/* The backing answered. */
static void gap_settle(struct pool *pool, struct run *gap, uint64_t pages, bool released)
{
    struct segment *segment = gap->segment;
    uint64_t bytes = pages * POOL_PAGE_BYTES;
    pool->releasing_bytes -= bytes;
    pool->releases--;
    if (released) {
        pool->stats.segment_releases++;
        gap->kind = RUN_GAP;
        segment->lost_pages += pages;
        buddy_gap_merge(pool, gap);
        if (segment->lost_pages == segment->pages)
            segment_retire(pool, segment);
    } else {
        pool->stats.segment_release_failures++;
        history_observe(pool);
        pool->stats.backed_bytes += bytes;
        levels_changed(pool);
        segment->gap_pages -= pages;
        page_map_set(run_address(gap), bytes, segment);
        gap->kind = RUN_BLOCK;
        buddy_give(pool, gap);
    }
    pool_settled_tell(pool);
}

uint64_t parts_release(struct pool *pool, uint64_t want_bytes)
{
    uint64_t released = 0;
    while (released < want_bytes && pool_may_release(pool)) {
        struct run *run = victim_find(pool);
        struct run *gap = run != NULL ? gap_make(pool, run, want_bytes - released) : NULL;
        if (gap == NULL)
            break;
        uint64_t address = run_address(gap), pages = gap->pages, bytes = pages * POOL_PAGE_BYTES;
        uint64_t part_bytes = gap->segment->part_pages * POOL_PAGE_BYTES;
        lock_give(&pool->lock);
        enum backing_status status =
            pool->backing.release_parts(pool->backing.self, address, bytes, part_bytes);
        lock_take(&pool->lock);
        gap_settle(pool, gap, pages, status == BACKING_OK);
        if (status != BACKING_OK)
            break;
        released += bytes;
    }
    return released;
}

static void releasable_add(void *arg, const struct run *run)
{
    uint64_t first, end;
    if (parts_inside(run, &first, &end))
        *(uint64_t *)arg += (end - first) * POOL_PAGE_BYTES;
}

uint64_t parts_releasable_bytes(const struct pool *pool)
{
    uint64_t bytes = 0;
    buddy_visit_free(pool, releasable_add, &bytes);
    return bytes;
}

static bool run_backed(const struct run *run)
{
    return run->kind != RUN_GAP && run->kind != RUN_LEAVING;
}

/* Where the runs that are backed, or are not, end from `page` on. */
static uint64_t stretch_end(const struct segment *segment, uint64_t page, bool backed)
{
    while (page < segment->pages && run_backed(segment->page_run[page]) == backed)
        page += segment->page_run[page]->pages;
    return page;
}

bool parts_range_next(const struct segment *segment, uint64_t *page, struct backed_range *range_out)
{
    uint64_t first = stretch_end(segment, *page, false);
    *page = stretch_end(segment, first, true);
    *range_out = (struct backed_range){.address = segment->address + first * POOL_PAGE_BYTES,
                                       .bytes = (*page - first) * POOL_PAGE_BYTES};
    return range_out->bytes > 0;
}

void parts_release_segment(struct pool *pool, struct segment *segment)
{
    const struct backing *backing = &pool->backing;
    uint64_t page = 0, part_bytes = segment->part_pages * POOL_PAGE_BYTES;
    struct backed_range range;
    while (parts_range_next(segment, &page, &range))
        backing->release_parts(backing->self, range.address, range.bytes, part_bytes);
    backing->retire(backing->self, segment->address, segment->bytes);
}
