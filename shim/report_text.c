/* report_text.c - the exit report for people: one screen a GPU. See report.h.
 *
 * Lines whose figures are all zero are left out, except where zero is the news.
 */
#include <string.h>

#include "../pool/pool.h"
#include "report_buffer.h"
#include "units.h"

enum { CLASS_ROWS_MAX = 8 };

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
static const char *moment(const struct report *report)
{
    return report->at_exit ? "at exit" : "now";
}

static void memory_print(struct report_buffer *out, const struct report *report,
                         const struct pool_stats *pool)
{
    report_print(out, "\n  memory     %14s         peak\n", moment(report));
    report_print(out, "    requested  %12s %12s\n", BYTES(pool->live_requested_bytes),
                 BYTES(pool->peak_live_requested_bytes));
    report_print(out, "    in blocks  %12s %12s   requested, rounded up\n",
                 BYTES(pool->live_block_bytes), BYTES(pool->peak_live_block_bytes));
    report_print(out, "    held       %12s %12s   from the driver, in %s segment%s\n",
                 BYTES(pool->backed_bytes), BYTES(pool->peak_backed_bytes), COUNT(pool->segments),
                 S(pool->segments));
    report_print(
        out, "    balance    %s requested + %s waste + %s limbo + %s free slots + %s free runs\n",
        BYTES(pool->live_requested_bytes), BYTES(pool->internal_waste_bytes),
        BYTES(pool->limbo_bytes), BYTES(pool->slab_free_bytes), BYTES(pool->run_free_bytes));
    report_print(out, "               = %s held\n", BYTES(pool->backed_bytes));
}

static void fragmentation_print(struct report_buffer *out, const struct pool_stats *pool)
{
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
}

/* Orders classes by what they hold, then by how often they were used. */
static bool class_before(const struct pool_class_stats *a, const struct pool_class_stats *b)
{
    uint64_t a_bytes = a->slots_total * a->slot_bytes, b_bytes = b->slots_total * b->slot_bytes;
    return a_bytes != b_bytes ? a_bytes > b_bytes : a->allocations > b->allocations;
}

/* Picks the classes that matter most, as indices, in the order of their sizes. Returns how many. */
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
                        const struct pool_class_stats *c)
{
    char slots[64];
    unit_pair(slots, sizeof(slots), c->slots_live, c->slots_total);
    report_print(out, "    %10s %10s %24s %16s\n", name, COUNT(c->slabs), slots,
                 COUNT(c->allocations));
}

static void slabs_print(struct report_buffer *out, const struct pool_stats *pool)
{
    bool picked[POOL_STATS_CLASSES_MAX];
    struct pool_class_stats rest = {0};
    if (classes_pick(pool, picked) == 0)
        return;
    report_print(out, "\n  slabs   slot      slabs        slots used/total      allocations\n");
    for (int i = 0; i < POOL_STATS_CLASSES_MAX; i++) {
        const struct pool_class_stats *c = &pool->classes[i];
        if (picked[i]) {
            class_print(out, BYTES(c->slot_bytes), c);
            continue;
        }
        rest.slabs += c->slabs;
        rest.slots_live += c->slots_live;
        rest.slots_total += c->slots_total;
        rest.allocations += c->allocations;
    }
    if (rest.allocations > 0)
        class_print(out, "others", &rest);
}

static void runs_print(struct report_buffer *out, const struct pool_stats *pool)
{
    int printed = 0;
    if (pool->free_runs == 0)
        return;
    report_print(out, "\n  free runs by order (runs of at least that size)\n   ");
    for (int order = 0; order < POOL_STATS_ORDERS; order++) {
        if (pool->free_runs_by_order[order] == 0)
            continue;
        if (printed > 0 && printed % 6 == 0)
            report_print(out, "\n   ");
        report_print(out, " %s: %s ", BYTES(POOL_PAGE_BYTES << order),
                     COUNT(pool->free_runs_by_order[order]));
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
    report_print(out, "\n");
    if (report->count_leaks)
        report_print(out, "  live %-7s   %15s   block%s, %s requested\n", moment(report),
                     COUNT(device->pool.live_blocks), S(device->pool.live_blocks),
                     BYTES(device->pool.live_requested_bytes));
    if (report->count_leaks && c->forwarded_live > 0)
        report_print(out, "  the driver's   %15s   block%s live %s, %s\n", COUNT(c->forwarded_live),
                     S(c->forwarded_live), moment(report), BYTES(c->forwarded_live_bytes));
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
        memory_print(out, report, &device->pool);
        fragmentation_print(out, &device->pool);
        slabs_print(out, &device->pool);
        runs_print(out, &device->pool);
    }
    rest_print(out, report, device);
}

/* Figures that add up over GPUs. */
static struct report_device devices_sum(const struct report *report)
{
    struct report_device sum = {0};
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
    }
    return sum;
}

static void verdict_print(struct report_buffer *out, const struct report *report,
                          const struct report_device *sum)
{
    const struct pool_stats *pool = &sum->pool;
    uint64_t served = served_calls(sum), all = all_calls(sum);
    report_print(out, "  %s of %s call%s %s served from the pool (%s). ", COUNT(served), COUNT(all),
                 S(all), served == 1 || all == 1 ? "was" : "were", unit_share(served, all).text);
    if (sum->counters.out_of_memory > 0)
        report_print(out, "%s allocation%s ran out of memory.", COUNT(sum->counters.out_of_memory),
                     S(sum->counters.out_of_memory));
    else
        report_print(out, "No allocation ran out of memory.");
    report_print(out, "\n  Held at most %s from the driver", BYTES(pool->peak_backed_bytes));
    if (pool->run_free_bytes > 0)
        report_print(
            out, "; %s of the free memory %s is outside the largest free run",
            unit_share(pool->run_free_bytes - pool->largest_free_run_bytes, pool->run_free_bytes)
                .text,
            moment(report));
    report_print(out, ".\n");
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
    struct report_device sum = devices_sum(report);
    report_print(out, "\nvramalloc report");
    origin_print(out, report);
    report_print(out, ": %s (pid %d), %.1f s, free=%s backing=%s\n", report->program, report->pid,
                 report->seconds, report->free_mode, report->backing);
    verdict_print(out, report, &sum);
    for (size_t i = 0; i < report->device_count; i++)
        device_print(out, report, &report->devices[i]);
    if (report->device_count > 1)
        report_print(out, "\nAll %zu GPUs: %s allocation%s, %s free%s, %s held %s\n",
                     report->device_count, COUNT(sum.counters.alloc_calls),
                     S(sum.counters.alloc_calls), COUNT(sum.counters.free_calls),
                     S(sum.counters.free_calls), BYTES(sum.pool.backed_bytes), moment(report));
}
