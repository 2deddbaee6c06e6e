/* report_text.c - the exit report for people: one screen a GPU. See report.h.
 *
 * Lines whose figures are all zero are left out, except where zero is the news.
 */
#include <stdio.h>
#include <string.h>

#include "../pool/pool.h"
#include "advice.h"
#include "report_buffer.h"
#include "units.h"

enum { CLASS_ROWS_MAX = 3 };

#define BYTES(value) unit_bytes(value).text
#define COUNT(value) unit_count(value).text
#define S(count)     unit_plural(count)

static uint64_t served_calls(const struct report_device *device)
{
    return device->counters.alloc_served + device->counters.free_served;
}

static uint64_t all_calls(const struct report_device *device)
{
    return device->counters.alloc_calls + device->counters.free_calls;
}

static void calls_print(struct report_buffer *out, const struct report_device *device)
{
    const struct counters *c = &device->counters;
    report_print(out, "  allocations    %15s   served %s, by the driver %s, failed %s\n",
                 COUNT(c->alloc_calls), COUNT(c->alloc_served), COUNT(c->alloc_forwarded),
                 COUNT(c->alloc_failed));
    report_print(out, "  frees          %15s   served %s, by the driver %s, failed %s\n",
                 COUNT(c->free_calls), COUNT(c->free_served), COUNT(c->free_forwarded),
                 COUNT(c->free_failed));
    report_print(out, "  asked for      %15s   in all served allocations\n",
                 BYTES(device->pool.requested_bytes));
    if (c->alloc_async_calls > 0)
        report_print(out, "  stream-ordered %15s   of the allocations, %s reused on their stream\n",
                     COUNT(c->alloc_async_calls), COUNT(device->pool.stream_reuses));
    report_print(out, "  driver calls   %15s   to allocate and free; without the library %s\n",
                 COUNT(c->driver_calls), COUNT(all_calls(device)));
    if (c->free_waits > 0)
        report_print(out, "  waits in free  %15s   for the GPU, as the real call does: %s in all\n",
                     COUNT(c->free_waits), unit_ns(c->free_wait_ns).text);
    if (c->out_of_memory > 0)
        report_print(out, "  out of memory  %15s   allocation%s refused by the driver\n",
                     COUNT(c->out_of_memory), S(c->out_of_memory));
}

/* What the levels in the report are of. */
static const char *levels_of(const struct report *report)
{
    return report->at_exit ? "at exit" : "now";
}

/* Seconds since the first CUDA call, as text; empty where the moment is not known. */
static struct unit_text moment(const struct report *report, uint64_t at_ns)
{
    uint64_t ns = at_ns > report->start_ns ? at_ns - report->start_ns : 0;
    struct unit_text out = {""};
    if (at_ns != 0)
        snprintf(out.text, sizeof(out.text), "%.1f s", (double)ns / 1e9);
    return out;
}

/* The mean of a level from its sum over time; empty where it is not known. */
static struct unit_text mean(const struct report *report, const struct pool_history *history,
                             double byte_ns)
{
    if (byte_ns <= 0)
        return (struct unit_text){""};
    return unit_bytes((uint64_t)(byte_ns / report_mean_ns(report, history)));
}

static void memory_print(struct report_buffer *out, const struct report *report,
                         const struct report_device *device)
{
    const struct pool_stats *pool = &device->pool;
    const struct pool_history *history = &device->history;
    report_print(out, "\n  memory     %14s         mean         peak         at\n",
                 levels_of(report));
    report_print(out, "    requested  %12s %12s %12s\n", BYTES(pool->live_requested_bytes), "",
                 BYTES(pool->peak_live_requested_bytes));
    report_print(out, "    in blocks  %12s %12s %12s %10s   requested, rounded up\n",
                 BYTES(pool->live_block_bytes), mean(report, history, history->live_byte_ns).text,
                 BYTES(pool->peak_live_block_bytes), moment(report, history->peak_live_ns).text);
    report_print(out, "    held       %12s %12s %12s %10s   from the driver, in %s segment%s\n",
                 BYTES(pool->backed_bytes), mean(report, history, history->held_byte_ns).text,
                 BYTES(pool->peak_backed_bytes), moment(report, history->peak_backed_ns).text,
                 COUNT(pool->segments), S(pool->segments));
    report_print(
        out, "    held = %s requested + %s waste + %s limbo + %s free slots + %s free runs\n",
        BYTES(pool->live_requested_bytes), BYTES(pool->internal_waste_bytes),
        BYTES(pool->limbo_bytes), BYTES(pool->slab_free_bytes), BYTES(pool->run_free_bytes));
}

