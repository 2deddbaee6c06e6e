/* stats.h - the figures of one pool, as a struct generated from stats.def.
 *
 * What it leaves out: the calls a program made (shim/counters.def has those).
 */
#ifndef VRAMALLOC_POOL_STATS_H
#define VRAMALLOC_POOL_STATS_H

#include <stdint.h>

#define POOL_STATS_CLASSES_MAX 64 /* slab size classes a report can hold */
#define POOL_STATS_ORDERS      44 /* buddy orders: 512 bytes << 43 is the largest block */

/* One slab size class. slots_total = slots_live + slots_limbo + slots_free; the last is not stored.
 */
struct pool_class_stats {
    uint64_t slot_bytes;  /* bytes of one slot; 0 marks the end of the list */
    uint64_t slabs;       /* slabs held */
    uint64_t slots_total; /* slots in those slabs */
    uint64_t slots_live;
    uint64_t slots_limbo;
    uint64_t requested_bytes; /* asked for in the live slots */
    uint64_t allocations;     /* total served from this class */
};

struct pool_stats {
#define STAT(name, unit, kind, meaning) uint64_t name;
#include "stats.def"
#undef STAT
    struct pool_class_stats classes[POOL_STATS_CLASSES_MAX];
    uint64_t free_runs_by_order[POOL_STATS_ORDERS]; /* free page runs of [2^i, 2^(i+1)) pages */
    uint64_t free_bytes_by_order[POOL_STATS_ORDERS];
};

/* The moment at which the most free memory lay outside the longest free run, of those at which the
 * pool had to grow or refused. */
struct pool_worst {
    uint64_t at_ns; /* by the backing's clock; 0: there was none */
    uint64_t asked_bytes;
    uint64_t free_bytes;
    uint64_t largest_bytes;   /* of the longest free run */
    uint64_t pinned_segments; /* more than half free, and not wholly */
    uint64_t
        pin_size_bytes; /* what holds most in them: blocks of this to twice this size; 0: none */
    uint64_t pin_blocks;
    uint64_t pin_bytes;
};

/* What a pool remembers; times by the backing's clock, 0 where there is none. */
struct pool_history {
    uint64_t first_ns;     /* levels were looked at from here */
    uint64_t last_ns;      /* to here */
    double live_byte_ns;   /* live_block_bytes, summed up over that time: an estimate */
    double held_byte_ns;   /* backed_bytes: exact */
    uint64_t peak_live_ns; /* when live_block_bytes had its peak */
    uint64_t peak_backed_ns;
    struct pool_worst worst;
};

/* The levels of which pools keep the highest value. TOGETHER(level), its peak is peak_<level>. */
#define POOL_LEVELS(TOGETHER)                                                                      \
    TOGETHER(live_blocks)                                                                          \
    TOGETHER(live_requested_bytes)                                                                 \
    TOGETHER(live_block_bytes)                                                                     \
    TOGETHER(driver_live_bytes)                                                                    \
    TOGETHER(limbo_bytes)                                                                          \
    TOGETHER(backed_bytes)

/* Levels of several pools added up at every moment, and the highest that the sums were: pools need
 * not peak at the same time. Read and written with __atomic, relaxed. See pool_join(). */
struct pool_together {
#define TOGETHER(level)                                                                            \
    uint64_t level;                                                                                \
    uint64_t peak_##level;
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
};

#endif
