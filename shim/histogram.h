/* histogram.h - how long calls took: counts by duration, in buckets that grow with it.
 *
 * Each doubling is four buckets, so that a figure read from them is right to an eighth; below 4 ns
 * there is a bucket a nanosecond, and what takes longer than 18 minutes is in the last.
 *
 *     4 <= ns, e = floor(log2 ns):   bucket = (e - 1) * 4 + the two bits below the highest
 *
 * A call can stand for several: it is added with a weight. Source of the idea: Tene's
 * HdrHistogram, with two bits of precision.
 *
 * What it leaves out: clocks, and what is timed (latency.c). Lock: none; adding is atomic, and a
 * reader may see a call that is not in all of the figures yet.
 */
#ifndef VRAMALLOC_SHIM_HISTOGRAM_H
#define VRAMALLOC_SHIM_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 160 };

struct histogram {
    uint64_t weight[HISTOGRAM_BUCKETS]; /* calls that those in the bucket stand for */
    uint64_t count;                     /* calls that were added */
    uint64_t sum_ns;                    /* of these */
    uint64_t max_ns;
};

/* The bucket of a duration, and the least duration of a bucket; of HISTOGRAM_BUCKETS: no more. */
int histogram_bucket(uint64_t ns);
uint64_t histogram_bucket_ns(int bucket);

/* Adds a call that stands for `weight` calls. Any thread. Cost: four atomic additions. */
void histogram_add(struct histogram *histogram, uint64_t ns, uint64_t weight);

/* What calls of one kind took together: some calls are always timed (all), of the others a sample
 * is (sampled). */
struct histogram_summary {
    bool known; /* false: there were calls, but none of the sampled kind was timed */
    uint64_t calls;
    uint64_t timed;  /* calls that were timed */
    uint64_t always; /* of these, the ones that always are */
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t p999_ns;
    uint64_t max_ns; /* of the calls that were timed */
};

/* calls: how many there were of both kinds. The sample is scaled to those that `all` leaves, so
 * that each kind counts as often as it happened. */
struct histogram_summary histogram_summarize(const struct histogram *sampled,
                                             const struct histogram *all, uint64_t calls);

#endif
