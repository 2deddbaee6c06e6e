/* size_class.c - the sizes of slots. See size_class.h. The table is computed when the library
 * loads: 32 entries, a few hundred operations.
 */
#include "size_class.h"

#include "pool.h"

enum { STEP_BYTES = 512, LINEAR_CLASSES = 8, PER_DOUBLING = 8, SLAB_PAGES_MAX = 8 };

static struct size_class classes[SIZE_CLASS_COUNT];

static uint32_t class_bytes(int index)
{
    if (index < LINEAR_CLASSES)
        return (uint32_t)(index + 1) * STEP_BYTES;
    int doubling = (index - LINEAR_CLASSES) / PER_DOUBLING;
    int step = (index - LINEAR_CLASSES) % PER_DOUBLING + 1;
    return (uint32_t)((PER_DOUBLING + step) * (STEP_BYTES << doubling));
}

static uint32_t tail_bytes(uint32_t slot_bytes, uint32_t pages)
{
    return (uint32_t)(pages * POOL_PAGE_BYTES % slot_bytes);
}

/* The fewest pages whose tail is at most 3 %, else those with the smallest share. */
static uint32_t class_pages(uint32_t slot_bytes)
{
    uint32_t best = 1;
    for (uint32_t pages = 1; pages <= SLAB_PAGES_MAX; pages++) {
        uint64_t tail = tail_bytes(slot_bytes, pages);
        if (tail * 100 <= 3 * pages * POOL_PAGE_BYTES)
            return pages;
        if (tail * best < (uint64_t)tail_bytes(slot_bytes, best) * pages)
            best = pages;
    }
    return best;
}

__attribute__((constructor)) static void classes_compute(void)
{
    for (int i = 0; i < SIZE_CLASS_COUNT; i++) {
        uint32_t bytes = class_bytes(i);
        uint32_t pages = class_pages(bytes);
        classes[i] = (struct size_class){.slot_bytes = bytes,
                                         .slab_pages = pages,
                                         .slots = (uint32_t)(pages * POOL_PAGE_BYTES / bytes)};
    }
}

int size_class_of(uint64_t bytes)
{
    if (bytes <= LINEAR_CLASSES * STEP_BYTES)
        return (int)((bytes - 1) / STEP_BYTES);
    int top = 63 - __builtin_clzll(bytes - 1); /* 12 for 4097 .. 8192 */
    int doubling = top - 12;
    return LINEAR_CLASSES + doubling * PER_DOUBLING + (int)((bytes - 1) >> (top - 3)) -
           PER_DOUBLING;
}

const struct size_class *size_class_get(int index)
{
    return &classes[index];
}
