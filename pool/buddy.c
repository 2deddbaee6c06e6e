/* buddy.c - page runs: the medium and large blocks, and the ground that slabs stand on.
 *
 * A buddy system over 512-byte pages (the driver's own step for blocks up to 1 MiB; with 64 KiB
 * pages a block of 33 KiB wasted half of its memory), with two of its rules relaxed. Kept: free
 * memory is filed by order (an order-i run has at least 2^i and fewer than 2^(i+1) pages), a run is
 * split to serve a request, and a freed run merges with free neighbours at once. Given up: a block
 * need not be an aligned power of two of pages (the power of two alone wastes 28 to 81 % on real
 * traces), and it may start at any page: requiring the aligned run costs up to 5 % of memory
 * against the smallest run that fits. So:
 *
 *   1. take the smallest free run that fits, the lowest address among equals (best fit);
 *   2. give the tail back as a free run;
 *   3. merge a freed run with whatever free run lies beside it.
 *
 * Within an order the runs are a treap sorted by pages, then address; its priorities are hashes of
 * the address, so the shape depends on the content alone. A request looks in its own order's tree,
 * else takes the first run of the next order that has one.
 *
 * Bound: at most one free run between two blocks; waste inside a block is under one page.
 * What it leaves out: slots, segments' coming and going. Lock: pool.lock, held by the caller.
 */
#include "pool_internal.h"

enum { BITS_PER_WORD = 64, SEARCH_MAX = 64 };

static int order_of(uint64_t pages)
{
    int order = BITS_PER_WORD - 1 - __builtin_clzll(pages);
    return order < POOL_STATS_ORDERS ? order : POOL_STATS_ORDERS - 1;
}

static bool run_before(const struct run *a, const struct run *b)
{
    return a->pages != b->pages ? a->pages < b->pages : run_address(a) < run_address(b);
}

/* --- the treap of one order ------------------------------------------------------------------ */

static uint64_t priority_of(uint64_t address)
{
    uint64_t hash = address * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

/* Splits a tree into runs before `key` and the rest. */
static void tree_split(struct run *tree, const struct run *key, struct run **low, struct run **high)
{
    while (tree != NULL) {
        if (run_before(tree, key)) {
            *low = tree;
            low = &tree->right;
            tree = tree->right;
        } else {
            *high = tree;
            high = &tree->left;
            tree = tree->left;
        }
    }
    *low = NULL;
    *high = NULL;
}

static void tree_insert(struct run **link, struct run *run)
{
    while (*link != NULL && (*link)->priority >= run->priority)
        link = run_before(run, *link) ? &(*link)->left : &(*link)->right;
    tree_split(*link, run, &run->left, &run->right);
    *link = run;
}

/* Joins two trees, all of `low` before all of `high`. */
static struct run *tree_join(struct run *low, struct run *high)
{
    struct run *root = NULL;
    struct run **link = &root;
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *link = low;
            link = &low->right;
            low = low->right;
        } else {
            *link = high;
            link = &high->left;
            high = high->left;
        }
    }
    *link = low != NULL ? low : high;
    return root;
}

static void tree_remove(struct run **link, struct run *run)
{
    while (*link != run)
        link = run_before(run, *link) ? &(*link)->left : &(*link)->right;
    *link = tree_join(run->left, run->right);
}

/* The first run of at least `pages`. */
static struct run *tree_fit(struct run *tree, uint64_t pages)
{
    struct run *best = NULL;
    while (tree != NULL) {
        if (tree->pages >= pages) {
            best = tree;
            tree = tree->left;
        } else {
            tree = tree->right;
        }
    }
    return best;
}

/* --- the index ---------------------------------------------------------------------------------
 */

static void index_add(struct pool *pool, struct run *run)
{
    enum domain domain = run->segment->domain;
    int order = order_of(run->pages);
    run->kind = RUN_FREE;
    run->priority = priority_of(run_address(run));
    tree_insert(&pool->index.tree[domain][order], run);
    pool->index.filled[domain] |= (uint64_t)1 << order;
    pool->stats.free_runs++;
    pool->stats.run_free_bytes += run->pages * POOL_PAGE_BYTES;
    if (run->pages == run->segment->pages)
        arena_idle_add(pool, run->segment);
}

