/* map.h - the arena at chosen moments, in a bounded number of pieces.
 *
 * A moment has its figures and, for each segment in the order of addresses, cells: how full each
 * cell_bytes of it are, from 0 (empty) to 9 (full). Blocks and segments that were there at a moment
 * are items: each is kept once, with the moments from `first` to before `last`, so that stepping
 * from one moment to the next is adding and dropping items. Where there come to be more than
 * MAP_ITEMS blocks, those below a size are dropped (least_bytes); the cells still count them.
 *
 * What it leaves out: blocks that lived between two moments and at none. Lock: none.
 */
#ifndef VRAMALLOC_VIEW_MAP_H
#define VRAMALLOC_VIEW_MAP_H

#include "state.h"

enum { MAP_ITEMS = 16000, MAP_SEGMENTS = 8000, MAP_CELLS = 2048, MAP_MOMENTS = 256 };

enum moment_why { MOMENT_REGULAR, MOMENT_PEAK, MOMENT_OUT_OF_MEMORY, MOMENT_END };

struct map_moment {
    enum moment_why why;
    uint64_t time_ns, position, live_bytes, blocks_bytes, held_bytes, footprint_bytes;
    uint64_t live_count;
    struct state_free free;
    size_t cells_at; /* its text in map.cells, which ends with a zero */
};

struct map_item {
    uint64_t address, bytes, born_ns;
    uint32_t number; /* of the block in the state, while it lives */
    uint32_t thread;
    uint16_t first, last; /* last is MAP_OPEN while it lives */
    uint16_t caller;
    uint8_t device;
};

#define MAP_OPEN UINT16_MAX

struct map {
    struct map_moment moment[MAP_MOMENTS];
    uint16_t moment_count;
    struct map_item *block, *segment;
    size_t block_count, block_capacity, segment_count;
    uint64_t segments_left_out; /* at the moment with the most of them */
    uint64_t cell_bytes, least_bytes;
    char *cells; /* runs: a digit, then how often it is repeated, in base 26: a = 0 */
    size_t cells_used, cells_capacity;
    uint64_t *sizes; /* scratch: block_capacity of them */
};

/* most_bytes: the most that will be held. False: the host has no memory. */
bool map_create(struct map *map, uint64_t most_bytes);
void map_destroy(struct map *map);

/* Takes a moment of a sorted state; does nothing when there are MAP_MOMENTS. False: the host has no
 * memory. Cost: O(blocks). */
bool map_take(struct map *map, struct state *state, const struct map_moment *figures);

/* For state.item_end. */
void map_item_end(struct map *map, int32_t item, bool of_segment);

#endif
