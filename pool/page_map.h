/* page_map.h - which segment an address lies in: one map for all pools of the process.
 *
 * A radix tree over the 57 bits of a virtual address, in units of 2 MiB: three levels of 12 bits.
 * Nodes are made on demand and never freed, entries are single words, so a look-up takes no lock:
 *
 *     bits 56..45 -> root -> bits 44..33 -> middle -> bits 32..21 -> leaf -> struct segment *
 *
 * What it leaves out: pages within a segment (the segment has its own table).
 * Lock: none to read; a writer owns the range that it writes.
 */
#ifndef VRAMALLOC_POOL_PAGE_MAP_H
#define VRAMALLOC_POOL_PAGE_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct segment;

/* Makes the nodes for a range. False: the host has no memory, or the range is beyond 57 bits. */
bool page_map_reserve(uint64_t address, uint64_t bytes);

/* Sets a reserved range; NULL clears it. address and bytes are multiples of 2 MiB. Cost: O(bytes /
 * 2 MiB). */
void page_map_set(uint64_t address, uint64_t bytes, struct segment *segment);

/* The segment that `address` lies in, or NULL. Cost: three loads. Async-signal-safe. */
struct segment *page_map_get(uint64_t address);

#endif