static void index_remove(struct pool *pool, struct run *run)
{
    enum domain domain = run->segment->domain;
    int order = order_of(run->pages);
    tree_remove(&pool->index.tree[domain][order], run);
    if (pool->index.tree[domain][order] == NULL)
        pool->index.filled[domain] &= ~((uint64_t)1 << order);
    pool->stats.free_runs--;
    pool->stats.run_free_bytes -= run->pages * POOL_PAGE_BYTES;
    if (run->pages == run->segment->pages)
        arena_idle_remove(pool, run->segment);
}

static struct run *index_fit(const struct pool *pool, enum domain domain, uint64_t pages)
{
    int order = order_of(pages);
    struct run *run = tree_fit(pool->index.tree[domain][order], pages);
    if (run != NULL || order + 1 >= POOL_STATS_ORDERS)
        return run;
    uint64_t above = pool->index.filled[domain] >> (order + 1);
    if (above == 0)
        return NULL;
    order += 1 + __builtin_ctzll(above);
    return tree_fit(pool->index.tree[domain][order], pages);
}

/* --- boundary tags ------------------------------------------------------------------------------
 */

static void start_mark(struct segment *segment, uint64_t page)
{
    uint64_t word = page / BITS_PER_WORD;
    segment->run_starts[word] |= (uint64_t)1 << (page % BITS_PER_WORD);
    segment->start_words[word / BITS_PER_WORD] |= (uint64_t)1 << (word % BITS_PER_WORD);
}

static void start_clear(struct segment *segment, uint64_t page)
{
    uint64_t word = page / BITS_PER_WORD;
    segment->run_starts[word] &= ~((uint64_t)1 << (page % BITS_PER_WORD));
    if (segment->run_starts[word] == 0)
        segment->start_words[word / BITS_PER_WORD] &= ~((uint64_t)1 << (word % BITS_PER_WORD));
}

static void tags_write(struct run *run)
{
    run->segment->page_run[run->first_page] = run;
    run->segment->page_run[run->first_page + run->pages - 1] = run;
    start_mark(run->segment, run->first_page);
}

static struct run *run_make(struct pool *pool, struct segment *segment, uint64_t first_page,
                            uint64_t pages)
{
    struct run *run = metadata_take_as_left(&pool->run_records, sizeof(*run));
    if (run == NULL)
        return NULL;
    run->kind = RUN_FREE; /* run->block is free: cache.c may look at it */
    run->slab = NULL;
    run->segment = segment;
    run->first_page = first_page;
    run->pages = pages;
    return run;
}

static void run_drop(struct pool *pool, struct run *run)
{
    metadata_give(&pool->run_records, run, sizeof(*run));
}

static uint64_t highest_bit(uint64_t word)
{
    return 63 - (uint64_t)__builtin_clzll(word);
}

/* The bits of a word at `bit` and below. */
static uint64_t bits_to(uint64_t word, uint64_t bit)
{
    return word & (UINT64_MAX >> (63 - bit));
}

/* The last word with a start before `word`; there is one, since a run starts at page 0. */
static uint64_t start_word_before(const struct segment *segment, uint64_t word)
{
    uint64_t group = (word - 1) / BITS_PER_WORD;
    uint64_t bits = bits_to(segment->start_words[group], (word - 1) % BITS_PER_WORD);
    while (bits == 0)
        bits = segment->start_words[--group];
    return group * BITS_PER_WORD + highest_bit(bits);
}

struct run *buddy_run_at(const struct segment *segment, uint64_t page)
{
    uint64_t word = page / BITS_PER_WORD;
    uint64_t bits = bits_to(segment->run_starts[word], page % BITS_PER_WORD);
    if (bits == 0) {
        word = start_word_before(segment, word);
        bits = segment->run_starts[word];
    }
    return segment->page_run[word * BITS_PER_WORD + highest_bit(bits)];
}

/* --- taking and giving
 * ----------------------------------------------------------------------------- */

