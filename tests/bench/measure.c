/* measure.c - time, medians, sizes and rows. See bench.h. */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define LONG_NS 100e6

enum { BATCHES = 7, WARM_UP = 100, RUNS_MAX = 64 };

void *memory_map(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("bench: mmap");
        exit(1);
    }
    return memory;
}

void memory_unmap(void *memory, uint64_t bytes)
{
    munmap(memory, bytes);
}

double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

uint64_t divided(uint64_t count)
{
    return count > settings.divide ? count / settings.divide : 1;
}

void sizes_draw(uint32_t sizes[SIZES], uint64_t least, uint64_t most)
{
    uint64_t state = 88172645463325252U;
    double span = log((double)most / (double)least);
    for (int i = 0; i < SIZES; i++) {
        double share = (double)(random_next(&state) >> 11) / 0x1p53;
        sizes[i] = (uint32_t)((double)least * exp(share * span));
    }
}

static double batch_ns(void (*work)(void *, uint64_t), void *arg, uint64_t operations)
{
    double begin = now_ns();
    work(arg, operations);
    return now_ns() - begin;
}

double measure(void (*work)(void *arg, uint64_t operations), void *arg)
{
    double batch[BATCHES], aim_ns = settings.ms * 1e6 / BATCHES;
    uint64_t operations = 1;
    work(arg, WARM_UP);
    double taken_ns = batch_ns(work, arg, operations);
    while (taken_ns < aim_ns / 4) {
        operations *= 2;
        taken_ns = batch_ns(work, arg, operations);
    }
    for (int i = 0; i < BATCHES; i++)
        batch[i] = batch_ns(work, arg, operations) / (double)operations;
    return median(batch, BATCHES);
}

double measure_runs(void (*work)(void *arg), void *arg, uint64_t operations)
{
    double run[RUNS_MAX], begin = now_ns();
    int runs = 0;
    do {
        double from = now_ns();
        work(arg);
        run[runs++] = (now_ns() - from) / (double)operations;
    } while (runs < RUNS_MAX && now_ns() - begin < (runs == 1 ? LONG_NS : settings.ms * 1e6));
    return runs == 1 ? run[0] : median(run + 1, runs - 1);
}

void row(double ns, const char *what, ...)
{
    va_list words;
    va_start(words, what);
    vprintf(what, words);
    va_end(words);
    if (__atomic_exchange_n(&refused, false, __ATOMIC_RELAXED))
        printf(",-\n");
    else
        printf(",%.3f\n", ns);
    fflush(stdout);
}

const char *size_words(uint64_t bytes)
{
    static char words[2][24];
    static int turn;
    turn = !turn;
    if (bytes >= GIB)
        snprintf(words[turn], sizeof(words[turn]), "%u GiB", (unsigned)(bytes / GIB));
    else if (bytes >= MIB)
        snprintf(words[turn], sizeof(words[turn]), "%u MiB", (unsigned)(bytes / MIB));
    else if (bytes >= KIB)
        snprintf(words[turn], sizeof(words[turn]), "%u KiB", (unsigned)(bytes / KIB));
    else
        snprintf(words[turn], sizeof(words[turn]), "%u B", (unsigned)bytes);
    return words[turn];
}
