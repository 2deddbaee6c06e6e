/* state.c - live blocks and segments. See state.h.
 *
 * The hash table is open addressing with backward-shift deletion. A dead block keeps its place
 * until the order is next made, so that the order's old part is swept without a look-up.
 */
#define _GNU_SOURCE
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "../../pool/size_class.h"

#define DRIVER_PAGE_BYTES ((uint64_t)2 << 20)
#define SMALL_MAX_BYTES   ((uint64_t)1 << 20)

enum { FIRST_BLOCKS = 1024, CONTEXTS = 65536, SEGMENTS_MAX = 16384 };

static bool fail(struct state *state, const char *why)
{
    if (state->failure == NULL)
        state->failure = why;
    return false;
}

static bool no_memory(struct state *state)
{
    return fail(state, "the host has no memory");
}

bool state_create(struct state *state)
{
    *state = (struct state){.slot_count = (size_t)FIRST_BLOCKS * 2};
    state->slot = calloc(state->slot_count, sizeof(*state->slot));
    state->context_live = calloc(CONTEXTS, sizeof(*state->context_live));
    return state->slot != NULL && state->context_live != NULL;
}

void state_destroy(struct state *state)
{
    free(state->block);
    free(state->spare);
    free(state->slot);
    free(state->order);
    free(state->fresh);
    free(state->merged);
    free(state->segment);
    free(state->context_live);
    *state = (struct state){0};
}

/* --- the hash table -------------------------------------------------------------------------- */

static size_t home_of(const struct state *state, uint64_t address)
{
    return (size_t)((address * UINT64_C(0x9E3779B97F4A7C15)) >> 24) & (state->slot_count - 1);
}

/* The slot of an address, or the empty one where it would be. */
static size_t slot_of(const struct state *state, uint64_t address)
{
    size_t i = home_of(state, address);
    while (state->slot[i] != 0 && state->block[state->slot[i] - 1].address != address)
        i = (i + 1) & (state->slot_count - 1);
    return i;
}

static bool slots_grow(struct state *state)
{
    uint32_t *old = state->slot;
    size_t count = state->slot_count;
    uint32_t *slots = calloc(count * 2, sizeof(*slots));
    if (slots == NULL)
        return no_memory(state);
    state->slot = slots;
    state->slot_count = count * 2;
    for (size_t i = 0; i < count; i++)
        if (old[i] != 0)
            slots[slot_of(state, state->block[old[i] - 1].address)] = old[i];
    free(old);
    return true;
}

static void slot_remove(struct state *state, size_t hole)
{
    size_t mask = state->slot_count - 1;
    for (size_t i = (hole + 1) & mask; state->slot[i] != 0; i = (i + 1) & mask) {
        size_t home = home_of(state, state->block[state->slot[i] - 1].address);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            state->slot[hole] = state->slot[i];
            hole = i;
        }
    }
    state->slot[hole] = 0;
    state->slot_used--;
}

/* --- blocks ---------------------------------------------------------------------------------- */

/* All lists of block numbers are as long as the list of blocks. */
static bool blocks_grow(struct state *state)
{
    uint32_t capacity = state->block_capacity != 0 ? state->block_capacity * 2 : FIRST_BLOCKS;
    struct block *blocks = realloc(state->block, capacity * sizeof(*blocks));
    if (blocks == NULL)
        return no_memory(state);
    state->block = blocks;
    uint32_t **lists[] = {&state->spare, &state->order, &state->fresh, &state->merged};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint32_t *grown = realloc(*lists[i], capacity * sizeof(*grown));
        if (grown == NULL)
            return no_memory(state);
        *lists[i] = grown;
    }
    state->block_capacity = capacity;
    return true;
}

static uint64_t rounded_bytes(uint64_t bytes, bool served)
{
    if (!served && bytes > SMALL_MAX_BYTES)
        return (bytes + DRIVER_PAGE_BYTES - 1) / DRIVER_PAGE_BYTES * DRIVER_PAGE_BYTES;
    return size_run_pages(bytes) * POOL_PAGE_BYTES;
}

static void block_end(struct state *state, size_t slot)
{
    uint32_t number = state->slot[slot] - 1;
    struct block *block = &state->block[number];
    slot_remove(state, slot);
    block->dead = true;
    state->live_bytes -= block->bytes;
    state->blocks_bytes -= block->rounded;
    state->live_count--;
    state->context_live[block->context]--;
    if (!block->served) { /* in no list */
        state->held_bytes -= block->rounded;
        state->forwarded_bytes -= block->rounded;
        state->spare[state->spare_count++] = number;
    }
    if (block->item != STATE_NO_ITEM && state->item_end != NULL)
        state->item_end(state->context, block->item, false);
    if (state->block_end != NULL)
        state->block_end(state->context, block);
}

