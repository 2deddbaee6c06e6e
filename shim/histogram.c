/* histogram.c - buckets, and what is read from them. See histogram.h. */
#include "histogram.h"

#include <stddef.h>

int histogram_bucket(uint64_t ns)
{
    if (ns < 4)
        return (int)ns;
    int exponent = 63 - __builtin_clzll(ns);
    int bucket = (exponent - 1) * 4 + (int)(ns >> (exponent - 2) & 3);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_bucket_ns(int bucket)
{
    return bucket < 4 ? (uint64_t)bucket : (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

void histogram_add(struct histogram *histogram, uint64_t ns, uint64_t weight)
{
    uint64_t max_ns = __atomic_load_n(&histogram->max_ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&histogram->weight[histogram_bucket(ns)], weight, __ATOMIC_RELAXED);
    __atomic_fetch_add(&histogram->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&histogram->sum_ns, ns, __ATOMIC_RELAXED);
    while (ns > max_ns && !__atomic_compare_exchange_n(&histogram->max_ns, &max_ns, ns, true,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static double weight_sum(const struct histogram *histogram)
{
    double sum = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        sum += (double)histogram->weight[i];
    return sum;
}

/* Two histograms, one of them scaled. */
struct blend {
    const struct histogram *sampled;
    const struct histogram *all;
    double scale; /* of what is sampled */
    double calls;
    uint64_t max_ns;
};

/* The duration that a share of the calls does not exceed: within its bucket calls are taken to be
 * spread evenly. */
static uint64_t quantile(const struct blend *blend, double share)
{
    double left = share * blend->calls;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double here =
            blend->scale * (double)blend->sampled->weight[i] + (double)blend->all->weight[i];
        if (here > 0 && left <= here) {
            double low_ns = (double)histogram_bucket_ns(i);
            double width_ns = (double)histogram_bucket_ns(i + 1) - low_ns;
            uint64_t ns = (uint64_t)(low_ns + width_ns * left / here);
            return ns < blend->max_ns ? ns : blend->max_ns;
        }
        left -= here;
    }
    return blend->max_ns;
}

struct histogram_summary histogram_summarize(const struct histogram *sampled,
                                             const struct histogram *all, uint64_t calls)
{
    double drawn = weight_sum(sampled);
    uint64_t others = calls > all->count ? calls - all->count : 0;
    struct blend blend = {.sampled = sampled,
                          .all = all,
                          .scale = drawn > 0 ? (double)others / drawn : 0,
                          .calls = (double)(others + all->count),
                          .max_ns = sampled->max_ns > all->max_ns ? sampled->max_ns : all->max_ns};
    struct histogram_summary summary = {.known = drawn > 0 || (others == 0 && all->count > 0),
                                        .calls = calls,
                                        .timed = sampled->count + all->count,
                                        .always = all->count,
                                        .max_ns = blend.max_ns};
    if (!summary.known)
        return summary;
    summary.p50_ns = quantile(&blend, 0.5);
    summary.p99_ns = quantile(&blend, 0.99);
    summary.p999_ns = quantile(&blend, 0.999);
    return summary;
}
