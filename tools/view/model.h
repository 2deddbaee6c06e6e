/* model.h - all that a view shows, as figures: what --json prints and the page embeds.
 *
 * The trace is gone through twice. The first time finds how long it is, the moment of the highest
 * live total and what the map must hold; the second follows the state, with MODEL_BUCKETS of equal
 * length for the curves (each keeps its highest and lowest values, so no peak is lost) and the
 * map's moments at every fourth bucket's end, at the peak and at the first failures.
 *
 * Where the trace does not say what was held (a CSV, or a run in which the pool served nothing),
 * `by_address` is set: the map's segments are then the 2 MiB of addresses that blocks touch, and
 * nothing is said of fragmentation.
 *
 * What it leaves out: the form (model_json.c, page.c). Lock: none. Host memory: that of the blocks
 * live together, and 3 MiB.
 */
#ifndef VRAMALLOC_VIEW_MODEL_H
#define VRAMALLOC_VIEW_MODEL_H

#include "map.h"
#include "source.h"

enum { MODEL_BUCKETS = 800, MODEL_FAILURES = 16, MODEL_HOLDERS = 20, MODEL_SIZES = 54 };

struct range {
    uint64_t low, high;
};

/* The curves: X(name) */
#define MODEL_CURVES(X) X(live) X(blocks) X(held) X(footprint)

struct bucket {
#define X(name) uint64_t name##_max, name##_min;
    MODEL_CURVES(X)
#undef X
    struct state_free free; /* at its end */
    uint64_t allocs, frees, time_ns, position;
};

struct caller_figures {
    uint64_t calls, bytes, peak_bytes, end_bytes;
};

/* Blocks of one caller and one size. */
struct holder {
    uint16_t caller;
    uint64_t bytes, count, oldest_ns;
};

struct holders {
    struct holder of[MODEL_HOLDERS];
    size_t count;
    uint64_t groups;
};

struct failure {
    uint64_t time_ns, position, bytes, live_bytes, blocks_bytes, held_bytes, footprint_bytes;
    uint64_t card_bytes; /* 0: not known */
    struct state_free free;
    uint32_t thread;
    uint16_t caller;
    uint8_t device;
};

struct size_figures {
    uint64_t allocs, bytes, at_peak;
};

struct model {
    const struct source *source;
    bool by_address, by_call; /* by_call: positions are numbers of events, not times */
    uint64_t events, allocs, frees, failed_calls, alloc_bytes, grows, shrinks, passed, passed_bytes;
    uint64_t waits, wait_ns, call_ns, foreign_frees, overlaps;
    uint64_t end_ns, end_position;
    uint64_t peak_live_bytes, peak_blocks_bytes, peak_held_bytes, peak_footprint_bytes;
    uint64_t peak_event, peak_ns, peak_held_ns, peak_footprint_ns, peak_live_count;
    uint64_t end_live_bytes, end_live_count, forwarded_peak_bytes;
    struct bucket *bucket;
    struct caller_figures *caller; /* by number */
    struct size_figures size[MODEL_SIZES];
    struct holders peak_holders, end_holders;
    struct failure failure[MODEL_FAILURES];
    uint64_t failures;
    struct map map;
    struct range *range; /* by address; only with by_address */
    size_t range_count;
    uint64_t out_of_ranges; /* blocks of which the map knows nothing */
    const char *reason;     /* why there is no model */
};

/* False: model->reason says why; model_destroy() it all the same. */
bool model_make(struct model *model, struct source *source, bool by_call);
void model_destroy(struct model *model);

#endif