/* Drops the dead from a list; with their place they are spare from now on. */
static uint32_t sweep(struct state *state, uint32_t *list, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (state->block[list[i]].dead)
            state->spare[state->spare_count++] = list[i];
        else
            list[kept++] = list[i];
    }
    return kept;
}

static void lists_sweep(struct state *state)
{
    state->order_count = sweep(state, state->order, state->order_count);
    state->fresh_count = sweep(state, state->fresh, state->fresh_count);
}

/* A place for a block; UINT32_MAX: there is none. More than half of the places are in use when
 * there come to be more. */
static uint32_t block_place(struct state *state)
{
    if (state->spare_count == 0 && state->block_count == state->block_capacity &&
        state->live_count < state->block_capacity / 2)
        lists_sweep(state);
    if (state->spare_count > 0)
        return state->spare[--state->spare_count];
    if (state->block_count == UINT32_MAX / 4) {
        fail(state, "the trace has more live blocks than this can show");
        return UINT32_MAX;
    }
    if (state->block_count == state->block_capacity && !blocks_grow(state))
        return UINT32_MAX;
    return state->block_count++;
}

static struct block *block_begin(struct state *state, const struct event *event)
{
    uint64_t rounded =
        event->bytes > STATE_BYTES_MAX ? 0 : rounded_bytes(event->bytes, event->served);
    size_t slot = slot_of(state, event->address);
    if (state->slot[slot] != 0) { /* its free is missing */
        state->overlaps++;
        block_end(state, slot);
    }
    if (event->bytes > STATE_BYTES_MAX / 2 || rounded > STATE_BYTES_MAX - state->blocks_bytes ||
        event->address > UINT64_MAX - rounded) {
        fail(state, "the trace is damaged: it has more live memory than any machine");
        return NULL;
    }
    if ((state->slot_used + 1) * 2 > state->slot_count && !slots_grow(state))
        return NULL;
    uint32_t number = block_place(state);
    if (number == UINT32_MAX)
        return NULL;
    struct block *block = &state->block[number];
    *block = (struct block){.address = event->address,
                            .bytes = event->bytes,
                            .rounded = rounded,
                            .born_ns = event->time_ns,
                            .thread = event->thread,
                            .item = STATE_NO_ITEM,
                            .caller = event->caller,
                            .context = event->context,
                            .device = event->device,
                            .served = event->served};
    state->slot[slot_of(state, event->address)] = number + 1;
    state->slot_used++;
    state->live_bytes += block->bytes;
    state->blocks_bytes += rounded;
    state->live_count++;
    state->context_live[block->context]++;
    if (block->served) {
        state->fresh[state->fresh_count++] = number;
    } else {
        state->held_bytes += rounded;
        state->forwarded_bytes += rounded;
    }
    return block;
}

static void block_free(struct state *state, const struct event *event)
{
    size_t slot = slot_of(state, event->address);
    if (state->slot[slot] == 0)
        state->foreign_frees++;
    else
        block_end(state, slot);
}

/* --- segments -------------------------------------------------------------------------------- */

static void segment_remove(struct state *state, size_t i)
{
    struct segment *segment = &state->segment[i];
    if (segment->item != STATE_NO_ITEM && state->item_end != NULL)
        state->item_end(state->context, segment->item, true);
    state->held_bytes -= segment->bytes;
    state->segment_count--;
    memmove(segment, segment + 1, (state->segment_count - i) * sizeof(*segment));
}

static bool segment_add(struct state *state, struct segment added)
{
    if (added.bytes == 0)
        return true;
    if (added.bytes > STATE_BYTES_MAX - state->held_bytes ||
        added.address > UINT64_MAX - added.bytes)
        return fail(state, "the trace is damaged: it holds more memory than any machine");
    if (state->segment_count == SEGMENTS_MAX)
        return fail(state, "the trace has more segments than this can show");
    if (state->segment_count == state->segment_capacity) {
        size_t capacity = state->segment_capacity != 0 ? state->segment_capacity * 2 : 64;
        struct segment *grown = realloc(state->segment, capacity * sizeof(*grown));
        if (grown == NULL)
            return no_memory(state);
        state->segment = grown;
        state->segment_capacity = capacity;
    }
    size_t i = state->segment_count++;
    for (; i > 0 && state->segment[i - 1].address > added.address; i--)
        state->segment[i] = state->segment[i - 1];
    state->segment[i] = added;
    state->held_bytes += added.bytes;
    return true;
}

