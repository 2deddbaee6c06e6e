/* report_json.c - the exit report for programs: one JSON document, schema vramalloc-report/2
 * (docs/report.schema.json). Every statistic and counter is in it, from the same lists as the text.
 *
 * Bytes and counts are integers. A ratio that is not defined (nothing live, nothing free) is left
 * out.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "advice.h"
#include "rank.h"
#include "report_buffer.h"
#include "text.h"
#include "units.h"

#define U(value) ((unsigned long long)(value))

void report_json_string(struct report_buffer *out, const char *text)
{
    report_print(out, "\"");
    while (*text != '\0') {
        size_t bytes = text_character_bytes(text);
        if (bytes == 0)
            report_print(out, "\\ufffd");
        else if (*text == '"' || *text == '\\')
            report_print(out, "\\%c", *text);
        else if (bytes == 1 && (*text < 0x20 || *text == 0x7f))
            report_print(out, "\\u%04x", (unsigned)*text);
        else
            report_print(out, "%.*s", (int)bytes, text);
        text += bytes > 0 ? bytes : 1;
    }
    report_print(out, "\"");
}

static void ratio_print(struct report_buffer *out, const char *name, uint64_t part, uint64_t whole)
{
    if (whole > 0)
        report_print(out, "     \"%s\": %.6f,\n", name, (double)part / (double)whole);
}

static void counters_print(struct report_buffer *out, const struct counters *counters)
{
    const char *comma = "";
    report_print(out, "     \"calls\": {");
#define COUNTER(name, unit, meaning)                                                               \
    report_print(out, "%s\n       \"%s\": %llu", comma, #name, U(counters->name));                 \
    comma = ",";
#include "counters.def"
#undef COUNTER
    report_print(out, "},\n");
}

static void pool_print(struct report_buffer *out, const struct pool_stats *pool)
{
    const char *comma = "";
    report_print(out, "     \"pool\": {");
#define STAT(name, unit, kind, meaning)                                                            \
    report_print(out, "%s\n       \"%s\": %llu", comma, #name, U(pool->name));                     \
    comma = ",";
#include "../pool/stats.def"
#undef STAT
    report_print(out, "},\n");
}

static void classes_print(struct report_buffer *out, const struct pool_stats *pool)
{
    const char *comma = "";
    report_print(out, "     \"slab_classes\": [");
    for (int i = 0; i < POOL_STATS_CLASSES_MAX && pool->classes[i].slot_bytes > 0; i++) {
        const struct pool_class_stats *c = &pool->classes[i];
        report_print(out,
                     "%s\n       {\"slot_bytes\": %llu, \"slabs\": %llu, \"slots_total\": %llu, "
                     "\"slots_live\": %llu, \"slots_limbo\": %llu, \"requested_bytes\": %llu, "
                     "\"allocations\": %llu}",
                     comma, U(c->slot_bytes), U(c->slabs), U(c->slots_total), U(c->slots_live),
                     U(c->slots_limbo), U(c->requested_bytes), U(c->allocations));
        comma = ",";
    }
    report_print(out, "],\n");
}

static void orders_print(struct report_buffer *out, const struct pool_stats *pool)
{
    uint64_t shorter_bytes = 0;
    const char *comma = "";
    report_print(out, "     \"free_runs_by_order\": [");
    for (int i = 0; i < POOL_STATS_ORDERS; i++) {
        if (pool->free_runs_by_order[i] == 0)
            continue;
        report_print(out,
                     "%s\n       {\"order\": %d, \"runs\": %llu, \"bytes\": %llu, "
                     "\"unusable_index\": %.6f}",
                     comma, i, U(pool->free_runs_by_order[i]), U(pool->free_bytes_by_order[i]),
                     (double)shorter_bytes / (double)pool->run_free_bytes);
        shorter_bytes += pool->free_bytes_by_order[i];
        comma = ",";
    }
    report_print(out, "]");
}

/* A moment in seconds since the first CUDA call; left out where it is not known. */
static void moment_print(struct report_buffer *out, const struct report *report, const char *name,
                         uint64_t at_ns)
{
    if (at_ns != 0)
        report_print(out, ", \"%s\": %.3f", name,
                     at_ns > report->start_ns ? (double)(at_ns - report->start_ns) / 1e9 : 0.0);
}

