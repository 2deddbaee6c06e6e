/* figures.c - adding up. See figures.h.
 *
 * Statistics are large: they lie in static memory, since a thread's stack may be small.
 */
#include "figures.h"

#include <string.h>

#include "deferred.h"

enum { TOTAL, LEVEL, PEAK };

/* Adds one pool's figures to a sum. Levels add up only for living pools; peaks are the highest of
 * any one pool, since pools need not peak together: see peaks_together(). */
static void stats_add(struct pool_stats *sum, const struct pool_stats *more, bool living)
{
#define STAT(name, unit, kind, meaning)                                                            \
    if (kind == TOTAL || (kind == LEVEL && living))                                                \
        sum->name += more->name;                                                                   \
    else if (kind == PEAK && more->name > sum->name)                                               \
        sum->name = more->name;
    uint64_t largest_free_run_bytes = sum->largest_free_run_bytes > more->largest_free_run_bytes
                                          ? sum->largest_free_run_bytes
                                          : more->largest_free_run_bytes;
#include "../pool/stats.def"
#undef STAT
    sum->largest_free_run_bytes = living ? largest_free_run_bytes : 0;
    for (int i = 0; i < POOL_STATS_CLASSES_MAX; i++) {
        sum->classes[i].slot_bytes = more->classes[i].slot_bytes;
        sum->classes[i].allocations += more->classes[i].allocations;
        if (!living)
            continue;
        sum->classes[i].slabs += more->classes[i].slabs;
        sum->classes[i].slots_total += more->classes[i].slots_total;
        sum->classes[i].slots_live += more->classes[i].slots_live;
        sum->classes[i].slots_limbo += more->classes[i].slots_limbo;
        sum->classes[i].requested_bytes += more->classes[i].requested_bytes;
    }
    for (int i = 0; living && i < POOL_STATS_ORDERS; i++) {
        sum->free_runs_by_order[i] += more->free_runs_by_order[i];
        sum->free_bytes_by_order[i] += more->free_bytes_by_order[i];
    }
}

/* Sums over time add up, where each pool had its own; of the moments the worst counts. Peaks' times
 * are one pool's. */
static void history_add(struct pool_history *sum, const struct pool_history *more)
{
    const struct pool_worst *worst = &more->worst;
    sum->live_byte_ns += more->live_byte_ns;
    sum->held_byte_ns += more->held_byte_ns;
    sum->peak_live_ns = more->peak_live_ns;
    sum->peak_backed_ns = more->peak_backed_ns;
    if (sum->first_ns == 0 || (more->first_ns != 0 && more->first_ns < sum->first_ns))
        sum->first_ns = more->first_ns;
    if (more->last_ns > sum->last_ns)
        sum->last_ns = more->last_ns;
    if (worst->free_bytes - worst->largest_bytes > sum->worst.free_bytes - sum->worst.largest_bytes)
        sum->worst = *worst;
}

/* Frees kept back for a fence are frees, and none of them waited. */
static void kept_add(struct pool_stats *sum, const struct context *context)
{
    uint64_t kept = deferred_kept(context->deferred);
    sum->frees += kept;
    sum->fenced_frees += kept;
}

static void peaks_together(struct pool_stats *sum, const struct pool_together *together)
{
#define TOGETHER(level)                                                                            \
    if (__atomic_load_n(&together->peak_##level, __ATOMIC_RELAXED) > sum->peak_##level)            \
        sum->peak_##level = __atomic_load_n(&together->peak_##level, __ATOMIC_RELAXED);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
}

void figures_retire(struct context *context)
{
    static struct pool_stats last; /* under the registry's lock */
    struct pool_history history;
    pool_history_read(context->pool, &history);
    history_add(&context->device->retired_history, &history);
    pool_stats_read(context->pool, &last);
    kept_add(&last, context);
    stats_add(&context->device->retired, &last, false);
}

static void counters_read(const struct counters *counters, struct counters *out)
{
#define COUNTER(name, unit, meaning) out->name = __atomic_load_n(&counters->name, __ATOMIC_RELAXED);
#include "counters.def"
#undef COUNTER
}

size_t devices_collect(struct report_device *rows, size_t rows_max)
{
    static struct pool_stats one;
    struct pool_history history;
    size_t count = 0;
    for (int d = 0; d < DEVICES_MAX && count < rows_max; d++) {
        struct device *device = device_known(d);
        struct context *context;
        struct report_device *row = &rows[count];
        if (device == NULL)
            continue;
        memset(row, 0, sizeof(*row));
        row->pool = device->retired;
        row->history = device->retired_history;
        for (int slot = 0; (context = device_context(device, &slot)) != NULL;) {
            pool_stats_read(context->pool, &one);
            kept_add(&one, context);
            stats_add(&row->pool, &one, true);
            pool_history_read(context->pool, &history);
            history_add(&row->history, &history);
        }
        peaks_together(&row->pool, &device->together);
        counters_read(&device->counters, &row->counters);
        memcpy(&row->latency, &device->latency, sizeof(row->latency));
        struct counters *c = &row->counters;
        c->alloc_served = row->pool.allocations;
        c->alloc_calls = c->alloc_served + c->alloc_forwarded + c->alloc_failed;
        c->free_served = row->pool.frees + row->pool.retired_blocks;
        c->free_calls = c->free_served + c->free_forwarded + c->free_failed;
        c->free_waits += c->free_served - row->pool.fenced_frees;
        if (c->alloc_calls == 0)
            continue;
        row->ordinal = device->handle;
        memcpy(row->name, device->name, sizeof(row->name));
        row->total_bytes = device->total_bytes;
        row->contexts = device->contexts_served;
        row->peers = device_reached_from_outside(device) ||
                     __atomic_load_n(&device->peers, __ATOMIC_RELAXED) != 0;
        if (row->contexts > 1)
            row->history.peak_live_ns = row->history.peak_backed_ns = 0;
        for (int i = 0; i < REFUSED_FREES_MAX; i++)
            if (__atomic_load_n(&device->refused_frees[i].ready, __ATOMIC_ACQUIRE))
                row->refused_frees[row->refused_count++] = device->refused_frees[i].free;
        count++;
    }
    return count;
}
