/* lives.c - follows blocks. See lives.h. The live ones are in a table of open addressing, from
 * which they are removed by shifting back those behind. */
#include "lives.h"

#include <stdlib.h>

enum { CONTEXTS = 65536 };

struct lives {
    struct life *slots;
    size_t capacity; /* a power of two; at most half is used */
    size_t used;
    uint64_t blocks, unknown;
    uint32_t device[CONTEXTS];
    uint64_t of_context[CONTEXTS]; /* live blocks */
};

struct lives *lives_create(void)
{
    struct lives *lives = calloc(1, sizeof(*lives));
    if (lives == NULL)
        return NULL;
    lives->capacity = 1024;
    lives->slots = calloc(lives->capacity, sizeof(*lives->slots));
    if (lives->slots != NULL)
        return lives;
    free(lives);
    return NULL;
}

void lives_destroy(struct lives *lives)
{
    free(lives->slots);
    free(lives);
}

static size_t home_of(const struct lives *lives, uint64_t address)
{
    return (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (lives->capacity - 1);
}

/* The slot of this address, or the free one for it. */
static struct life *slot_of(const struct lives *lives, uint64_t address)
{
    size_t i = home_of(lives, address);
    while (lives->slots[i].address != 0 && lives->slots[i].address != address)
        i = (i + 1) & (lives->capacity - 1);
    return &lives->slots[i];
}

static bool table_grow(struct lives *lives)
{
    struct life *old = lives->slots;
    size_t count = lives->capacity;
    struct life *grown = calloc(count * 2, sizeof(*grown));
    if (grown == NULL)
        return false;
    lives->slots = grown;
    lives->capacity = count * 2;
    for (size_t i = 0; i < count; i++)
        if (old[i].address != 0)
            *slot_of(lives, old[i].address) = old[i];
    free(old);
    return true;
}

static void slot_remove(struct lives *lives, struct life *slot)
{
    size_t hole = (size_t)(slot - lives->slots), mask = lives->capacity - 1;
    for (size_t i = (hole + 1) & mask; lives->slots[i].address != 0; i = (i + 1) & mask) {
        if (((i - home_of(lives, lives->slots[i].address)) & mask) >= ((i - hole) & mask)) {
            lives->slots[hole] = lives->slots[i];
            hole = i;
        }
    }
    lives->slots[hole].address = 0;
    lives->used--;
}

static void life_end(struct lives *lives, const struct reader_event *event, struct life *slot,
                     bool implied, lives_change *change, void *arg)
{
    change(arg, event, slot, true, implied);
    lives->of_context[slot->context]--;
    slot_remove(lives, slot);
}

static bool life_begin(struct lives *lives, const struct reader_event *event, lives_change *change,
                       void *arg)
{
    struct life *slot = slot_of(lives, event->address);
    if (slot->address != 0)
        life_end(lives, event, slot, true, change, arg);
    if ((lives->used + 1) * 2 > lives->capacity && !table_grow(lives))
        return false;
    slot = slot_of(lives, event->address);
    lives->used++;
    lives->of_context[event->context]++;
    *slot = (struct life){.address = event->address,
                          .bytes = event->bytes,
                          .stream = event->stream,
                          .begin_ns = event->time_ns,
                          .block = lives->blocks++,
                          .device = lives->device[event->context],
                          .context = event->context,
                          .caller = event->caller,
                          .served = (event->flags & TRACE_SERVED) != 0};
    change(arg, event, slot, false, false);
    return true;
}

/* Removing shifts blocks from behind into the slot, and at the table's end from its start, so that
 * some may have to be looked for in a second turn. */
static void context_end(struct lives *lives, const struct reader_event *event, lives_change *change,
                        void *arg)
{
    while (lives->of_context[event->context] > 0) {
        for (size_t i = 0; i < lives->capacity;) {
            struct life *slot = &lives->slots[i];
            if (slot->address != 0 && slot->context == event->context)
                life_end(lives, event, slot, true, change, arg);
            else
                i++;
        }
    }
}

bool lives_feed(struct lives *lives, const struct reader_event *event, lives_change *change,
                void *arg)
{
    if (reader_is_alloc(event))
        return life_begin(lives, event, change, arg);
    if (reader_is_free(event)) {
        struct life *slot = slot_of(lives, event->address);
        if (slot->address != 0)
            life_end(lives, event, slot, false, change, arg);
        else
            lives->unknown++;
    } else if (event->kind == TRACE_CONTEXT_BEGIN) {
        lives->device[event->context] = (uint32_t)event->bytes;
    } else if (event->kind == TRACE_CONTEXT_END) {
        context_end(lives, event, change, arg);
    }
    return true;
}

void lives_visit(const struct lives *lives, lives_change *change, void *arg)
{
    for (size_t i = 0; i < lives->capacity; i++)
        if (lives->slots[i].address != 0)
            change(arg, NULL, &lives->slots[i], false, false);
}

const struct life *lives_find(const struct lives *lives, uint64_t address)
{
    const struct life *slot = slot_of(lives, address);
    return slot->address != 0 ? slot : NULL;
}

uint32_t lives_device(const struct lives *lives, uint16_t context)
{
    return lives->device[context];
}

uint64_t lives_count(const struct lives *lives)
{
    return lives->used;
}

uint64_t lives_blocks(const struct lives *lives)
{
    return lives->blocks;
}

uint64_t lives_unknown(const struct lives *lives)
{
    return lives->unknown;
}
