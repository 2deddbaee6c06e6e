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
    /* 128 pages a slab, divided by the pages of a slot */
    static const uint8_t slots_of[SIZE_CLASS_COUNT] = {128, 64, 42, 32, 25, 21, 18, 16,
                                                       14,  12, 11, 10, 9,  9,  8,  8};
    uint32_t pages = (uint32_t)index + 1;
    uint32_t slots = slots_of[index];
    return (struct size_class){.slot_bytes = pages * (uint32_t)POOL_PAGE_BYTES,
                               .slab_pages = pages * slots,
                               .slots = slots};
}

/* Which slot of a slab the byte at an offset lies in. Cost: a multiplication. */
static inline uint32_t size_class_slot(int index, uint32_t offset_bytes)
{
    static const uint32_t reciprocal[SIZE_CLASS_COUNT] = {
        65536, 32768, 21846, 16384, 13108, 10923, 9363, 8192,  /* 2^16 / pages, rounded up: exact */
        7282,  6554,  5958,  5462,  5042,  4682,  4370, 4096}; /* for up to 128 pages */
    return (uint32_t)(offset_bytes / POOL_PAGE_BYTES) * reciprocal[index] >> 16;
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
