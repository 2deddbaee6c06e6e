/* map.c - the arena at chosen moments. See map.h. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_CELL_BYTES = 512, FULL = 9, LETTERS = 26 };

bool map_create(struct map *map, uint64_t most_bytes)
{
    *map = (struct map){.cell_bytes = LEAST_CELL_BYTES, .block_capacity = (size_t)MAP_ITEMS * 2};
    while (most_bytes / map->cell_bytes > MAP_CELLS)
        map->cell_bytes *= 2;
    map->block = malloc(map->block_capacity * sizeof(*map->block));
    map->segment = malloc(MAP_SEGMENTS * sizeof(*map->segment));
    map->sizes = malloc(map->block_capacity * sizeof(*map->sizes));
    return map->block != NULL && map->segment != NULL && map->sizes != NULL;
}

void map_destroy(struct map *map)
{
    free(map->block);
    free(map->segment);
    free(map->cells);
    free(map->sizes);
    *map = (struct map){0};
}

/* --- items -------------------------------------------------------------------------------------
 */

void map_item_end(struct map *map, int32_t item, bool of_segment)
{
    struct map_item *ended = of_segment ? &map->segment[item] : &map->block[item];
    ended->last = map->moment_count;
}

/* Drops the items that are too small now, and tells the blocks of the others where theirs are. */
static void items_compact(struct map *map, struct state *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < map->block_count; i++) {
        struct map_item item = map->block[i];
        bool keep = item.bytes >= map->least_bytes;
        if (item.last == MAP_OPEN)
            state->block[item.number].item = keep ? (int32_t)kept : STATE_NO_ITEM;
        if (keep)
            map->block[kept++] = item;
    }
    map->block_count = kept;
}

static int bytes_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Keeps the largest MAP_ITEMS, or fewer where others are as large as the last of them. */
static void least_raise(struct map *map, struct state *state)
{
    for (size_t i = 0; i < map->block_count; i++)
        map->sizes[i] = map->block[i].bytes;
    qsort(map->sizes, map->block_count, sizeof(*map->sizes), bytes_compare);
    map->least_bytes = map->sizes[MAP_ITEMS] + 1;
    items_compact(map, state);
}

static void block_item(struct map *map, struct state *state, uint32_t number)
{
    struct block *block = &state->block[number];
    if (block->item != STATE_NO_ITEM || block->bytes < map->least_bytes)
        return;
    if (map->block_count == map->block_capacity)
        least_raise(map, state);
    if (block->bytes < map->least_bytes)
        return;
    block->item = (int32_t)map->block_count;
    map->block[map->block_count++] = (struct map_item){.address = block->address,
                                                       .bytes = block->bytes,
                                                       .born_ns = block->born_ns,
                                                       .number = number,
                                                       .thread = block->thread,
                                                       .first = map->moment_count,
                                                       .last = MAP_OPEN,
                                                       .caller = block->caller,
                                                       .device = block->device};
}

static void segment_items(struct map *map, struct state *state)
{
    uint64_t left_out = 0;
    for (size_t i = 0; i < state->segment_count; i++) {
        struct segment *segment = &state->segment[i];
        if (segment->item != STATE_NO_ITEM)
            continue;
        if (map->segment_count == MAP_SEGMENTS) {
            left_out++;
            continue;
        }
        segment->item = (int32_t)map->segment_count;
        map->segment[map->segment_count++] = (struct map_item){.address = segment->address,
                                                               .bytes = segment->bytes,
                                                               .first = map->moment_count,
                                                               .last = MAP_OPEN,
                                                               .device = segment->device};
    }
    if (left_out > map->segments_left_out)
        map->segments_left_out = left_out;
}

/* --- cells -------------------------------------------------------------------------------------
 */

static bool text_add(struct map *map, char letter)
{
    if (map->cells_used == map->cells_capacity) {
        size_t capacity = map->cells_capacity != 0 ? map->cells_capacity * 2 : 65536;
        char *grown = realloc(map->cells, capacity);
        if (grown == NULL)
            return false;
        map->cells = grown;
        map->cells_capacity = capacity;
    }
    map->cells[map->cells_used++] = letter;
    return true;
}

/* A run of equal cells that is being counted. */
struct run {
    unsigned level;
    uint64_t cells;
};

static bool run_end(struct map *map, const struct run *run)
{
    char digits[16];
    size_t count = 0;
    if (run->cells == 0)
        return true;
    for (uint64_t more = run->cells - 1; more > 0; more /= LETTERS)
        digits[count++] = (char)('a' + more % LETTERS);
    bool added = text_add(map, (char)('0' + run->level));
    while (added && count > 0)
        added = text_add(map, digits[--count]);
    return added;
}

static bool run_add(struct map *map, struct run *run, unsigned level, uint64_t cells)
{
    if (run->level != level) {
        if (!run_end(map, run))
            return false;
        *run = (struct run){.level = level};
    }
    run->cells += cells;
    return true;
}

/* Empty is 0 and full is FULL; what is between is neither. */
static unsigned level_of(uint64_t used, uint64_t bytes)
{
    if (used == 0)
        return 0;
    if (used >= bytes)
        return FULL;
    return 1 + (unsigned)((double)used / (double)bytes * (FULL - 1));
}

/* Where the walk through the blocks is. */
struct walk {
    struct run run;
    uint32_t next; /* in state.order */
};

/* The bytes of [from, to) in live blocks; goes on to the first block that reaches beyond. */
static uint64_t used_between(const struct state *state, struct walk *walk, uint64_t from,
                             uint64_t to)
{
    uint64_t used = 0;
    for (; walk->next < state->order_count; walk->next++) {
        const struct block *block = &state->block[state->order[walk->next]];
        uint64_t begin = block->address > from ? block->address : from;
        uint64_t end = block->address + block->rounded;
        if (block->address >= to)
            break;
        if (end > begin)
            used += (end < to ? end : to) - begin;
        if (end > to)
            break;
    }
    return used;
}

static bool segment_cells(struct map *map, const struct state *state, struct walk *walk,
                          const struct segment *segment)
{
    uint64_t end = segment->address + segment->bytes;
    for (uint64_t at = segment->address; at < end;) {
        uint64_t to = end - at > map->cell_bytes ? at + map->cell_bytes : end;
        uint64_t used = used_between(state, walk, at, to);
        if (!run_add(map, &walk->run, level_of(used, to - at), 1))
            return false;
        at = to;
    }
    return true;
}

static bool cells_take(struct map *map, const struct state *state)
{
    struct walk walk = {0};
    for (size_t i = 0; i < state->segment_count; i++)
        if (state->segment[i].item != STATE_NO_ITEM &&
            !segment_cells(map, state, &walk, &state->segment[i]))
            return false;
    return run_end(map, &walk.run) && text_add(map, '\0');
}

bool map_take(struct map *map, struct state *state, const struct map_moment *figures)
{
    if (map->moment_count == MAP_MOMENTS)
        return true;
    segment_items(map, state);
    for (uint32_t i = 0; i < state->order_count; i++)
        block_item(map, state, state->order[i]);
    struct map_moment *moment = &map->moment[map->moment_count];
    *moment = *figures;
    moment->cells_at = map->cells_used;
    bool taken = cells_take(map, state);
    map->moment_count++;
    if (map->block_count > MAP_ITEMS)
        least_raise(map, state);
    return taken;
}
