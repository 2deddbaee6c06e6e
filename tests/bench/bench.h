/* bench.h - the CPU benchmark: patterns of allocations and frees, and what they share.
 *
 * A contender is a pair of functions. What is preloaded decides which: `bench_alloc` and
 * `bench_free` where a library exports them (contender_*.c), else malloc and free. Every call goes
 * through the same two pointers, whoever the contender is, and no block is ever touched.
 *
 * What it leaves out: comparing, medians over rounds, targets (tests/bench/run).
 */
#ifndef VRAMALLOC_TESTS_BENCH_H
#define VRAMALLOC_TESTS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

enum { SIZES = 4096 }; /* of a mix, drawn beforehand and used in turn */

struct settings {
    double ms;       /* how long a row is measured */
    uint64_t divide; /* every count is divided by this */
    bool lengthy;    /* the rows that take seconds, and only those */
};

extern struct settings settings;
extern void *(*block_alloc)(size_t bytes);
extern void (*block_free)(void *block);
extern bool refused; /* some block of this row was not to be had. Atomic */

static inline void *block_get(uint64_t bytes)
{
    void *block = block_alloc(bytes);
    if (__builtin_expect(block == NULL, 0))
        __atomic_store_n(&refused, true, __ATOMIC_RELAXED);
    return block;
}

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Zeroed memory from the kernel, so that no contender serves the benchmark itself. */
void *memory_map(uint64_t bytes);
void memory_unmap(void *memory, uint64_t bytes);

double now_ns(void);
double median(double *values, int count);
uint64_t divided(uint64_t count);

/* Sizes from least to most bytes whose logarithms are evenly spread; always the same. */
void sizes_draw(uint32_t sizes[SIZES], uint64_t least, uint64_t most);

/* Nanoseconds of one operation: the median of several batches that take settings.ms together. */
double measure(void (*work)(void *arg, uint64_t operations), void *arg);

/* Nanoseconds of one operation where `work` does a fixed number of them: the median of all runs but
 * the first, which warms up; or the first where that takes long. */
double measure_runs(void (*work)(void *arg), void *arg, uint64_t operations);

/* Prints "what,ns", or "what,-" where a block was refused. */
__attribute__((format(printf, 2, 3))) void row(double ns, const char *what, ...);

/* "4 KiB". Two texts may be in use at a time. */
const char *size_words(uint64_t bytes);

void pairs(void);
void batches(void);
void random_mixes(void);
void flatness(void);
void handovers(void);
void threads(void);

#endif