/* The moment at which the free memory lay in the worst pieces. */
static void worst_print(struct report_buffer *out, const struct report *report,
                        const struct pool_worst *worst)
{
    if (worst->at_ns == 0)
        return;
    report_print(out, "    at worst   %12s   of %s free, at %s, when %s were asked for\n",
                 unit_share(worst->free_bytes - worst->largest_bytes, worst->free_bytes).text,
                 BYTES(worst->free_bytes), moment(report, worst->at_ns).text,
                 BYTES(worst->asked_bytes));
    if (worst->pin_blocks > 0)
        report_print(out,
                     "    in the way %12s   in %s block%s of %s to %s, in segments mostly free\n",
                     BYTES(worst->pin_bytes), COUNT(worst->pin_blocks), S(worst->pin_blocks),
                     BYTES(worst->pin_size_bytes), BYTES(2 * worst->pin_size_bytes));
}

static void fragmentation_print(struct report_buffer *out, const struct report *report,
                                const struct report_device *device)
{
    const struct pool_stats *pool = &device->pool;
    report_print(out, "\n  fragmentation\n");
    if (pool->live_block_bytes > 0)
        report_print(out, "    internal   %12s   waste inside blocks / blocks\n",
                     unit_share(pool->internal_waste_bytes, pool->live_block_bytes).text);
    if (pool->run_free_bytes > 0)
        report_print(
            out, "    external   %12s   1 - largest free run / free runs\n",
            unit_share(pool->run_free_bytes - pool->largest_free_run_bytes, pool->run_free_bytes)
                .text);
    report_print(out, "    largest free run %s of %s free in %s run%s\n",
                 BYTES(pool->largest_free_run_bytes), BYTES(pool->run_free_bytes),
                 COUNT(pool->free_runs), S(pool->free_runs));
    worst_print(out, report, &device->history.worst);
}

/* What a class holds that nobody asked for. */
static uint64_t class_waste(const struct pool_class_stats *c)
{
    return (c->slots_total - c->slots_limbo) * c->slot_bytes - c->requested_bytes;
}

/* Orders classes by what they waste, then by how often they were used. */
static bool class_before(const struct pool_class_stats *a, const struct pool_class_stats *b)
{
    uint64_t a_bytes = class_waste(a), b_bytes = class_waste(b);
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->allocations > b->allocations;
}

/* Picks the classes that waste most, as indices, in the order of their sizes. Returns how many. */
static int classes_pick(const struct pool_stats *pool, bool picked[POOL_STATS_CLASSES_MAX])
{
    int count = 0;
    memset(picked, 0, POOL_STATS_CLASSES_MAX * sizeof(bool));
    for (; count < CLASS_ROWS_MAX; count++) {
        int best = -1;
        for (int i = 0; i < POOL_STATS_CLASSES_MAX; i++)
            if (!picked[i] && pool->classes[i].allocations > 0 &&
                (best < 0 || class_before(&pool->classes[i], &pool->classes[best])))
                best = i;
        if (best < 0)
            break;
        picked[best] = true;
    }
    return count;
}

static void class_print(struct report_buffer *out, const char *name,
                        const struct pool_class_stats *c, uint64_t waste)
{
    char slots[64];
    unit_pair(slots, sizeof(slots), c->slots_live, c->slots_total);
    report_print(out, "    %10s %10s %24s %16s %11s\n", name, COUNT(c->slabs), slots,
                 COUNT(c->allocations), BYTES(waste));
}

