/* plain_buddy.c - the textbook buddy system that others compare with. See run.h.
 *
 * The arena is a complete binary tree; a node knows the order of the longest free block below it. A
 * request descends to the lowest free place. Source: Knowlton, "A Fast Storage Allocator" (CACM
 * 1965).
 *
 * What it leaves out: everything that makes a buddy system bearable. Lock: none.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFT_MIN = 9, DEPTH_MAX = 40 };

struct tree {
    int8_t *longest; /* by node, the root is 1: log2 of the bytes; -1: none */
    int shift;       /* of the whole arena */
    int leaf_shift;
};

static int shift_of(uint64_t bytes)
{
    int shift = bytes <= 1 ? 0 : 64 - __builtin_clzll(bytes - 1);
    return shift < SHIFT_MIN ? SHIFT_MIN : shift;
}

static void fill(struct tree *tree)
{
    int depth = tree->shift - tree->leaf_shift;
    for (int level = 0; level <= depth; level++)
        memset(tree->longest + ((size_t)1 << level), tree->shift - level, (size_t)1 << level);
}

/* The first byte of the lowest free block of 2^shift bytes; UINT64_MAX: none. */
static uint64_t take(struct tree *tree, int shift)
{
    size_t node = 1;
    int at = tree->shift;
    uint64_t address = 0;
    if (tree->longest[1] < shift)
        return UINT64_MAX;
    while (at > shift) {
        at--;
        node *= 2;
        if (tree->longest[node] < shift) {
            node++;
            address += (uint64_t)1 << at;
        }
    }
    tree->longest[node] = -1;
    for (node /= 2; node > 0; node /= 2) {
        int8_t low = tree->longest[2 * node], high = tree->longest[2 * node + 1];
        tree->longest[node] = low > high ? low : high;
    }
    return address;
}

static void give(struct tree *tree, uint64_t address, int shift)
{
    size_t node = ((size_t)1 << (tree->shift - shift)) + (size_t)(address >> shift);
    tree->longest[node] = (int8_t)shift;
    for (node /= 2; node > 0; node /= 2) {
        shift++;
        int8_t low = tree->longest[2 * node], high = tree->longest[2 * node + 1];
        bool whole = low == shift - 1 && high == shift - 1;
        tree->longest[node] = whole ? (int8_t)shift : low > high ? low : high;
    }
}

/* The longest free block below a node that ends within the first `extent` bytes, if it is longer
 * than `best`. */
static uint64_t longest_within(const struct tree *tree, size_t node, int shift, uint64_t address,
                               uint64_t extent, uint64_t best)
{
    int8_t longest = tree->longest[node];
    if (address >= extent || longest < 0 || (uint64_t)1 << longest <= best)
        return best;
    if (longest == shift && address + ((uint64_t)1 << shift) <= extent)
        return (uint64_t)1 << shift;
    if (shift == tree->leaf_shift)
        return best;
    best = longest_within(tree, 2 * node, shift - 1, address, extent, best);
    address += (uint64_t)1 << (shift - 1);
    return longest_within(tree, 2 * node + 1, shift - 1, address, extent, best);
}

/* Of the part of the arena that was ever used. */
static double external_fragmentation(const struct tree *tree, uint64_t extent, uint64_t used)
{
    if (extent == used)
        return 0;
    uint64_t longest = longest_within(tree, 1, tree->shift, 0, extent, 0);
    return 1 - (double)longest / (double)(extent - used);
}

bool run_plain_buddy(const struct trace *trace, struct run_result *result)
{
    uint64_t live = 0, rounded = 0;
    *result = (struct run_result){.completed = true};
    uint64_t total = 0;
    int smallest = 63;
    for (size_t i = 0; i < trace->event_count; i++) { /* how large the arena must be at most */
        const struct trace_event *event = &trace->events[i];
        int shift = shift_of(event->bytes);
        smallest = shift < smallest ? shift : smallest;
        total += event->is_free ? -((uint64_t)1 << shift) : (uint64_t)1 << shift;
        rounded = total > rounded ? total : rounded;
    }
    struct tree tree = {.shift = shift_of(rounded) + 2, .leaf_shift = smallest};
    uint64_t *address = calloc(trace->block_count, sizeof(*address));
    if (tree.shift - smallest < DEPTH_MAX)
        tree.longest = malloc((size_t)2 << (tree.shift - smallest));
    bool ok = address != NULL && tree.longest != NULL;
    if (ok)
        fill(&tree);
    rounded = 0;
    for (size_t i = 0; ok && i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        int shift = shift_of(event->bytes);
        if (event->is_free) {
            give(&tree, address[event->block], shift);
            live -= event->bytes;
            rounded -= (uint64_t)1 << shift;
            continue;
        }
        uint64_t at = take(&tree, shift);
        if (at == UINT64_MAX) { /* four times the most that was ever live was not enough */
            result->completed = false;
            break;
        }
        address[event->block] = at;
        live += event->bytes;
        rounded += (uint64_t)1 << shift;
        if (at + ((uint64_t)1 << shift) > result->peak_backed_bytes)
            result->peak_backed_bytes = at + ((uint64_t)1 << shift);
        if (live > result->peak_live_bytes) {
            result->peak_live_bytes = live;
            result->internal_fragmentation = 1 - (double)live / (double)rounded;
            result->external_fragmentation =
                external_fragmentation(&tree, result->peak_backed_bytes, rounded);
        }
    }
    free(tree.longest);
    free(address);
    return ok;
}
