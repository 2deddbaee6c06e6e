/* streams4.cu - what allocations cost a program that keeps four streams busy, and how much of the card they hold.
 *
 * usage: streams4 malloc|async [THRESHOLD [ITERATIONS]]     async: cudaMallocAsync; THRESHOLD: none (the default pool as
 *        it is), 0 or max, its release threshold; 2000 iterations
 *
 * Each iteration is on the next stream: three buffers of 64 KiB to 16 MiB are allocated, a kernel of 20 us or more writes
 * the first, which is copied to the second, verified and written by another such kernel, copied to the third and
 * verified; then all three are freed, with no wait by the program. The host is at most 16 iterations ahead, as a
 * program that reads results is. Sizes change from iteration to iteration and are the same in each run.
 *
 * Iterations are timed without anybody looking; then half as many run beside a thread that asks NVML every 200 us how
 * much of the card is used. Prints "MICROSECONDS BYTES": per iteration, and at most used beyond what was before the
 * first allocation (-1: NVML does not answer). Exit 1 on a wrong word or a failed call.
 *
 * It is C and C++ alike, as fuzz.cu is. What it leaves out: several threads; other users of the card, who are counted.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef __CUDACC__
#    include "../runtime/cuda_runtime_min.h"
#    include "../victims/victim_sim.h"
#endif

enum { STREAMS = 4, AHEAD = 16, BUFFERS = 3, WARM = 64 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorName(status_));                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct nvml_memory {
    unsigned long long total, free, used;
};

static struct {
    void *device;
    int (*memory)(void *, struct nvml_memory *); /* NULL: there is no NVML */
    bool stop;
    unsigned long long most;
} card;

static cudaStream_t stream[STREAMS];
static cudaEvent_t done[AHEAD];
static unsigned *wrong; /* on the device */
static bool ordered;

#ifdef __CUDACC__

static __device__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Every word is `old` (0: not looked at) and becomes `fresh`; lasts 20 us or more. */
__global__ void pass(unsigned *words, size_t count, unsigned old, unsigned fresh, unsigned *wrong)
{
    unsigned long long end = nanoseconds() + 20000;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        if (old != 0 && words[i] != old)
            atomicAdd(wrong, 1);
        words[i] = fresh;
    }
    while (nanoseconds() < end) {
    }
}

/* What the code takes of the card is not counted. */
static void pass_load(void)
{
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, pass));
}

static void pass_on(cudaStream_t s, unsigned *words, size_t bytes, unsigned old, unsigned fresh)
{
    pass<<<16, 512, 0, s>>>(words, bytes / 4, old, fresh, wrong);
    CHECK(cudaGetLastError());
}

#else

static void pass_load(void)
{
}

static void pass_on(cudaStream_t s, unsigned *words, size_t bytes, unsigned old, unsigned fresh)
{
    (void)old, (void)fresh;
    kernel_write(s, 20000, words, bytes);
}

#endif

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static size_t size_of(unsigned iteration, unsigned buffer)
{
    uint64_t x = iteration * BUFFERS + buffer + 1;
    x = x * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
    size_t most = (size_t)128 << (10 + (x >> 60) % 8); /* 128 KiB to 16 MiB */
    return most - (size_t)(x >> 8) % (most / 2) / 4 * 4;
}

static unsigned *allocate(size_t bytes, cudaStream_t s)
{
    void *buffer = NULL;
    if (ordered)
        CHECK(cudaMallocAsync(&buffer, bytes, s));
    else
        CHECK(cudaMalloc(&buffer, bytes));
    return (unsigned *)buffer;
}

static void iterate(unsigned i)
{
    cudaStream_t s = stream[i % STREAMS];
    unsigned *buffer[BUFFERS];
    size_t bytes[BUFFERS];
    CHECK(cudaEventSynchronize(done[i % AHEAD]));
    for (unsigned b = 0; b < BUFFERS; b++) {
        bytes[b] = size_of(i, b);
        buffer[b] = allocate(bytes[b], s);
    }
    for (unsigned b = 0; b < BUFFERS; b++) {
        size_t common = b == 0 || bytes[b] < bytes[b - 1] ? bytes[b] : bytes[b - 1];
        if (b > 0)
            CHECK(cudaMemcpyAsync(buffer[b], buffer[b - 1], common, cudaMemcpyDeviceToDevice, s));
        if (b > 0)
            bytes[b] = common; /* what is written from here on */
        pass_on(s, buffer[b], bytes[b], b == 0 ? 0 : i * BUFFERS + b, i * BUFFERS + b + 1);
    }
    CHECK(cudaEventRecord(done[i % AHEAD], s));
    for (unsigned b = 0; b < BUFFERS; b++)
        CHECK(ordered ? cudaFreeAsync(buffer[b], s) : cudaFree(buffer[b]));
}

static double iterations_us(unsigned count)
{
    double begin = now_us();
    for (unsigned i = 0; i < count; i++)
        iterate(i);
    CHECK(cudaDeviceSynchronize());
    return (now_us() - begin) / count;
}

static void card_open(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL)
        return;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*handle)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    if (init != NULL && handle != NULL && init() == 0 && handle(0, &card.device) == 0)
        card.memory = (int (*)(void *, struct nvml_memory *))dlsym(library, "nvmlDeviceGetMemoryInfo");
}

static unsigned long long card_used(void)
{
    struct nvml_memory memory = {0, 0, 0};
    return card.memory != NULL && card.memory(card.device, &memory) == 0 ? memory.used : 0;
}

/* On any processor, also where the program was bound to one. */
static void *card_watch(void *unused)
{
    cpu_set_t all;
    memset(&all, 255, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
    while (!__atomic_load_n(&card.stop, __ATOMIC_RELAXED)) {
        unsigned long long used = card_used();
        if (card.most < used)
            card.most = used;
        usleep(200);
    }
    return unused;
}

static long long most_held(unsigned count, unsigned long long before)
{
    pthread_t watcher;
    if (card.memory == NULL || pthread_create(&watcher, NULL, card_watch, NULL) != 0)
        return -1;
    iterations_us(count);
    __atomic_store_n(&card.stop, true, __ATOMIC_RELAXED);
    pthread_join(watcher, NULL);
    return card.most > before ? (long long)(card.most - before) : 0;
}

static void threshold_set(const char *how)
{
    cudaMemPool_t pool;
    uint64_t threshold = strcmp(how, "max") == 0 ? UINT64_MAX : 0;
    if (strcmp(how, "none") == 0)
        return;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
}

int main(int argc, char **argv)
{
    const char *threshold = argc > 2 ? argv[2] : "none";
    unsigned iterations = argc > 3 ? (unsigned)atoi(argv[3]) : 2000, found = 0;
    if (argc < 2 || (strcmp(argv[1], "malloc") != 0 && strcmp(argv[1], "async") != 0) || iterations < 2) {
        fprintf(stderr, "usage: streams4 malloc|async [none|0|max [ITERATIONS]]\n");
        return 2;
    }
    ordered = strcmp(argv[1], "async") == 0;
    CHECK(cudaFree(NULL));
    pass_load();
    card_open();
    for (int s = 0; s < STREAMS; s++)
        CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    unsigned long long before = card_used();
    CHECK(cudaMalloc((void **)&wrong, 4));
    CHECK(cudaMemset(wrong, 0, 4));
    threshold_set(threshold);
    iterations_us(WARM);
    double us = iterations_us(iterations);
    long long held = most_held(iterations / 2, before);
    CHECK(cudaMemcpy(&found, wrong, 4, cudaMemcpyDeviceToHost));
    printf("%.3f %lld\n", us, held);
    return found != 0;
}
