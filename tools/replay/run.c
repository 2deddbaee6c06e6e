/* run.c - one replay of a trace. See run.h.
 *
 * Frees go the way that the library's do: cudaFree finishes at once (`sync`), or is kept back in a
 * batch of 64 under one fence (`deferred`); cudaFreeAsync hands the block over with a fence of its
 * own. Internal and external fragmentation are those of the moment at which live memory was, within
 * 1 %, at its highest.
 *
 * Lock: with threads, one for the batch. A free waits for the event that allocated its block.
 */
#define _GNU_SOURCE
#include "run.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "card.h"
#include "device.h"

enum { BATCH = 64, PATIENCE_US = 1000000 }; /* as shim/deferred.c and devices.c */
#define BATCH_BYTES     ((uint64_t)64 << 20)
#define DEFERRED_STREAM UINT64_MAX

struct life {
    uint64_t address; /* 0: not allocated yet, or freed */
    bool own;         /* the driver's */
};

struct run {
    const struct trace *trace;
    const struct run_settings *settings;
    struct device *device;
    struct pool *pool;
    struct life *lives;
    struct run_result *result;
    pthread_mutex_t batch_lock;
    struct pool_block batch[BATCH];
    int batched;
    uint64_t batched_bytes;
    bool refused;
    uint64_t live_bytes;
    uint64_t sampled_bytes;
    uint64_t pass_ns; /* when this pass began */
};

static void batch_flush(void *self)
{
    struct run *run = self;
    struct pool_block blocks[BATCH];
    pthread_mutex_lock(&run->batch_lock);
    int count = run->batched;
    memcpy(blocks, run->batch, sizeof(blocks));
    run->batched = 0;
    run->batched_bytes = 0;
    pthread_mutex_unlock(&run->batch_lock);
    if (count > 0)
        pool_free_pend_all(blocks, (uint32_t)count, DEFERRED_STREAM, device_fence(run->device));
}

static void free_later(struct run *run, const struct pool_block *block)
{
    pthread_mutex_lock(&run->batch_lock);
    while (run->batched == BATCH) { /* another thread filled it and is about to flush it */
        pthread_mutex_unlock(&run->batch_lock);
        batch_flush(run);
        pthread_mutex_lock(&run->batch_lock);
    }
    run->batch[run->batched++] = *block;
    run->batched_bytes += block->block_bytes;
    bool full = run->batched == BATCH || run->batched_bytes >= BATCH_BYTES;
    pthread_mutex_unlock(&run->batch_lock);
    if (!full)
        return;
    batch_flush(run);
    pool_collect(run->pool);
    pool_trim(run->pool, UINT64_MAX);
}

static void sample(struct run *run)
{
    struct pool_stats stats;
    pool_stats_read(run->pool, &stats);
    run->sampled_bytes = run->live_bytes + run->live_bytes / 100;
    if (stats.live_block_bytes > 0)
        run->result->internal_fragmentation =
            (double)stats.internal_waste_bytes / (double)stats.live_block_bytes;
    run->result->external_fragmentation =
        stats.run_free_bytes == 0
            ? 0
            : 1 - (double)stats.largest_free_run_bytes / (double)stats.run_free_bytes;
}

