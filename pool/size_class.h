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

/* bytes: 1 .. SIZE_CLASS_MAX_BYTES. The smallest class that holds it. Cost: O(1). */
int size_class_of(uint64_t bytes);

/* index: 0 .. SIZE_CLASS_COUNT - 1. */
const struct size_class *size_class_get(int index);

#endif
