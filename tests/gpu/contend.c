/* contend.c - measures what an allocation and a free cost with one contender, in a process of its
 * own.
 *
 * usage: contend NAME pairs|busy|threads|rotate MS [LIBRARY]
 *
 * NAME is of contend_runtime.c, or of LIBRARY, which exports contend_contenders (contend.h); MS is
 * how long a batch of pairs should take. tests/gpu/bench runs it. Prints the contender's version
 * ("version,TEXT"), then a line a row: "ROW,BYTES,THREADS,NANOSECONDS,HELD" or
 * "ROW,BYTES,THREADS,failed,REASON", the nanoseconds of one pair (the median of seven batches) and
 * the most that was used of the card beyond what was before the contender was opened (-1: not
 * known, or not asked for).
 *
 * - pair: allocate, free, allocate, free ...; nothing else is live.
 *
 * - beside: the same beside a live block of 256 bytes, which spares the driver the mapping of small
 * ones.
 *
 * - busy same: the block is used by a kernel of 20 us on the contender's stream, up to 16 of them
 * behind. busy other: a kernel of 20 us goes to another stream before each pair. In both only the
 * calls to allocate and to free are counted; what reading the clock takes is measured before, and
 * left out.
 *
 * - threads: each on a stream of its own, for 50 batches' time; nanoseconds / pairs of all.
 *
 * - rotate: 64 live blocks, the oldest is freed for each new one; after 64 the program waits for
 * the stream. BYTES 0: sizes from 256 B to 16 MiB, evenly on a logarithmic scale, in one order for
 * all.
 *
 * Each of rotate's rows wants a fresh card: "rotate BYTES" is one argument. Exit 0: rows that
 * failed say so; 1: nothing could be measured, why is on stderr; 2: wrong use. What it leaves out:
 * reading and writing the blocks.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contend.h"

enum {
    BATCHES = 7,
    AHEAD = 16,
    LIVE = 64,
    MOST_THREADS = 16,
    MOST_PAIRS = 20000,
    THREAD_BATCHES = 50
};
enum { KERNEL_NS = 20000, BUSY_PAIRS = 100 };
#define MIB  ((size_t)1 << 20)
#define MOST ((size_t)1 << 30)

/* What a pattern works on. failure: the first thing that went wrong; nothing is called after it. */
struct bench {
    const struct contender *contender;
    cudaStream_t stream, other;
    double batch_ns;
    double clock_ns;         /* reading the clock once */
    cudaEvent_t done[AHEAD]; /* of what was given to the GPU AHEAD steps ago */
    void *word;              /* that kernels write which use no block */
    void *live[LIVE];
    size_t live_bytes[LIVE];
    unsigned long step;
    long long held; /* at most */
    long long before;
    const char *failure;
};

/* A thread of the row "threads". */
struct worker {
    pthread_t thread;
    const struct contender *contender;
    size_t bytes;
    long pairs;
    const char *failure;
};

static struct {
    pthread_barrier_t ready;
    bool stop;
} threads;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static const char *said(cudaError_t status)
{
    return status == cudaSuccess ? NULL : cudaGetErrorName(status);
}

static void note(struct bench *bench, const char *failure)
{
    if (bench->failure == NULL)
        bench->failure = failure;
}

static void *allocate(struct bench *bench, size_t bytes)
{
    void *block = NULL;
    if (bench->failure == NULL)
        note(bench, bench->contender->allocate(&block, bytes, bench->stream));
    return block;
}

static void release(struct bench *bench, void *block, size_t bytes)
{
    if (block != NULL)
        note(bench, bench->contender->release(block, bytes, bench->stream));
}

static void held_note(struct bench *bench)
{
    long long used = device_used();
    if (used >= 0 && used - bench->before > bench->held)
        bench->held = used - bench->before;
}

/* --- batches: each kind returns the nanoseconds that count pairs took */

typedef double (*batch)(struct bench *, size_t bytes, long count);

static double batch_pairs(struct bench *bench, size_t bytes, long count)
{
    double begin = now_ns();
    for (long i = 0; i < count && bench->failure == NULL; i++)
        release(bench, allocate(bench, bytes), bytes);
    return now_ns() - begin;
}

static double batch_busy_same(struct bench *bench, size_t bytes, long count)
{
    double sum = 0;
    for (long i = 0; i < count && bench->failure == NULL; i++) {
        cudaEvent_t done = bench->done[bench->step++ % AHEAD];
        note(bench, said(cudaEventSynchronize(done)));
        double begin = now_ns();
        void *block = allocate(bench, bytes);
        double between = now_ns();
        if (block != NULL)
            note(bench, device_launch(bench->stream, KERNEL_NS, block));
        double again = now_ns();
        release(bench, block, bytes);
        sum += between - begin + now_ns() - again - 2 * bench->clock_ns;
        note(bench, said(cudaEventRecord(done, bench->stream)));
    }
    return sum;
}