static void live_add(struct run *run, uint64_t bytes)
{
    uint64_t live = __atomic_add_fetch(&run->live_bytes, bytes, __ATOMIC_RELAXED);
    uint64_t *peak = &run->result->peak_live_bytes;
    uint64_t seen = __atomic_load_n(peak, __ATOMIC_RELAXED);
    while (live > seen && !__atomic_compare_exchange_n(peak, &seen, live, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        ;
    if (!run->settings->threads && live > run->sampled_bytes)
        sample(run);
}

static void allocate(struct run *run, const struct trace_event *event)
{
    struct life *life = &run->lives[event->block];
    uint64_t address = 0;
    bool own = pool_alloc(run->pool, event->bytes, event->stream, 0, &address) != POOL_OK;
    if (own && !device_allocate(run->device, event->bytes, &address)) {
        __atomic_store_n(&run->refused, true, __ATOMIC_RELAXED);
        return;
    }
    life->own = own;
    __atomic_store_n(&life->address, address, __ATOMIC_RELEASE);
    live_add(run, event->bytes);
}

static void release(struct run *run, const struct trace_event *event)
{
    struct life *life = &run->lives[event->block];
    struct pool_block block;
    uint64_t address;
    while ((address = __atomic_load_n(&life->address, __ATOMIC_ACQUIRE)) == 0) {
        if (__atomic_load_n(&run->refused, __ATOMIC_RELAXED))
            return;
        sched_yield();
    }
    __atomic_store_n(&life->address, 0, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&run->live_bytes, event->bytes, __ATOMIC_RELAXED);
    if (life->own) {
        device_release(run->device, address, event->bytes);
        return;
    }
    if (pool_free_begin(address, &block) != POOL_OK)
        abort();
    if (event->stream != 0)
        pool_free_pend(&block, event->stream, device_fence(run->device));
    else if (run->settings->deferred)
        free_later(run, &block);
    else if (pool_free_finish(&block) > 0)
        pool_trim(block.pool, UINT64_MAX);
}

struct walker {
    struct run *run;
    uint32_t thread; /* whose events; UINT32_MAX: everybody's */
};

static void *walk(void *arg)
{
    const struct walker *walker = arg;
    struct run *run = walker->run;
    const struct trace *trace = run->trace;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (__atomic_load_n(&run->refused, __ATOMIC_RELAXED))
            break;
        if (walker->thread != UINT32_MAX && event->thread != walker->thread)
            continue;
        device_clock(run->device, run->pass_ns + event->time_ns);
        if (event->is_free)
            release(run, event);
        else
            allocate(run, event);
    }
    return NULL;
}

static bool walk_in_threads(struct run *run)
{
    size_t count = run->trace->thread_count, started = 0;
    pthread_t *threads = calloc(count, sizeof(*threads));
    struct walker *walkers = calloc(count, sizeof(*walkers));
    bool ok = threads != NULL && walkers != NULL;
    for (; ok && started < count; started++) {
        walkers[started] = (struct walker){run, (uint32_t)started};
        ok = pthread_create(&threads[started], NULL, walk, &walkers[started]) == 0;
    }
    if (!ok)
        __atomic_store_n(&run->refused, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(walkers);
    return ok;
}

/* What the program never freed is freed at the end of a pass. */
static void free_rest(struct run *run)
{
    const struct trace *trace = run->trace;
    for (size_t i = 0; i < trace->event_count; i++)
        if (!trace->events[i].is_free && run->lives[trace->events[i].block].address != 0)
            release(run, &trace->events[i]);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool passes_walk(struct run *run)
{
    struct run_result *result = run->result;
    const struct trace *trace = run->trace;
    uint64_t length_ns = trace->events[trace->event_count - 1].time_ns + 1;
    struct walker all = {run, UINT32_MAX};
    for (unsigned pass = 0; pass < run->settings->passes && !run->refused; pass++) {
        double before_ns = device_time_ns(run->device);
        run->pass_ns = pass * length_ns;
        if (!run->settings->threads)
            walk(&all);
        else if (!walk_in_threads(run))
            return false;
        double ns = device_time_ns(run->device) - before_ns;
        if (pass == 0)
            result->first_ns = ns;
        else
            result->later_ns += ns / (run->settings->passes - 1);
        result->events += trace->event_count;
        if (!run->refused && pass + 1 < run->settings->passes)
            free_rest(run);
    }
    return true;
}

bool run_pool(const struct trace *trace, const struct run_settings *settings,
              struct run_result *result)
{
    struct run run = {.trace = trace, .settings = settings, .result = result};
    *result = (struct run_result){0};
    run.device = device_create(settings->card_bytes, settings->vmm, settings->lag_ns);
    run.lives = calloc(trace->block_count, sizeof(*run.lives));
    if (run.device == NULL || run.lives == NULL) {
        if (run.device != NULL)
            device_destroy(run.device);
        free(run.lives);
        return false;
    }
    pthread_mutex_init(&run.batch_lock, NULL);
    if (settings->deferred)
        device_frees_due_set(run.device, batch_flush, &run);
    struct backing backing = device_backing(run.device);
    struct pool_config config = {.arena_bytes = settings->arena_bytes,
                                 .limit_bytes = settings->limit_bytes,
                                 .slack_percent = settings->slack_percent,
                                 .patience_us = settings->deferred ? PATIENCE_US : 0};
    run.pool = pool_create(&config, &backing);
    bool ok = run.pool != NULL;
    double begin_s = now_s();
    ok = ok && passes_walk(&run);
    result->seconds = now_s() - begin_s;
    result->completed = ok && !run.refused;
    result->peak_backed_bytes = device_peak_bytes(run.device);
    result->driver_calls = device_calls(run.device);
    if (run.pool != NULL)
        pool_destroy(run.pool, false);
    device_destroy(run.device);
    pthread_mutex_destroy(&run.batch_lock);
    free(run.lives);
    return ok;
}

/* What a call on the card cost; a stream-ordered one costs less, whatever it did to the card. */
static double call_ns(const struct card *card, double before_ns, const struct trace_event *event)
{
    return event->stream != 0 ? CARD_ASYNC_CALL_NS : card_time_ns(card) - before_ns;
}

bool run_driver(const struct trace *trace, uint64_t card_bytes, struct run_result *result)
{
    struct card *card = card_create(card_bytes);
    uint64_t *address = calloc(trace->block_count, sizeof(*address));
    uint64_t live = 0;
    bool ok = card != NULL && address != NULL;
    *result = (struct run_result){.completed = ok};
    for (size_t i = 0; ok && i < trace->event_count && result->completed; i++) {
        const struct trace_event *event = &trace->events[i];
        double before_ns = card_time_ns(card);
        if (event->is_free) {
            card_release(card, address[event->block], event->bytes);
            live -= event->bytes;
        } else {
            result->completed = card_allocate(card, event->bytes, &address[event->block]);
            live += event->bytes;
        }
        result->first_ns += call_ns(card, before_ns, event);
        if (live > result->peak_live_bytes)
            result->peak_live_bytes = live;
    }
    if (ok) {
        result->later_ns = result->first_ns; /* every pass costs the same */
        result->peak_backed_bytes = card_peak_bytes(card);
        result->driver_calls = card_calls(card);
        result->events = trace->event_count;
    }
    if (card != NULL)
        card_destroy(card);
    free(address);
    return ok;
}