struct run *buddy_split(struct pool *pool, struct run *run, uint64_t pages)
{
    struct run *tail = run_make(pool, run->segment, run->first_page + pages, run->pages - pages);
    if (tail == NULL)
        return NULL;
    tail->kind = RUN_BLOCK;
    run->pages = pages;
    tags_write(run);
    tags_write(tail);
    return tail;
}

/* Cuts a run that is in no index to `pages`; the tail becomes a free run. False: no host memory. */
static bool run_cut(struct pool *pool, struct run *run, uint64_t pages)
{
    if (run->pages == pages)
        return true;
    struct run *tail = buddy_split(pool, run, pages);
    if (tail != NULL)
        index_add(pool, tail);
    return tail != NULL;
}

struct run *buddy_take(struct pool *pool, enum domain domain, uint64_t pages, uint64_t pages_max)
{
    return buddy_take_from(pool, domain, pages, pages, pages_max);
}

struct run *buddy_take_from(struct pool *pool, enum domain domain, uint64_t pages,
                            uint64_t hole_min, uint64_t hole_max)
{
    struct run *run = index_fit(pool, domain, hole_min);
    if (run == NULL || run->pages > hole_max)
        return NULL;
    index_remove(pool, run);
    if (!run_cut(pool, run, pages)) {
        index_add(pool, run);
        return NULL;
    }
    run->kind = RUN_BLOCK;
    return run;
}

/* Joins `next`, which lies right behind `run`, to it. Both are in no index. */
static void run_absorb(struct pool *pool, struct run *run, struct run *next)
{
    start_clear(run->segment, next->first_page);
    run->pages += next->pages;
    run_drop(pool, next);
}

void buddy_give(struct pool *pool, struct run *run)
{
    struct segment *segment = run->segment;
    uint64_t end = run->first_page + run->pages;
    struct run *next = end < segment->pages ? segment->page_run[end] : NULL;
    struct run *previous = run->first_page > 0 ? segment->page_run[run->first_page - 1] : NULL;
    if (!pool_holds(pool, run->kind != RUN_FREE && end <= segment->pages, "a run is freed once") ||
        !pool_holds(
            pool,
            (next == NULL || next->first_page == end) &&
                (previous == NULL || previous->first_page + previous->pages == run->first_page),
            "a run's neighbours begin and end beside it"))
        return;
    if (next != NULL && next->kind == RUN_FREE) {
        index_remove(pool, next);
        run_absorb(pool, run, next);
    }
    if (previous != NULL && previous->kind == RUN_FREE) {
        index_remove(pool, previous);
        run_absorb(pool, previous, run);
        run = previous;
    }
    tags_write(run);
    index_add(pool, run);
}

struct run *buddy_carve(struct pool *pool, struct run *run, uint64_t first_page, uint64_t pages)
{
    struct run *middle = run;
    index_remove(pool, run);
    if (first_page > run->first_page) {
        middle = buddy_split(pool, run, first_page - run->first_page);
        index_add(pool, run);
        if (middle == NULL)
            return NULL;
    }
    middle->kind = RUN_BLOCK;
    if (!run_cut(pool, middle, pages)) {
        buddy_give(pool, middle);
        return NULL;
    }
    return middle;
}

/* Visits a tree from its last run on. */
static struct run *tree_search(struct run *run, uint64_t pages, bool (*stop)(const struct run *run),
                               int *looks)
{
    while (run != NULL && *looks > 0) {
        struct run *found = tree_search(run->right, pages, stop, looks);
        if (found != NULL)
            return found;
        if (run->pages < pages || (*looks)-- <= 0)
            return NULL;
        if (stop(run))
            return run;
        run = run->left;
    }
    return NULL;
}

struct run *buddy_search(struct pool *pool, enum domain domain, uint64_t pages,
                         bool (*stop)(const struct run *run))
{
    int looks = SEARCH_MAX;
    struct run *found = NULL;
    for (int order = POOL_STATS_ORDERS - 1; order >= order_of(pages) && found == NULL; order--)
        found = tree_search(pool->index.tree[domain][order], pages, stop, &looks);
    return found;
}