static double batch_busy_other(struct bench *bench, size_t bytes, long count)
{
    double sum = 0;
    for (long i = 0; i < count && bench->failure == NULL; i++) {
        cudaEvent_t done = bench->done[bench->step++ % AHEAD];
        note(bench, said(cudaEventSynchronize(done)));
        note(bench, device_launch(bench->other, KERNEL_NS, bench->word));
        double begin = now_ns();
        release(bench, allocate(bench, bytes), bytes);
        sum += now_ns() - begin - bench->clock_ns;
        note(bench, said(cudaEventRecord(done, bench->other)));
    }
    return sum;
}

/* 256 B to 16 MiB, the same for each run. */
static size_t mixed_bytes(unsigned long step)
{
    uint64_t x = (step + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 29)) * 0xD1B54A32D192ED03u;
    return (size_t)(256 * exp2((double)(x >> 40) / (double)(1 << 24) * 16));
}

static void live_replace(struct bench *bench, size_t bytes)
{
    unsigned long slot = bench->step % LIVE;
    release(bench, bench->live[slot], bench->live_bytes[slot]);
    bench->live_bytes[slot] = bytes != 0 ? bytes : mixed_bytes(bench->step % 4096);
    bench->live[slot] = allocate(bench, bench->live_bytes[slot]);
    bench->step++;
}

static double batch_rotate(struct bench *bench, size_t bytes, long count)
{
    double begin = now_ns();
    for (long i = 0; i < count && bench->failure == NULL; i++) {
        live_replace(bench, bytes);
        if (bench->step % LIVE == 0)
            note(bench, said(cudaStreamSynchronize(bench->stream)));
    }
    return now_ns() - begin;
}

static void live_release(struct bench *bench)
{
    for (int slot = 0; slot < LIVE; slot++) {
        release(bench, bench->live[slot], bench->live_bytes[slot]);
        bench->live[slot] = NULL;
    }
}

/* --- rows --- */

static void row_print(const char *row, size_t bytes, int count, double ns, long long held,
                      const char *failure)
{
    if (failure != NULL)
        printf("%s,%zu,%d,failed,%.200s\n", row, bytes, count, failure);
    else
        printf("%s,%zu,%d,%.2f,%lld\n", row, bytes, count, ns, held);
    fflush(stdout);
}

/* Pairs of a batch, so that it takes its time. */
static long batch_count(struct bench *bench, batch run, size_t bytes, long warm)
{
    double one = run(bench, bytes, warm) / (double)warm;
    one = run(bench, bytes, 3) / 3;
    double count = bench->batch_ns / (one > 10 ? one : 10);
    return count < 3 ? 3 : count > MOST_PAIRS ? MOST_PAIRS : (long)count;
}

/* After a failure the blocks that are live are given back, and the next row begins anew. */
static void row_end(struct bench *bench, const char *row, size_t bytes, double ns, long long held)
{
    const char *failure = bench->failure;
    bench->failure = NULL;
    live_release(bench);
    note(bench, said(cudaDeviceSynchronize()));
    row_print(row, bytes, 1, ns, held, failure != NULL ? failure : bench->failure);
    bench->failure = NULL;
    bench->step = 0;
    (void)cudaGetLastError();
}

/* count 0: as many pairs as take a batch's time. */
static void row(struct bench *bench, const char *name, batch run, size_t bytes, long count,
                bool ask)
{
    double ns[BATCHES] = {0};
    bench->held = -1;
    if (count == 0)
        count = batch_count(bench, run, bytes, ask ? 2 * LIVE : 3);
    for (int i = 0; i < BATCHES && bench->failure == NULL; i++) {
        ns[i] = run(bench, bytes, count) / (double)count;
        note(bench, said(cudaStreamSynchronize(bench->stream)));
        if (ask)
            held_note(bench);
    }
    row_end(bench, name, bytes, median(ns, BATCHES), bench->held);
}

static void pairs(struct bench *bench)
{
    for (size_t bytes = 256; bytes <= MOST; bytes *= 4)
        row(bench, "pair", batch_pairs, bytes, 0, false);
    void *neighbour = allocate(bench, 256);
    for (size_t bytes = 256; bytes <= MIB; bytes *= 4)
        row(bench, "beside", batch_pairs, bytes, 0, false);
    release(bench, neighbour, 256);
}

static void busy(struct bench *bench)
{
    static const size_t sizes[] = {4096, MIB, 64 * MIB};
    bench->word = allocate(bench, 4);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        row(bench, "busy same", batch_busy_same, sizes[i], BUSY_PAIRS, false);
        row(bench, "busy other", batch_busy_other, sizes[i], BUSY_PAIRS, false);
    }
    note(bench, said(cudaDeviceSynchronize()));
    release(bench, bench->word, 4);
}

