/* size_class.h - the sizes of slots.
 *
 * 512-byte steps to 4 KiB, then eight classes a doubling to 32 KiB: rounding a request up wastes
 * less than 512 bytes or an eighth of it. A slab of a class has as few pages, up to eight, as keep
 * its tail under 3 %.
 *
 * Lock: none; constant tables.
 */
#ifndef VRAMALLOC_POOL_SIZE_CLASS_H
#define VRAMALLOC_POOL_SIZE_CLASS_H

#include <stdint.h>

enum { SIZE_CLASS_COUNT = 32 };
#define SIZE_CLASS_MAX_BYTES ((uint64_t)32 << 10)

struct size_class {
    uint32_t slot_bytes;
    uint32_t slab_pages;
    uint32_t slots; /* in a slab */
};

/* Computed when the library loads; read through the functions below. */
extern struct size_class size_class_table[SIZE_CLASS_COUNT];

enum { SIZE_CLASS_STEP_BYTES = 512, SIZE_CLASS_LINEAR = 8, SIZE_CLASS_PER_DOUBLING = 8 };

/* bytes: 1 .. SIZE_CLASS_MAX_BYTES. The smallest class that holds it. Cost: O(1). */
static inline int size_class_of(uint64_t bytes)
{
    if (bytes <= SIZE_CLASS_LINEAR * SIZE_CLASS_STEP_BYTES)
        return (int)((bytes - 1) / SIZE_CLASS_STEP_BYTES);
    int top = 63 - __builtin_clzll(bytes - 1); /* 12 for 4097 .. 8192 */
    return SIZE_CLASS_LINEAR + (top - 12) * SIZE_CLASS_PER_DOUBLING +
           (int)((bytes - 1) >> (top - 3)) - SIZE_CLASS_PER_DOUBLING;
}

/* index: 0 .. SIZE_CLASS_COUNT - 1. */
static inline const struct size_class *size_class_get(int index)
{
    return &size_class_table[index];
}

#endif