static void slabs_print(struct report_buffer *out, const struct pool_stats *pool)
{
    bool picked[POOL_STATS_CLASSES_MAX];
    struct pool_class_stats rest = {0};
    uint64_t rest_waste = 0;
    if (classes_pick(pool, picked) == 0)
        return;
    report_print(
        out, "  slabs   slot      slabs        slots used/total      allocations       waste\n");
    for (int i = 0; i < POOL_STATS_CLASSES_MAX; i++) {
        const struct pool_class_stats *c = &pool->classes[i];
        if (picked[i]) {
            class_print(out, BYTES(c->slot_bytes), c, class_waste(c));
            continue;
        }
        rest_waste += class_waste(c);
        rest.slabs += c->slabs;
        rest.slots_live += c->slots_live;
        rest.slots_total += c->slots_total;
        rest.allocations += c->allocations;
    }
    if (rest.allocations > 0)
        class_print(out, "others", &rest, rest_waste);
}

static void runs_print(struct report_buffer *out, const struct pool_stats *pool)
{
    int printed = 0;
    uint64_t shorter_bytes = 0;
    if (pool->free_runs == 0)
        return;
    report_print(out, "  free runs of at least a size: how many (share of the free memory that is "
                      "in shorter ones)\n   ");
    for (int order = 0; order < POOL_STATS_ORDERS; order++) {
        if (pool->free_runs_by_order[order] == 0)
            continue;
        if (printed > 0 && printed % 5 == 0)
            report_print(out, "\n   ");
        report_print(out, " %s: %s (%s) ", BYTES(POOL_PAGE_BYTES << order),
                     COUNT(pool->free_runs_by_order[order]),
                     unit_share(shorter_bytes, pool->run_free_bytes).text);
        shorter_bytes += pool->free_bytes_by_order[order];
        printed++;
    }
    report_print(out, "\n");
}

/* one: the noun, for one call; more: what follows it. */
static void passed_print(struct report_buffer *out, const char *one, const char *more,
                         uint64_t calls, uint64_t bytes)
{
    if (calls == 0)
        return;
    report_print(out, "  passed through %15s   %s%s%s", COUNT(calls), one, S(calls), more);
    if (bytes > 0)
        report_print(out, ", %s", BYTES(bytes));
    report_print(out, "\n");
}

/* Which frees were refused, and why. */
static void refused_print(struct report_buffer *out, const struct report_device *device)
{
    report_print(out, "  invalid frees  %15s   refused, as the driver refuses them\n",
                 COUNT(device->counters.free_invalid));
    for (size_t i = 0; i < device->refused_count; i++) {
        const struct refused_free *free = &device->refused_frees[i];
        report_print(out, "      %#14llx   ", (unsigned long long)free->address);
        if (free->block_address == 0)
            report_print(out, "free already\n");
        else
            report_print(out, "inside the block of %s at %#llx\n", BYTES(free->block_bytes),
                         (unsigned long long)free->block_address);
    }
    if (device->counters.free_invalid > device->refused_count)
        report_print(out, "      and %s more\n",
                     COUNT(device->counters.free_invalid - device->refused_count));
}