void buddy_gap_merge(struct pool *pool, struct run *gap)
{
    struct segment *segment = gap->segment;
    uint64_t end = gap->first_page + gap->pages;
    struct run *next = end < segment->pages ? segment->page_run[end] : NULL;
    struct run *previous = gap->first_page > 0 ? segment->page_run[gap->first_page - 1] : NULL;
    if (next != NULL && next->kind == RUN_GAP)
        run_absorb(pool, gap, next);
    if (previous != NULL && previous->kind == RUN_GAP) {
        run_absorb(pool, previous, gap);
        gap = previous;
    }
    tags_write(gap);
}

/* --- segments
 * ------------------------------------------------------------------------------------------ */

bool buddy_segment_add(struct pool *pool, struct segment *segment)
{
    struct run *run = run_make(pool, segment, 0, segment->pages);
    if (run == NULL)
        return false;
    tags_write(run);
    index_add(pool, run);
    return true;
}

struct run *buddy_segment_idle(const struct segment *segment)
{
    struct run *run = segment->page_run[0];
    return run->kind == RUN_FREE && run->pages == segment->pages ? run : NULL;
}

bool buddy_segment_alone(const struct segment *segment, const struct run *run)
{
    if (run->first_page != 0)
        return false;
    if (run->pages == segment->pages)
        return true;
    const struct run *rest = segment->page_run[run->pages];
    return rest->kind == RUN_FREE && rest->pages == segment->pages - run->pages;
}

void buddy_segment_detach(struct pool *pool, struct segment *segment)
{
    index_remove(pool, segment->page_run[0]);
}

void buddy_segment_attach(struct pool *pool, struct segment *segment)
{
    index_add(pool, segment->page_run[0]);
}

void buddy_segment_end(struct pool *pool, struct segment *segment)
{
    run_drop(pool, segment->page_run[0]);
}

/* --- figures
 * --------------------------------------------------------------------------------------------- */

uint64_t buddy_longest(const struct pool *pool, enum domain domain)
{
    uint64_t filled = pool->index.filled[domain];
    if (filled == 0)
        return 0;
    const struct run *run = pool->index.tree[domain][63 - __builtin_clzll(filled)];
    while (run->right != NULL)
        run = run->right;
    return run->pages;
}

uint64_t buddy_largest_bytes(const struct pool *pool)
{
    uint64_t shared = buddy_longest(pool, DOMAIN_SHARED);
    uint64_t large = buddy_longest(pool, DOMAIN_LARGE);
    return (shared > large ? shared : large) * POOL_PAGE_BYTES;
}

/* Adds a tree's runs. The tree is walked with its own depth of stack, logarithmic in the runs. */
static void tree_count(const struct run *run, uint64_t *runs, uint64_t *bytes)
{
    for (; run != NULL; run = run->right) {
        tree_count(run->left, runs, bytes);
        *runs += 1;
        *bytes += run->pages * POOL_PAGE_BYTES;
    }
}

void buddy_count(const struct pool *pool, struct pool_stats *stats)
{
    for (int order = 0; order < POOL_STATS_ORDERS; order++) {
        stats->free_runs_by_order[order] = 0;
        stats->free_bytes_by_order[order] = 0;
        for (int domain = 0; domain < DOMAIN_COUNT; domain++)
            tree_count(pool->index.tree[domain][order], &stats->free_runs_by_order[order],
                       &stats->free_bytes_by_order[order]);
    }
}

static void tree_visit(const struct run *run, void (*visit)(void *arg, const struct run *run),
                       void *arg)
{
    for (; run != NULL; run = run->right) {
        tree_visit(run->left, visit, arg);
        visit(arg, run);
    }
}

void buddy_visit_free(const struct pool *pool, void (*visit)(void *arg, const struct run *run),
                      void *arg)
{
    for (int domain = 0; domain < DOMAIN_COUNT; domain++)
        for (int order = 0; order < POOL_STATS_ORDERS; order++)
            tree_visit(pool->index.tree[domain][order], visit, arg);
}