static void *work(void *argument)
{
    struct worker *self = (struct worker *)argument;
    cudaStream_t stream = NULL;
    const char *failure = said(cudaSetDevice(0));
    if (failure == NULL)
        failure = said(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    pthread_barrier_wait(&threads.ready);
    while (failure == NULL && !__atomic_load_n(&threads.stop, __ATOMIC_RELAXED)) {
        void *block = NULL;
        failure = self->contender->allocate(&block, self->bytes, stream);
        if (failure == NULL)
            failure = self->contender->release(block, self->bytes, stream);
        self->pairs++;
    }
    if (failure == NULL)
        failure = said(cudaStreamSynchronize(stream));
    self->failure = failure;
    return NULL;
}

static void wait_ns(double ns)
{
    struct timespec time = {(time_t)(ns / 1e9), (long)(ns - (double)(time_t)(ns / 1e9) * 1e9)};
    nanosleep(&time, NULL);
}

static void row_threads(struct bench *bench, size_t bytes, int count)
{
    struct worker worker[MOST_THREADS];
    long sum = 0;
    pthread_barrier_init(&threads.ready, NULL, (unsigned)count + 1);
    __atomic_store_n(&threads.stop, false, __ATOMIC_RELAXED);
    for (int t = 0; t < count; t++) {
        worker[t] = (struct worker){.contender = bench->contender, .bytes = bytes};
        if (pthread_create(&worker[t].thread, NULL, work, &worker[t]) != 0)
            exit((perror("contend: a thread"), 1));
    }
    pthread_barrier_wait(&threads.ready);
    double begin = now_ns();
    wait_ns(THREAD_BATCHES * bench->batch_ns);
    __atomic_store_n(&threads.stop, true, __ATOMIC_RELAXED);
    for (int t = 0; t < count; t++) {
        pthread_join(worker[t].thread, NULL);
        sum += worker[t].pairs;
        note(bench, worker[t].failure);
    }
    double ns = (now_ns() - begin) / (double)(sum > 0 ? sum : 1);
    pthread_barrier_destroy(&threads.ready);
    row_print("threads", bytes, count, ns, -1, bench->failure);
    bench->failure = NULL;
}

static void threaded(struct bench *bench)
{
    static const int counts[] = {1, 4, MOST_THREADS};
    for (size_t bytes = 4096; bytes <= MIB; bytes *= 256)
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            row_threads(bench, bytes, counts[i]);
}

/* --- start --- */

static const struct contender *find(const char *name, const char *library)
{
    const struct contender *list = contend_runtime_contenders;
    if (library != NULL) {
        void *handle = dlopen(library, RTLD_NOW);
        list =
            handle != NULL ? (const struct contender *)dlsym(handle, "contend_contenders") : NULL;
        if (list == NULL) {
            fprintf(stderr, "contend: %s\n", dlerror());
            exit(1);
        }
    }
    while (list->name != NULL && strcmp(list->name, name) != 0)
        list++;
    return list->name != NULL ? list : NULL;
}

static double clock_cost(void)
{
    double ns[1000];
    for (int i = 0; i < 1000; i++) {
        double begin = now_ns();
        ns[i] = now_ns() - begin;
    }
    return median(ns, 1000);
}

static void prepare(struct bench *bench)
{
    note(bench, said(cudaFree(NULL)));
    note(bench, device_prepare());
    note(bench, said(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking)));
    note(bench, said(cudaStreamCreateWithFlags(&bench->other, cudaStreamNonBlocking)));
    for (int i = 0; i < AHEAD; i++)
        note(bench, said(cudaEventCreateWithFlags(&bench->done[i], cudaEventDisableTiming)));
    bench->before = device_used();
    note(bench, bench->failure == NULL ? bench->contender->open() : NULL);
    bench->clock_ns = clock_cost();
    if (bench->failure == NULL)
        return;
    fprintf(stderr, "contend: %s: %s\n", bench->contender->name, bench->failure);
    exit(1);
}

/* A contender's own, or the runtime's. */
static void version_print(const char *version)
{
    int runtime = 0, driver = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    if (version != NULL)
        printf("version,%s\n", version);
    else
        printf("version,CUDA runtime %d.%d, driver %d.%d\n", runtime / 1000, runtime % 1000 / 10,
               driver / 1000, driver % 1000 / 10);
}

static bool measure(struct bench *bench, const char *what)
{
    char *end = NULL;
    size_t bytes = strncmp(what, "rotate ", 7) == 0 ? strtoull(what + 7, &end, 10) : 0;
    bool rotate = end != NULL && end != what + 7 && *end == '\0' && bytes <= MOST;
    if (!rotate && strcmp(what, "pairs") != 0 && strcmp(what, "busy") != 0 &&
        strcmp(what, "threads") != 0)
        return false;
    prepare(bench);
    version_print(bench->contender->version);
    if (rotate)
        row(bench, "rotate", batch_rotate, bytes, 0, true);
    else
        (*what == 'p' ? pairs : *what == 'b' ? busy : threaded)(bench);
    return true;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    double ms = argc > 3 ? atof(argv[3]) : 0;
    if (argc < 4 || argc > 5 || !(ms > 0 && ms <= 1000)) {
        fprintf(stderr, "usage: contend NAME pairs|busy|threads|'rotate BYTES' MS [LIBRARY]\n");
        return 2;
    }
    bench.contender = find(argv[1], argv[4]);
    bench.batch_ns = ms * 1e6;
    if (bench.contender != NULL && measure(&bench, argv[2]))
        return 0;
    fprintf(stderr, "contend: there is no %s\n", bench.contender == NULL ? argv[1] : argv[2]);
    return 2;
}