static void rest_print(struct report_buffer *out, const struct report *report,
                       const struct report_device *device)
{
    const struct counters *c = &device->counters;
    if (report->count_leaks)
        report_print(out, "  live %-7s   %15s   block%s, %s requested\n", levels_of(report),
                     COUNT(device->pool.live_blocks), S(device->pool.live_blocks),
                     BYTES(device->pool.live_requested_bytes));
    if (report->count_leaks && c->forwarded_live > 0)
        report_print(out, "  the driver's   %15s   block%s live %s, %s\n", COUNT(c->forwarded_live),
                     S(c->forwarded_live), levels_of(report), BYTES(c->forwarded_live_bytes));
    if (report->count_leaks)
        report_live_text(out, report, device);
    if (c->free_invalid > 0)
        refused_print(out, device);
    if (c->ipc_refused > 0)
        report_print(out, "  IPC refused    %15s   %s\n", COUNT(c->ipc_refused),
                     c->ipc_refused == 1 ? "handle of a block" : "handles of blocks");
    if (c->debug_overruns + c->debug_late_writes > 0)
        report_print(out, "  found          %15s   past ends of blocks, %s after frees (debug)\n",
                     COUNT(c->debug_overruns), COUNT(c->debug_late_writes));
    passed_print(out, "managed allocation", "", c->passed_managed, c->passed_managed_bytes);
    passed_print(out, "host allocation", "", c->passed_host, c->passed_host_bytes);
    passed_print(out, "array", "", c->passed_array, 0);
    passed_print(out, "allocation", " from explicit pools", c->passed_pool, c->passed_pool_bytes);
    passed_print(out, "cuMemCreate allocation", "", c->passed_create, c->passed_create_bytes);
    passed_print(out, "stream-ordered call", " while capturing", c->passed_capture, 0);
}

static void device_print(struct report_buffer *out, const struct report *report,
                         const struct report_device *device)
{
    report_print(out, "\nGPU %d", device->ordinal);
    if (device->name[0] != '\0')
        report_print(out, ": %s", device->name);
    if (device->total_bytes > 0)
        report_print(out, ", %s", BYTES(device->total_bytes));
    if (device->contexts > 1)
        report_print(out, " (%s contexts)", COUNT(device->contexts));
    report_print(out, "\n");
    calls_print(out, device);
    report_latency_text(out, device);
    if (device->pool.allocations > 0) {
        memory_print(out, report, device);
        fragmentation_print(out, report, device);
        slabs_print(out, &device->pool);
        runs_print(out, &device->pool);
    }
    rest_print(out, report, device);
}

/* Figures that add up over GPUs. */
static const struct report_device *devices_sum(const struct report *report)
{
    static struct report_device sum; /* the stack may be small */
    memset(&sum, 0, sizeof(sum));
    for (size_t i = 0; i < report->device_count; i++) {
        const struct report_device *device = &report->devices[i];
#define COUNTER(name, unit, meaning) sum.counters.name += device->counters.name;
#include "counters.def"
#undef COUNTER
        sum.pool.backed_bytes += device->pool.backed_bytes;
        sum.pool.peak_backed_bytes += device->pool.peak_backed_bytes;
        sum.pool.live_requested_bytes += device->pool.live_requested_bytes;
        sum.pool.live_block_bytes += device->pool.live_block_bytes;
        sum.pool.internal_waste_bytes += device->pool.internal_waste_bytes;
        sum.pool.run_free_bytes += device->pool.run_free_bytes;
        sum.pool.largest_free_run_bytes += device->pool.largest_free_run_bytes;
        sum.pool.peak_driver_live_bytes += device->pool.peak_driver_live_bytes;
        sum.latency.growth.sum_ns += device->latency.growth.sum_ns;
    }
    return &sum;
}

/* How it went, call by call. */
static void outcome_print(struct report_buffer *out, const struct report_device *sum)
{
    const struct counters *c = &sum->counters;
    uint64_t served = served_calls(sum), all = all_calls(sum);
    report_print(out, "  %s of %s call%s %s served from the pool (%s). ", COUNT(served), COUNT(all),
                 S(all), served == 1 || all == 1 ? "was" : "were", unit_share(served, all).text);
    if (c->out_of_memory == 0) {
        report_print(out, "No allocation ran out of memory.\n");
        return;
    }
    report_print(out, "%s allocation%s ran out of memory", COUNT(c->out_of_memory),
                 S(c->out_of_memory));
    const char *between = ": ";
    const struct {
        uint64_t count;
        const char *words;
    } causes[] = {{c->out_of_memory_size, "for size"},
                  {c->out_of_memory_pending, "waiting for the GPU"},
                  {c->out_of_memory_pieces, "for pieces"}};
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        if (causes[i].count == 0)
            continue;
        report_print(out, "%s%s %s", between, COUNT(causes[i].count), causes[i].words);
        between = ", ";
    }
    report_print(out, ".\n");
}

