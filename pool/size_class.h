/* size_class.h - the sizes of slots and of runs.
 *
 * 512-byte steps to 8 KiB, as the driver's own small blocks have: what a slot wastes is what the
 * driver would waste. A slab is as many whole slots as fit in 64 KiB, and no tail.
 *
 * Lock: none.
 */
#ifndef VRAMALLOC_POOL_SIZE_CLASS_H
#define VRAMALLOC_POOL_SIZE_CLASS_H

#include <stdint.h>

#include "pool.h"

enum { SIZE_CLASS_COUNT = 16, SIZE_CLASS_SLAB_BYTES = 64 << 10 };
#define SIZE_CLASS_MAX_BYTES (SIZE_CLASS_COUNT * POOL_PAGE_BYTES)

struct size_class {
    uint32_t slot_bytes;
    uint32_t slab_pages;
    uint32_t slots; /* in a slab */
};

/* bytes: 1 .. SIZE_CLASS_MAX_BYTES. The smallest class that holds it. Cost: O(1). */
static inline int size_class_of(uint64_t bytes)
{
    return (int)((bytes - 1) / POOL_PAGE_BYTES);
}

/* index: 0 .. SIZE_CLASS_COUNT - 1. */
static inline struct size_class size_class_get(int index)
{
    uint32_t pages = (uint32_t)index + 1;
    uint32_t slots = SIZE_CLASS_SLAB_BYTES / (pages * (uint32_t)POOL_PAGE_BYTES);
    return (struct size_class){.slot_bytes = pages * (uint32_t)POOL_PAGE_BYTES,
                               .slab_pages = pages * slots,
                               .slots = slots};
}

/* The pages of a run for a request above SIZE_CLASS_MAX_BYTES. Up to 1 MiB 512-byte steps, as the
 * driver has. Above it the driver takes whole 2 MiB; steps of 64 KiB waste less, and let blocks of
 * about one size share their holes. (Recorded ResNet training holds 1.040 of what the driver would;
 * with steps of 512 bytes, 128 and 512 KiB 1.064, 1.064 and 1.042; other traces are the same.) */
static inline uint64_t size_run_pages(uint64_t bytes)
{
    uint64_t step = bytes > ((uint64_t)1 << 20) ? (uint64_t)64 << 10 : POOL_PAGE_BYTES;
    return (bytes + step - 1) / step * (step / POOL_PAGE_BYTES);
}

#endif
