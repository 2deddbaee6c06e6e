/* advice.c - the rules. See advice.h.
 *
 * In the order of how pressing they are: what let allocations fail, what cost time, what held
 * memory.
 */
#include "advice.h"

#include <stdio.h>
#include <string.h>

#include "units.h"

#define BYTES(value) unit_bytes(value).text
#define COUNT(value) unit_count(value).text
#define S(count)     unit_plural(count)

#define RESERVE_BYTES ((uint64_t)256 << 20)

enum { WAIT_PERCENT = 5, GROWTH_PERCENT = 2, HELD_PERCENT = 125, FULL_SHARE = 2 };

struct rule {
    const struct report *report;
    const struct report_device *device;
    struct advice *out; /* ordinal is set */
};

static bool deferred(const struct report *report)
{
    return strcmp(report->free_mode, "deferred") == 0;
}

static bool by_handle(const struct report *report)
{
    return strcmp(report->backing, "vmm") == 0;
}

/* Somebody else than this device's own contexts uses its memory. */
static bool shared(const struct report_device *device)
{
    const struct counters *c = &device->counters;
    return device->peers || c->shared_ipc > 0 || c->shared_rdma > 0 || c->ipc_refused > 0;
}

static uint64_t run_ns(const struct report *report)
{
    return (uint64_t)(report->seconds * 1e9);
}

static bool is_share(uint64_t part, uint64_t whole, unsigned int percent)
{
    return whole > 0 && (double)part * 100 >= (double)whole * percent;
}

#define SAY(field, ...) snprintf(rule->out->field, sizeof(rule->out->field), __VA_ARGS__)

static void pieces_say(const struct rule *rule)
{
    uint64_t count = rule->device->counters.out_of_memory_pieces;
    SAY(figure, "%s allocation%s failed although enough memory was free, in pieces", COUNT(count),
        S(count));
}

static bool pieces_moved(const struct rule *rule)
{
    uint64_t count = rule->device->counters.out_of_memory_pieces;
    if (count == 0 || by_handle(rule->report) || shared(rule->device))
        return false;
    SAY(setting, "VRAMALLOC_BACKING=vmm");
    pieces_say(rule);
    SAY(effect, "moves free memory together; check first that no other process is to open it (CUDA "
                "IPC)");
    return true;
}

static bool pieces_packed(const struct rule *rule)
{
    uint64_t count = rule->device->counters.out_of_memory_pieces;
    if (count == 0 || rule->report->slack == 0 ||
        (!by_handle(rule->report) && !shared(rule->device)))
        return false;
    SAY(setting, "VRAMALLOC_SLACK=0");
    pieces_say(rule);
    SAY(effect, "takes memory in the pieces that the driver would; costs more driver calls");
    return true;
}

static bool pending_waited(const struct rule *rule)
{
    uint64_t count = rule->device->counters.out_of_memory_pending;
    if (count == 0 || !deferred(rule->report))
        return false;
    SAY(setting, "VRAMALLOC_FREE=sync");
    SAY(figure, "%s allocation%s failed while freed memory still waited for the GPU", COUNT(count),
        S(count));
    SAY(effect, "frees wait for the GPU, so what is freed can be had at once; costs time");
    return true;
}

static bool waits_avoided(const struct rule *rule)
{
    const struct counters *c = &rule->device->counters;
    if (deferred(rule->report) || shared(rule->device) ||
        !is_share(c->free_wait_ns, run_ns(rule->report), WAIT_PERCENT))
        return false;
    SAY(setting, "VRAMALLOC_FREE=deferred");
    SAY(figure, "%s of the run was cudaFree waiting for the GPU (%s in %s frees)",
        unit_share(c->free_wait_ns, run_ns(rule->report)).text, unit_ns(c->free_wait_ns).text,
        COUNT(c->free_waits));
    SAY(effect, "frees return at once; check first that the program synchronises before it reads "
                "results");
    return true;
}

static bool growth_ahead(const struct rule *rule)
{
    const struct report_device *device = rule->device;
    uint64_t ns = device->latency.growth.sum_ns, peak_bytes = device->pool.peak_backed_bytes;
    uint64_t mib = (peak_bytes + ((uint64_t)1 << 20) - 1) >> 20;
    if (!is_share(ns, run_ns(rule->report), GROWTH_PERCENT) || device->latency.growth.count < 8 ||
        peak_bytes > device->total_bytes / FULL_SHARE)
        return false;
    SAY(setting, "VRAMALLOC_ARENA_SIZE=%lluM", (unsigned long long)mib);
    SAY(figure, "%s of the run was spent taking %s segments from the driver",
        unit_share(ns, run_ns(rule->report)).text, COUNT(device->latency.growth.count));
    SAY(effect, "takes the %s that were held at most at once, and keeps them", BYTES(peak_bytes));
    return true;
}

static bool held_less(const struct rule *rule)
{
    const struct pool_stats *pool = &rule->device->pool;
    uint64_t need_bytes = pool->peak_driver_live_bytes + RESERVE_BYTES;
    if (rule->report->slack == 0 || need_bytes == RESERVE_BYTES ||
        pool->peak_backed_bytes < rule->device->total_bytes / FULL_SHARE ||
        !is_share(pool->peak_backed_bytes, need_bytes, HELD_PERCENT))
        return false;
    SAY(setting, "VRAMALLOC_SLACK=0");
    SAY(figure, "%s were held where the driver alone would have needed %s",
        BYTES(pool->peak_backed_bytes), BYTES(pool->peak_driver_live_bytes));
    SAY(effect, "gives memory back sooner; costs more driver calls");
    return true;
}

static bool said(const struct advice *advice, int count, const char *setting)
{
    for (int i = 0; i < count; i++)
        if (strcmp(advice[i].setting, setting) == 0)
            return true;
    return false;
}

int advice_make(const struct report *report, struct advice advice[ADVICE_MAX])
{
    static bool (*const rules[])(const struct rule *) = {
        pieces_moved, pieces_packed, pending_waited, waits_avoided, growth_ahead, held_less};
    int count = 0;
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++)
        for (size_t i = 0; i < report->device_count && count < ADVICE_MAX; i++) {
            struct advice one = {.ordinal = report->devices[i].ordinal};
            struct rule rule = {.report = report, .device = &report->devices[i], .out = &one};
            if (rules[r](&rule) && !said(advice, count, one.setting))
                advice[count++] = one;
        }
    return count;
}
