/* explain.c - why an allocation failed. See explain.h.
 *
 * The cause is found from figures taken after the failure: the program's request against what the
 * driver has left, what is free in the pool, in how many pieces, and what still waits for the GPU.
 *
 * VRAMALLOC_ARENA_LIMIT is never the cause: beyond it the driver is asked, and its refusal counts.
 *
 * What it leaves out: what other processes hold, beyond its sum. Lock: the text's.
 */
#define _GNU_SOURCE
#include "explain.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "driver.h"
#include "log.h"
#include "options.h"
#include "units.h"

enum { TEXT_BYTES = 4096, ALWAYS = 3, DOUBLINGS = 64, HOLDERS = 3 };

#define BYTES(value) unit_bytes(value).text
#define COUNT(value) unit_count(value).text
#define S(count)     unit_plural(count)

struct holders {
    uint64_t blocks[DOUBLINGS]; /* by the power of two that their size lies above */
    uint64_t bytes[DOUBLINGS];
};

struct figures {
    uint64_t asked;
    uint64_t driver_free;
    uint64_t total;
    struct pool_stats pool;
    struct holders holders;
};

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char text[TEXT_BYTES];
static size_t text_used;

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(text) - text_used;
    int prefix = snprintf(text + text_used, room, "vramalloc: ");
    va_start(arguments, format);
    int length = vsnprintf(text + text_used + prefix, room - (size_t)prefix, format, arguments);
    va_end(arguments);
    size_t whole = (size_t)prefix + (size_t)(length > 0 ? length : 0) + 1;
    if (length < 0 || whole >= room)
        return;
    text_used += whole;
    text[text_used - 1] = '\n';
}

static void holder_add(void *arg, const struct pool_block *block)
{
    struct holders *holders = arg;
    int doubling = 63 - __builtin_clzll(block->block_bytes | 1);
    holders->blocks[doubling]++;
    holders->bytes[doubling] += block->block_bytes;
}

static bool figures_take(struct context *context, uint64_t bytes, struct figures *figures)
{
    CUstreamCaptureMode mode;
    size_t free_bytes = 0, total_bytes = 0;
    memset(figures, 0, sizeof(*figures));
    capture_relax(&mode);
    CUresult result = real_cuMemGetInfo_v2(&free_bytes, &total_bytes);
    capture_restore(&mode);
    figures->asked = bytes;
    figures->driver_free = free_bytes;
    figures->total = total_bytes;
    pool_stats_read(context->pool, &figures->pool);
    return result == CUDA_SUCCESS;
}

static void holders_say(struct holders *holders)
{
    for (int i = 0; i < HOLDERS; i++) {
        int most = 0;
        for (int d = 1; d < DOUBLINGS; d++)
            if (holders->bytes[d] > holders->bytes[most])
                most = d;
        if (holders->bytes[most] == 0)
            return;
        line("  %-11s %s in %s block%s of %s to %s", i == 0 ? "held most by" : "",
             BYTES(holders->bytes[most]), COUNT(holders->blocks[most]), S(holders->blocks[most]),
             BYTES((uint64_t)1 << most), BYTES((uint64_t)2 << most));
        holders->bytes[most] = 0;
    }
}

enum cause { CAUSE_SIZE, CAUSE_PENDING, CAUSE_PIECES };

static enum cause cause_find(const struct figures *figures)
{
    const struct pool_stats *pool = &figures->pool;
    uint64_t now = figures->driver_free + pool->run_free_bytes + pool->slab_free_bytes;
    return figures->asked > now + pool->limbo_bytes ? CAUSE_SIZE
           : figures->asked > now                   ? CAUSE_PENDING
                                                    : CAUSE_PIECES;
}

static void cause_count(struct device *device, enum cause cause)
{
    if (cause == CAUSE_SIZE)
        DEVICE_COUNT(device, out_of_memory_size, 1);
    else if (cause == CAUSE_PENDING)
        DEVICE_COUNT(device, out_of_memory_pending, 1);
    else
        DEVICE_COUNT(device, out_of_memory_pieces, 1);
}

/* The cause, and what would have helped. */
static void cause_say(const struct figures *figures)
{
    enum cause cause = cause_find(figures);
    const struct pool_stats *pool = &figures->pool;
    uint64_t in_pool = pool->run_free_bytes + pool->slab_free_bytes;
    uint64_t now = figures->driver_free + in_pool, later = now + pool->limbo_bytes;
    uint64_t held = pool->backed_bytes + figures->driver_free;
    uint64_t others = figures->total > held ? figures->total - held : 0;
    if (cause == CAUSE_SIZE) {
        line("  cause       size: that is more than all that is free, %s, even in one piece",
             BYTES(later));
        line(
            "  would help  less memory in the program; outside this pool %s of the card are in use "
            "(contexts, kernels, other processes)",
            BYTES(others));
    } else if (cause == CAUSE_PENDING) {
        line("  cause       the GPU has not finished with %s that were freed",
             BYTES(pool->limbo_bytes));
        line(
            "  would help  VRAMALLOC_FREE=sync, or a synchronise in the program before this point");
    } else {
        line("  cause       fragmentation: %s are free, but no piece of the pool is longer than "
             "%s, and "
             "the driver has %s",
             BYTES(now), BYTES(pool->largest_free_run_bytes), BYTES(figures->driver_free));
        line("  would help  %s",
             strcmp(options.backing, "vmm") != 0
                 ? "VRAMALLOC_BACKING=vmm, which can move free memory together"
             : options.slack > 0 ? "VRAMALLOC_SLACK=0, which takes memory just as the driver would"
                                 : "VRAMALLOC_ENABLE=0, to see whether the driver alone can");
    }
}

/* The n-th failure: whether it is told. */
static bool worth_telling(uint64_t number)
{
    uint64_t power = 10;
    while (power < number && power < UINT64_MAX / 10)
        power *= 10;
    return number <= ALWAYS || number == power;
}

void explain_out_of_memory(struct context *context, uint64_t bytes)
{
    static struct figures figures; /* under text_lock: too large for a small stack */
    static uint64_t failures;
    int saved_errno = errno;
    uint64_t number = __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    if (context == NULL)
        return;
    pthread_mutex_lock(&text_lock);
    bool taken = figures_take(context, bytes, &figures);
    if (taken)
        cause_count(context->device, cause_find(&figures));
    if (taken && worth_telling(number)) {
        const struct pool_stats *pool = &figures.pool;
        pool_visit_live(context->pool, holder_add, &figures.holders);
        text_used = 0;
        line("out of memory on GPU %d (%s): %s asked for%s", context->device->handle,
             context->device->name, BYTES(bytes), number > 1 ? ", not for the first time" : "");
        line("  the card    %s: %s held by the pool, %s free at the driver", BYTES(figures.total),
             BYTES(pool->backed_bytes), BYTES(figures.driver_free));
        line("  the pool    %s live in %s block%s, %s wasted inside, %s waiting for the GPU, %s in "
             "free slots",
             BYTES(pool->live_requested_bytes), COUNT(pool->live_blocks), S(pool->live_blocks),
             BYTES(pool->internal_waste_bytes), BYTES(pool->limbo_bytes),
             BYTES(pool->slab_free_bytes));
        line("              %s free in %s run%s, the longest %s", BYTES(pool->run_free_bytes),
             COUNT(pool->free_runs), S(pool->free_runs), BYTES(pool->largest_free_run_bytes));
        holders_say(&figures.holders);
        cause_say(&figures);
        log_write(STDERR_FILENO, text, text_used);
    }
    pthread_mutex_unlock(&text_lock);
    errno = saved_errno;
}
