/* page_map.c - address to segment. See page_map.h. */
#include "page_map.h"

#include <stddef.h>
#include <sys/mman.h>

#include "backing.h"
#include "metadata.h"

enum { UNIT_SHIFT = 21, LEVEL_BITS = 12, LEVEL_SIZE = 1 << LEVEL_BITS, ADDRESS_BITS = 57 };

_Static_assert((uint64_t)1 << UNIT_SHIFT == BACKING_SEGMENT_ALIGN_BYTES,
               "a map unit is what segments are aligned to");
_Static_assert(UNIT_SHIFT + 3 * LEVEL_BITS == ADDRESS_BITS, "three levels cover the address");

struct leaf {
    struct segment *entry[LEVEL_SIZE];
};

struct middle {
    struct leaf *entry[LEVEL_SIZE];
};

static struct middle *root[LEVEL_SIZE];

static unsigned level_index(uint64_t address, int level)
{
    return (unsigned)(address >> (UNIT_SHIFT + level * LEVEL_BITS)) & (LEVEL_SIZE - 1);
}

/* The node in *link, made if need be; another thread may be making it, too. */
static void *node_make(void **link, size_t bytes)
{
    void *node = __atomic_load_n(link, __ATOMIC_ACQUIRE);
    if (node != NULL)
        return node;
    void *fresh = metadata_map(bytes);
    if (fresh == NULL)
        return NULL;
    if (__atomic_compare_exchange_n(link, &node, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return fresh;
    munmap(fresh, bytes);
    return node;
}

static struct leaf *leaf_make(uint64_t address)
{
    struct middle *middle =
        node_make((void **)&root[level_index(address, 2)], sizeof(struct middle));
    if (middle == NULL)
        return NULL;
    return node_make((void **)&middle->entry[level_index(address, 1)], sizeof(struct leaf));
}

static struct leaf *leaf_get(uint64_t address)
{
    if (address >> ADDRESS_BITS != 0)
        return NULL;
    struct middle *middle = __atomic_load_n(&root[level_index(address, 2)], __ATOMIC_ACQUIRE);
    if (middle == NULL)
        return NULL;
    return __atomic_load_n(&middle->entry[level_index(address, 1)], __ATOMIC_ACQUIRE);
}

bool page_map_reserve(uint64_t address, uint64_t bytes)
{
    uint64_t end;
    if (__builtin_add_overflow(address, bytes, &end) || (end - 1) >> ADDRESS_BITS != 0)
        return false;
    for (uint64_t unit = address; unit < end; unit += BACKING_SEGMENT_ALIGN_BYTES)
        if (leaf_make(unit) == NULL)
            return false;
    return true;
}

void page_map_set(uint64_t address, uint64_t bytes, struct segment *segment)
{
    for (uint64_t unit = address; unit < address + bytes; unit += BACKING_SEGMENT_ALIGN_BYTES) {
        struct leaf *leaf = leaf_get(unit);
        if (leaf != NULL)
            __atomic_store_n(&leaf->entry[level_index(unit, 0)], segment, __ATOMIC_RELEASE);
    }
}

struct segment *page_map_get(uint64_t address)
{
    struct leaf *leaf = leaf_get(address);
    return leaf != NULL ? __atomic_load_n(&leaf->entry[level_index(address, 0)], __ATOMIC_ACQUIRE)
                        : NULL;
}