/* What lies in the range is held no longer; what sticks out of it stays, as segments. */
static void range_remove(struct state *state, uint64_t address, uint64_t bytes)
{
    uint64_t end = bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
    for (size_t i = state->segment_count; i-- > 0;) {
        struct segment old = state->segment[i];
        if (old.address >= end || old.address + old.bytes <= address)
            continue;
        segment_remove(state, i);
        struct segment before = old, behind = old;
        before.item = behind.item = STATE_NO_ITEM;
        before.bytes = old.address < address ? address - old.address : 0;
        behind.address = end;
        behind.bytes = old.address + old.bytes > end ? old.address + old.bytes - end : 0;
        segment_add(state, before);
        segment_add(state, behind);
    }
}

/* Memory from the driver: what is held of it already counts once. */
static void range_add(struct state *state, const struct event *event)
{
    struct segment added = {.address = event->address,
                            .bytes = event->bytes,
                            .item = STATE_NO_ITEM,
                            .context = event->context,
                            .device = event->device};
    range_remove(state, added.address, added.bytes);
    for (size_t i = state->segment_count; state->join && i-- > 0;) {
        struct segment old = state->segment[i];
        bool before = old.address + old.bytes == added.address;
        if ((!before && added.address + added.bytes != old.address) || old.context != added.context)
            continue;
        segment_remove(state, i);
        added.address = before ? old.address : added.address;
        added.bytes += old.bytes;
    }
    segment_add(state, added);
}

/* A context takes its memory with it. */
static void context_end(struct state *state, uint16_t context)
{
    for (uint32_t i = 0; i < state->block_count && state->context_live[context] > 0; i++) {
        struct block *block = &state->block[i];
        if (block->dead || block->context != context)
            continue;
        size_t slot = slot_of(state, block->address);
        if (state->slot[slot] == i + 1)
            block_end(state, slot);
    }
    for (size_t i = state->segment_count; i-- > 0;)
        if (state->segment[i].context == context)
            segment_remove(state, i);
}

struct block *state_apply(struct state *state, const struct event *event)
{
    if (state->failure != NULL)
        return NULL;
    if (event->kind == EVENT_ALLOC)
        return block_begin(state, event);
    if (event->kind == EVENT_FREE) {
        block_free(state, event);
    } else if (event->kind == EVENT_GROW) {
        range_add(state, event);
    } else if (event->kind == EVENT_SHRINK) {
        range_remove(state, event->address, event->bytes);
    } else if (event->kind == EVENT_CONTEXT_END) {
        context_end(state, event->context);
    }
    return NULL;
}

/* --- the order of addresses --------------------------------------------------------------------
 */

static int fresh_compare(const void *left, const void *right, void *blocks)
{
    const struct block *a = (const struct block *)blocks + *(const uint32_t *)left;
    const struct block *b = (const struct block *)blocks + *(const uint32_t *)right;
    return a->address < b->address ? -1 : a->address > b->address;
}

bool state_sort(struct state *state)
{
    if (state->failure != NULL || state->block_count == 0)
        return state->failure == NULL;
    lists_sweep(state);
    const struct block *blocks = state->block;
    uint32_t olds = state->order_count, news = state->fresh_count;
    qsort_r(state->fresh, news, sizeof(*state->fresh), fresh_compare, state->block);
    uint32_t *merged = state->merged, *order = state->order, *fresh = state->fresh;
    uint32_t i = 0, j = 0, count = 0;
    while (i < olds || j < news) {
        bool old = j == news || (i < olds && blocks[order[i]].address < blocks[fresh[j]].address);
        merged[count++] = old ? order[i++] : fresh[j++];
    }
    state->merged = order;
    state->order = merged;
    state->order_count = count;
    state->fresh_count = 0;
    return true;
}

static void run_count(struct state_free *all, uint64_t from, uint64_t to)
{
    if (from >= to)
        return;
    all->runs++;
    all->bytes += to - from;
    if (to - from > all->largest)
        all->largest = to - from;
}

struct state_free state_free(const struct state *state)
{
    struct state_free all = {0};
    uint32_t i = 0;
    for (size_t s = 0; s < state->segment_count; s++) {
        const struct segment *segment = &state->segment[s];
        uint64_t at = segment->address, end = segment->address + segment->bytes;
        for (; i < state->order_count; i++) {
            const struct block *block = &state->block[state->order[i]];
            if (block->address >= end)
                break;
            run_count(&all, at, block->address);
            if (block->address + block->rounded > at)
                at = block->address + block->rounded;
        }
        run_count(&all, at, end);
    }
    return all;
}
