/* state.h - what is live and what is held, after each event of a trace.
 *
 * Blocks are found by address in a hash table. For questions about the order of addresses there is
 * a list that state_sort() brings up to date: the live blocks that the pool served, by address.
 * It costs as much as there are blocks, so it is for chosen moments, not for every event.
 *
 *     live    bytes asked for, of all live blocks
 *     blocks  the same, rounded up as the pool rounds, or as the driver does for its own
 *     held    the pool's segments, and the driver's own blocks
 *
 * What it leaves out: the past. Lock: none.
 */
#ifndef VRAMALLOC_VIEW_STATE_H
#define VRAMALLOC_VIEW_STATE_H

#include "source.h"

/* More than any machine has. Sums up to it are exact in a JSON reader's numbers. */
#define STATE_BYTES_MAX ((uint64_t)1 << 53)

enum { STATE_NO_ITEM = -1 };

struct block {
    uint64_t address, bytes, rounded, born_ns;
    uint64_t card_address; /* in the model of the driver's card */
    uint32_t thread;
    int32_t item; /* its number in the map; STATE_NO_ITEM: none */
    uint16_t caller, context;
    uint8_t device;
    bool served, dead;
};

/* Memory from the driver. */
struct segment {
    uint64_t address, bytes;
    int32_t item;
    uint16_t context;
    uint8_t device;
};

struct state {
    struct block *block; /* live ones, and dead ones until state_sort() */
    uint32_t block_count, block_capacity, *spare, spare_count;
    uint32_t *slot; /* hash table: number of a block + 1 */
    size_t slot_count, slot_used;
    uint32_t *order, *fresh, *merged; /* order: by address; fresh: served since it was made */
    uint32_t order_count, fresh_count;
    struct segment *segment; /* by address, none overlaps another */
    size_t segment_count, segment_capacity;
    uint32_t *context_live; /* blocks of each context */
    bool join;              /* segments that touch are one */
    uint64_t live_bytes, blocks_bytes, held_bytes, forwarded_bytes;
    uint64_t live_count, foreign_frees, overlaps;
    /* Called as a block dies or a segment goes; item is not STATE_NO_ITEM. */
    void (*item_end)(void *context, int32_t item, bool of_segment);
    void (*block_end)(void *context, const struct block *block);
    void *context;
    const char *failure; /* NULL: none; nothing is applied any more */
};

/* False: the host has no memory. */
bool state_create(struct state *state);
void state_destroy(struct state *state);

/* Returns the block that the event made; NULL: none, or state->failure. Cost: O(1) for blocks,
 * O(segments) for segments, O(blocks) for a context's end. */
struct block *state_apply(struct state *state, const struct event *event);

/* Brings `order` up to date. False: state->failure. Cost: O(blocks + new log new). */
bool state_sort(struct state *state);

/* Free memory in the pool's segments, where no live block is. After state_sort(). */
struct state_free {
    uint64_t bytes, largest, runs;
};
struct state_free state_free(const struct state *state);

#endif