/* What was held against what the driver alone would have needed at least. */
static void footprint_print(struct report_buffer *out, const struct report *report,
                            const struct report_device *sum)
{
    const struct pool_stats *pool = &sum->pool;
    report_print(out, "  Held at most %s from the driver", BYTES(pool->peak_backed_bytes));
    if (report->device_count == 1 && pool->peak_driver_live_bytes > 0)
        report_print(out, "; without the library the blocks would have taken %s or more",
                     BYTES(pool->peak_driver_live_bytes));
    report_print(out, ".\n");
    if (pool->run_free_bytes > 0)
        report_print(
            out, "  Fragmentation: %s of the free memory %s is outside the largest free run",
            unit_share(pool->run_free_bytes - pool->largest_free_run_bytes, pool->run_free_bytes)
                .text,
            levels_of(report));
    const struct pool_worst *worst = &report->devices[0].history.worst;
    if (pool->run_free_bytes > 0 && report->device_count == 1 && worst->at_ns != 0)
        report_print(out, ", %s of %s at worst",
                     unit_share(worst->free_bytes - worst->largest_bytes, worst->free_bytes).text,
                     BYTES(worst->free_bytes));
    if (pool->run_free_bytes > 0)
        report_print(out, ".\n");
}

/* Where the time of allocations and frees went that is known. */
static void time_print(struct report_buffer *out, const struct report *report,
                       const struct report_device *sum)
{
    uint64_t run_ns = (uint64_t)(report->seconds * 1e9);
    uint64_t growth_ns = sum->latency.growth.sum_ns, wait_ns = sum->counters.free_wait_ns;
    if (growth_ns + wait_ns == 0)
        return;
    report_print(out,
                 "  Of the run %s went into waiting for the GPU in frees (%s), %s into memory from "
                 "the driver (%s).\n",
                 unit_share(wait_ns, run_ns).text, unit_ns(wait_ns).text,
                 unit_share(growth_ns, run_ns).text, unit_ns(growth_ns).text);
}

static void verdict_print(struct report_buffer *out, const struct report *report,
                          const struct report_device *sum)
{
    outcome_print(out, sum);
    footprint_print(out, report, sum);
    time_print(out, report, sum);
}

static void advice_print(struct report_buffer *out, const struct report *report)
{
    struct advice advice[ADVICE_MAX];
    int count = advice_make(report, advice);
    for (int i = 0; i < count; i++) {
        report_print(out, "%s  %d. %s: %s", i == 0 ? "\nWhat to try\n" : "", i + 1,
                     advice[i].setting, advice[i].figure);
        if (report->device_count > 1)
            report_print(out, ", on GPU %d", advice[i].ordinal);
        report_print(out, ".\n     %s.\n", advice[i].effect);
    }
}

/* Of the only report, which is made at exit, nothing. */
static void origin_print(struct report_buffer *out, const struct report *report)
{
    if (report->at_exit && report->number == 1)
        return;
    report_print(out, " %s (%s, %s)", COUNT(report->number), report->reason,
                 unit_time(report->time).text);
}

void report_text_make(struct report_buffer *out, const struct report *report)
{
    const struct report_device *sum = devices_sum(report);
    report_print(out, "\nvramalloc report");
    origin_print(out, report);
    report_print(out, ": %s (pid %d), %.1f s, free=%s backing=%s\n", report->program, report->pid,
                 report->seconds, report->free_mode, report->backing);
    verdict_print(out, report, sum);
    for (size_t i = 0; i < report->device_count; i++)
        device_print(out, report, &report->devices[i]);
    if (report->device_count > 1)
        report_print(out, "\nAll %zu GPUs: %s allocation%s, %s free%s, %s held %s\n",
                     report->device_count, COUNT(sum->counters.alloc_calls),
                     S(sum->counters.alloc_calls), COUNT(sum->counters.free_calls),
                     S(sum->counters.free_calls), BYTES(sum->pool.backed_bytes), levels_of(report));
    report_callers_text(out, report);
    advice_print(out, report);
}
