/* metadata.h - host memory for the pool's own records, from mmap alone.
 *
 * A program's malloc may be the very thing that calls us, so none is used. Small records come from
 * chunks and go back to a free list of their size: memory that once held a record only ever holds
 * records of that size again. Large tables are mapped and unmapped whole.
 *
 * Chunks double from 1 to 64 MiB, so their number stays small.
 *
 * What it leaves out: giving chunks back before metadata_end(). Lock: the owner's.
 */
#ifndef VRAMALLOC_POOL_METADATA_H
#define VRAMALLOC_POOL_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METADATA_GRAIN_BYTES ((size_t)64)
#define METADATA_SMALL_BYTES ((size_t)16 << 10) /* larger requests are mapped on their own */
#define METADATA_CLASSES     (METADATA_SMALL_BYTES / METADATA_GRAIN_BYTES)

struct metadata_free {
    struct metadata_free *next;
};

struct metadata_chunk {
    struct metadata_chunk *next;
    size_t bytes;
};

struct metadata {
    struct metadata_chunk *chunks;
    uint8_t *unused; /* the rest of the newest chunk */
    size_t unused_bytes;
    struct metadata_free *free[METADATA_CLASSES];
    bool refused; /* the host had no memory; the owner clears it */
};

/* Zeroed memory for a record or table; NULL when the host has none. Cost: O(1), or one mmap. */
void *metadata_take(struct metadata *metadata, size_t bytes);

/* The same, but where memory held a record before, all but its first 8 bytes is as that left it. */
void *metadata_take_as_left(struct metadata *metadata, size_t bytes);

/* bytes: as asked for. */
void metadata_give(struct metadata *metadata, void *memory, size_t bytes);

/* Unmaps all chunks. Tables of more than METADATA_SMALL_BYTES must have been given back. */
void metadata_end(struct metadata *metadata);

/* One zeroed mapping; NULL when the host has none. */
void *metadata_map(size_t bytes);

#endif
