/* report_latency.c - the part of the exit report about how long calls took. See report.h.
 *
 * Of calls that are sampled a high percentile rests on few of them: the text says how many were
 * timed, the JSON has the buckets.
 */
#include "report_buffer.h"
#include "units.h"

#define U(value) ((unsigned long long)(value))

static struct histogram_summary summary_of(const struct report_device *device,
                                           enum latency_kind kind)
{
    const struct latency *latency = &device->latency;
    uint64_t calls =
        kind == LATENCY_ALLOC ? device->counters.alloc_calls : device->counters.free_calls;
    return histogram_summarize(&latency->sampled[kind], &latency->slow[kind], calls);
}

static struct histogram_summary growth_of(const struct report_device *device)
{
    static const struct histogram none;
    return histogram_summarize(&none, &device->latency.growth, device->latency.growth.count);
}

/* --- text --------------------------------------------------------------------------------------
 */

static void row_print(struct report_buffer *out, const char *name,
                      const struct histogram_summary *summary)
{
    if (!summary->known)
        return;
    report_print(out, "    %-13s %9s %9s %9s %9s   of %s, %s timed\n", name,
                 unit_ns(summary->p50_ns).text, unit_ns(summary->p99_ns).text,
                 unit_ns(summary->p999_ns).text, unit_ns(summary->max_ns).text,
                 unit_count(summary->calls).text, unit_count(summary->timed).text);
}

void report_latency_text(struct report_buffer *out, const struct report_device *device)
{
    struct histogram_summary allocations = summary_of(device, LATENCY_ALLOC);
    struct histogram_summary frees = summary_of(device, LATENCY_FREE);
    struct histogram_summary growth = growth_of(device);
    if (!allocations.known && !frees.known)
        return;
    report_print(out, "\n  a call took           p50       p99    p99.9       most\n");
    row_print(out, "allocations", &allocations);
    row_print(out, "frees", &frees);
    if (growth.known)
        report_print(out, "    %-13s %9s %29s   %s segment%s from the driver\n", "growth",
                     unit_ns(growth.p50_ns).text, unit_ns(growth.max_ns).text,
                     unit_count(growth.calls).text, unit_plural(growth.calls));
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void buckets_print(struct report_buffer *out, const struct histogram *sampled,
                          const struct histogram *all)
{
    const char *comma = "";
    report_print(out, "\"buckets\": [");
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (sampled->weight[i] + all->weight[i] == 0)
            continue;
        report_print(out, "%s{\"from_ns\": %llu, \"sampled\": %llu, \"always_timed\": %llu}", comma,
                     U(histogram_bucket_ns(i)), U(sampled->weight[i]), U(all->weight[i]));
        comma = ", ";
    }
    report_print(out, "]}");
}

static void percentiles_print(struct report_buffer *out, const struct histogram_summary *summary)
{
    if (summary->known)
        report_print(
            out, "\"p50_ns\": %llu, \"p99_ns\": %llu, \"p999_ns\": %llu, \"max_ns\": %llu, ",
            U(summary->p50_ns), U(summary->p99_ns), U(summary->p999_ns), U(summary->max_ns));
}

static void kind_print(struct report_buffer *out, const char *name,
                       const struct report_device *device, enum latency_kind kind)
{
    struct histogram_summary summary = summary_of(device, kind);
    report_print(out, "       \"%s\": {\"calls\": %llu, \"timed\": %llu, \"always_timed\": %llu, ",
                 name, U(summary.calls), U(summary.timed), U(summary.always));
    percentiles_print(out, &summary);
    buckets_print(out, &device->latency.sampled[kind], &device->latency.slow[kind]);
    report_print(out, ",\n");
}

void report_latency_json(struct report_buffer *out, const struct report_device *device)
{
    static const struct histogram none;
    struct histogram_summary growth = growth_of(device);
    report_print(out, "     \"latency\": {\n");
    kind_print(out, "allocations", device, LATENCY_ALLOC);
    kind_print(out, "frees", device, LATENCY_FREE);
    report_print(out, "       \"growth\": {\"calls\": %llu, \"total_ns\": %llu, ", U(growth.calls),
                 U(device->latency.growth.sum_ns));
    percentiles_print(out, &growth);
    buckets_print(out, &none, &device->latency.growth);
    report_print(out, "},\n");
}