static void history_print(struct report_buffer *out, const struct report *report,
                          const struct report_device *device)
{
    const struct pool_history *history = &device->history;
    const struct pool_worst *worst = &history->worst;
    double run_ns = report_mean_ns(report, history);
    report_print(out,
                 "     \"history\": {\"mean_live_block_bytes\": %llu, \"mean_backed_bytes\": %llu",
                 U(history->live_byte_ns / run_ns), U(history->held_byte_ns / run_ns));
    moment_print(out, report, "peak_live_block_seconds", history->peak_live_ns);
    moment_print(out, report, "peak_backed_seconds", history->peak_backed_ns);
    report_print(out, "},\n");
    if (worst->at_ns == 0)
        return;
    report_print(out,
                 "     \"worst_fragmentation\": {\"asked_bytes\": %llu, \"run_free_bytes\": %llu, "
                 "\"largest_free_run_bytes\": %llu, \"pinned_segments\": %llu, "
                 "\"pin_size_bytes\": %llu, \"pin_blocks\": %llu, \"pin_bytes\": %llu",
                 U(worst->asked_bytes), U(worst->free_bytes), U(worst->largest_bytes),
                 U(worst->pinned_segments), U(worst->pin_size_bytes), U(worst->pin_blocks),
                 U(worst->pin_bytes));
    moment_print(out, report, "seconds", worst->at_ns);
    report_print(out, "},\n");
}

static void advice_print(struct report_buffer *out, const struct report *report)
{
    struct advice advice[ADVICE_MAX];
    int count = advice_make(report, advice);
    report_print(out, " \"advice\": [");
    for (int i = 0; i < count; i++) {
        report_print(out, "%s\n   {\"gpu\": %d, \"setting\": ", i > 0 ? "," : "",
                     advice[i].ordinal);
        report_json_string(out, advice[i].setting);
        report_print(out, ", \"figure\": ");
        report_json_string(out, advice[i].figure);
        report_print(out, ", \"effect\": ");
        report_json_string(out, advice[i].effect);
        report_print(out, "}");
    }
    report_print(out, "],\n");
}

static void refused_print(struct report_buffer *out, const struct report_device *device)
{
    report_print(out, "     \"invalid_frees\": [");
    for (size_t i = 0; i < device->refused_count; i++) {
        const struct refused_free *free = &device->refused_frees[i];
        report_print(out,
                     "%s\n       {\"address\": %llu, \"block_address\": %llu, "
                     "\"block_bytes\": %llu}",
                     i > 0 ? "," : "", U(free->address), U(free->block_address),
                     U(free->block_bytes));
    }
    report_print(out, "],\n");
}

static void device_print(struct report_buffer *out, const struct report *report,
                         const struct report_device *device)
{
    const struct pool_stats *pool = &device->pool;
    report_print(out, "    {\"ordinal\": %d,\n     \"name\": ", device->ordinal);
    report_json_string(out, device->name);
    report_print(out, ",\n     \"total_bytes\": %llu,\n     \"contexts\": %llu,\n",
                 U(device->total_bytes), U(device->contexts));
    report_print(out, "     \"peers\": %d,\n", device->peers);
    ratio_print(out, "internal_fragmentation", pool->internal_waste_bytes, pool->live_block_bytes);
    ratio_print(out, "external_fragmentation", pool->run_free_bytes - pool->largest_free_run_bytes,
                pool->run_free_bytes);
    counters_print(out, &device->counters);
    report_latency_json(out, device);
    history_print(out, report, device);
    refused_print(out, device);
    report_live_json(out, report, device);
    pool_print(out, pool);
    classes_print(out, pool);
    orders_print(out, pool);
    report_print(out, "}");
}

/* Which of many reports this is. */
static void origin_print(struct report_buffer *out, const struct report *report)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    report_print(out, " \"number\": %llu,\n \"reason\": \"%s\",\n", U(report->number),
                 report->reason);
    report_print(out, " \"time\": \"%s\",\n \"host\": ", unit_time(report->time).text);
    report_json_string(out, host);
    report_print(out, ",\n");
    if (rank_number() != RANK_UNKNOWN)
        report_print(out, " \"rank\": %d,\n", rank_number());
    if (rank_count() != RANK_UNKNOWN)
        report_print(out, " \"ranks\": %d,\n", rank_count());
}

void report_json_make(struct report_buffer *out, const struct report *report)
{
    report_print(out, "{\"schema\": \"vramalloc-report/2\",\n \"program\": ");
    report_json_string(out, report->program);
    report_print(out, ",\n \"pid\": %d,\n \"seconds\": %.6f,\n", report->pid, report->seconds);
    origin_print(out, report);
    report_print(out,
                 " \"settings\": {\"free\": \"%s\", \"backing\": \"%s\", \"slack\": %u, "
                 "\"leaks\": \"%s\"},\n",
                 report->free_mode, report->backing, report->slack,
                 !report->count_leaks ? "off"
                 : report->stacks     ? "stacks"
                                      : "count");
    advice_print(out, report);
    report_callers_json(out, report);
    report_print(out, " \"gpus\": [\n");
    for (size_t i = 0; i < report->device_count; i++) {
        device_print(out, report, &report->devices[i]);
        report_print(out, i + 1 < report->device_count ? ",\n" : "\n");
    }
    report_print(out, " ]}\n");
}
