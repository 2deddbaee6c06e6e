/* size_class.c - the sizes of slots. See size_class.h. The table is computed when the library
 * loads: 32 entries, a few hundred operations.
 */
#include "size_class.h"

#include "pool.h"

enum { SLAB_PAGES_MAX = 8 };

struct size_class size_class_table[SIZE_CLASS_COUNT];

static uint32_t class_bytes(int index)
{
    if (index < SIZE_CLASS_LINEAR)
        return (uint32_t)(index + 1) * SIZE_CLASS_STEP_BYTES;
    int doubling = (index - SIZE_CLASS_LINEAR) / SIZE_CLASS_PER_DOUBLING;
    int step = (index - SIZE_CLASS_LINEAR) % SIZE_CLASS_PER_DOUBLING + 1;
    return (uint32_t)((SIZE_CLASS_PER_DOUBLING + step) * (SIZE_CLASS_STEP_BYTES << doubling));
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
        size_class_table[i] =
            (struct size_class){.slot_bytes = bytes,
                                .slab_pages = pages,
                                .slots = (uint32_t)(pages * POOL_PAGE_BYTES / bytes)};
    }
}
