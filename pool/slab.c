/* slab.c - small blocks: slots of one size class, side by side in a slab.
 *
 * A slab is a run of about 64 KiB (size_class.h) and a record on the host: a bitmap of free
 * slots and what is known of each block. The lowest free slot is taken first. Slabs with a free
 * slot are listed by class, the one filled most recently first, so that the others can drain. One
 * empty slab a class is kept, until the pool holds no block at all or needs the memory.
 *
 * Source of the idea: Bonwick, "The Slab Allocator" (USENIX 1994); metadata apart from the memory,
 * since the host cannot touch it. What it leaves out: rounding of sizes (size_class.h), blocks that
 * wait for the GPU (limbo.c). Lock: pool.lock, held by the caller.
 */
#include "pool_internal.h"

static struct size_class slab_class_of(const struct slab *slab)
{
    return size_class_get((int)slab->class_index);
}

static size_t record_bytes(struct size_class size)
{
    return sizeof(struct slab) + size.slots * sizeof(struct block_info);
}

static uint64_t slab_bytes(const struct slab *slab)
{
    return slab_class_of(slab).slab_pages * POOL_PAGE_BYTES;
}

/* --- the partial list ---------------------------------------------------------------------- */

static void list_push(struct slab_class *list, struct slab *slab)
{
    slab->previous = NULL;
    slab->next = list->partial;
    if (list->partial != NULL)
        list->partial->previous = slab;
    list->partial = slab;
    slab->listed = true;
}

static void list_remove(struct slab_class *list, struct slab *slab)
{
    if (slab->previous != NULL)
        slab->previous->next = slab->next;
    else
        list->partial = slab->next;
    if (slab->next != NULL)
        slab->next->previous = slab->previous;
    slab->listed = false;
}

/* --- slabs ------------------------------------------------------------------------------------ */

static void slots_all_free(struct slab *slab, uint32_t slots)
{
    _Static_assert(SIZE_CLASS_SLAB_BYTES / POOL_PAGE_BYTES <= 64 * 2, "free_slots has all slots");
    for (uint32_t i = 0; i < slots; i += 64)
        slab->free_slots[i / 64] = slots - i >= 64 ? UINT64_MAX : ((uint64_t)1 << (slots - i)) - 1;
}

static struct run *slab_run_take(struct pool *pool, uint64_t pages, bool relaxed)
{
    struct run *run = buddy_take(pool, DOMAIN_SHARED, pages, UINT64_MAX);
    if (run == NULL && relaxed)
        run = buddy_take(pool, DOMAIN_LARGE, pages, UINT64_MAX);
    return run;
}

static struct slab *slab_make(struct pool *pool, int class_index, bool relaxed)
{
    struct size_class size = size_class_get(class_index);
    struct slab *slab = metadata_take_as_left(&pool->slab_records, record_bytes(size));
    if (slab == NULL)
        return NULL;
    slab->run = slab_run_take(pool, size.slab_pages, relaxed);
    if (slab->run == NULL) {
        metadata_give(&pool->slab_records, slab, record_bytes(size));
        return NULL;
    }
    slab->run->kind = RUN_SLAB;
    slab->run->slab = slab;
    slab->class_index = (uint32_t)class_index;
    slab->used = slab->first = 0; /* the slots' blocks are free: cache.c may look at them */
    slab->listed = false;
    slots_all_free(slab, size.slots);
    pool->stats.slab_bytes += slab_bytes(slab);
    pool->stats.slab_free_bytes += slab_bytes(slab);
    pool->stats.classes[class_index].slabs++;
    pool->stats.classes[class_index].slots_total += size.slots;
    return slab;
}

static void slab_end(struct pool *pool, struct slab *slab)
{
    struct size_class size = slab_class_of(slab);
    pool->stats.slab_bytes -= slab_bytes(slab);
    pool->stats.slab_free_bytes -= slab_bytes(slab);
    pool->stats.classes[slab->class_index].slabs--;
    pool->stats.classes[slab->class_index].slots_total -= size.slots;
    slab->run->slab = NULL;
    buddy_give(pool, slab->run);
    metadata_give(&pool->slab_records, slab, record_bytes(size));
}

/* A slab with a free slot, in the partial list. */
static struct slab *slab_with_room(struct pool *pool, int class_index, bool relaxed)
{
    struct slab_class *list = &pool->classes[class_index];
    if (list->partial != NULL)
        return list->partial;
    struct slab *slab = list->empty;
    if (slab != NULL) {
        list->empty = NULL;
        pool->empty_slabs--;
    } else {
        slab = slab_make(pool, class_index, relaxed);
    }
    if (slab != NULL)
        list_push(list, slab);
    return slab;
}

bool slab_take(struct pool *pool, int class_index, bool relaxed, struct slab **slab_out,
               uint32_t *slot_out)
{
    struct slab *slab = slab_with_room(pool, class_index, relaxed);
    if (slab == NULL)
        return false;
    uint32_t words = (slab_class_of(slab).slots + 63) / 64;
    while (slab->first < words && slab->free_slots[slab->first] == 0)
        slab->first++;
    if (!pool_holds(pool, slab->first < words, "a listed slab has a free slot"))
        return false;
    uint32_t bit = (uint32_t)__builtin_ctzll(slab->free_slots[slab->first]);
    slab->free_slots[slab->first] &= slab->free_slots[slab->first] - 1;
    slab->used++;
    pool->stats.slab_free_bytes -= slab_class_of(slab).slot_bytes;
    if (slab->used == slab_class_of(slab).slots)
        list_remove(&pool->classes[class_index], slab);
    *slab_out = slab;
    *slot_out = slab->first * 64 + bit;
    return true;
}

/* An empty slab is kept if its class has none, else ended. */
static void slab_retire(struct pool *pool, struct slab *slab)
{
    struct slab_class *list = &pool->classes[slab->class_index];
    if (slab->listed)
        list_remove(list, slab);
    if (list->empty != NULL) {
        slab_end(pool, slab);
        return;
    }
    list->empty = slab;
    pool->empty_slabs++;
}

void slab_give(struct pool *pool, struct slab *slab, uint32_t slot)
{
    uint64_t bit = (uint64_t)1 << (slot % 64);
    if (!pool_holds(pool, slab->used > 0 && (slab->free_slots[slot / 64] & bit) == 0,
                    "a slot is freed once"))
        return;
    slab->free_slots[slot / 64] |= bit;
    if (slot / 64 < slab->first)
        slab->first = slot / 64;
    slab->used--;
    pool->stats.slab_free_bytes += slab_class_of(slab).slot_bytes;
    if (slab->used == 0)
        slab_retire(pool, slab);
    else if (!slab->listed)
        list_push(&pool->classes[slab->class_index], slab);
}

void slab_flush(struct pool *pool)
{
    for (int i = 0; i < SIZE_CLASS_COUNT && pool->empty_slabs > 0; i++) {
        struct slab *slab = pool->classes[i].empty;
        if (slab == NULL)
            continue;
        pool->classes[i].empty = NULL;
        pool->empty_slabs--;
        slab_end(pool, slab);
    }
}

uint32_t slab_slot_at(const struct slab *slab, uint64_t offset_bytes)
{
    return size_class_slot((int)slab->class_index, (uint32_t)offset_bytes);
}
