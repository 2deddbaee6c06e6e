/* contender_pool.c - the pool behind the benchmark's two calls: a cudaMalloc and a cudaFree without
 * CUDA, built and linked as in the library.
 *
 * A free does what `sync` does (shim/hooks_memory.c), without the wait for the GPU. The backing
 * hands out addresses on a card of 4 TiB at no cost: a released range serves the next request of
 * its length, and where there is none, the addresses go on. So a figure holds what the pool costs,
 * not what its calls to the driver would. BENCH_UNCACHED in the environment: threads keep no
 * blocks.
 *
 * What it leaves out: contexts, streams, counters of calls. Lock: `ranges_lock` for the ranges.
 */
#include "contender.h"

#include <pthread.h>
#include <stdlib.h>

#include "../../pool/pool.h"

#define CARD_BYTES  ((uint64_t)4 << 40)
#define FIRST_RANGE ((uint64_t)0x100000000000)
#define ROOM_BYTES  ((uint64_t)0x600000000000) /* of addresses */

enum { RANGES_MAX = 1 << 16 };

struct range {
    uint64_t address;
    uint64_t bytes;
};

static struct pool *pool;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct range ranges[RANGES_MAX]; /* that were released */
static uint32_t ranges_count;
static uint64_t next_range = FIRST_RANGE;
static uint64_t held_bytes;

/* A released range of exactly this length. 0: none. */
static uint64_t range_reuse(uint64_t bytes)
{
    for (uint32_t i = ranges_count; i-- > 0;) {
        uint64_t address = ranges[i].address;
        if (ranges[i].bytes != bytes)
            continue;
        ranges[i] = ranges[--ranges_count];
        return address;
    }
    return 0;
}

static uint64_t range_begin(uint64_t bytes)
{
    uint64_t address = range_reuse(bytes);
    if (address == 0 && next_range + bytes <= FIRST_RANGE + ROOM_BYTES) {
        address = next_range;
        next_range += bytes;
    }
    return address;
}

static enum backing_status acquire(void *self, uint64_t bytes, uint64_t *address_out)
{
    (void)self;
    pthread_mutex_lock(&ranges_lock);
    uint64_t address = held_bytes + bytes <= CARD_BYTES ? range_begin(bytes) : 0;
    if (address != 0) {
        *address_out = address;
        held_bytes += bytes;
    }
    pthread_mutex_unlock(&ranges_lock);
    return address != 0 ? BACKING_OK : BACKING_NO_MEMORY;
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes)
{
    (void)self;
    pthread_mutex_lock(&ranges_lock);
    held_bytes -= bytes;
    if (ranges_count < RANGES_MAX)
        ranges[ranges_count++] = (struct range){address, bytes};
    pthread_mutex_unlock(&ranges_lock);
    return BACKING_OK;
}

static uint64_t room(void *self, uint64_t *total_out)
{
    (void)self;
    pthread_mutex_lock(&ranges_lock);
    uint64_t bytes = CARD_BYTES - held_bytes;
    pthread_mutex_unlock(&ranges_lock);
    *total_out = CARD_BYTES;
    return bytes;
}

__attribute__((constructor)) static void prepare(void)
{
    struct backing backing = {.acquire = acquire, .release = release, .room = room};
    struct pool_config config = {.slack_percent = 80, .uncached = getenv("BENCH_UNCACHED") != NULL};
    pool = pool_create(&config, &backing);
    if (pool == NULL)
        abort();
}

void *bench_alloc(size_t bytes)
{
    uint64_t address;
    return pool_alloc(pool, bytes, POOL_NO_STREAM, 0, &address) == POOL_OK ? (void *)address : NULL;
}

void bench_free(void *block)
{
    struct pool_block freed;
    if (!pool_owns((uint64_t)block) || pool_free_begin((uint64_t)block, &freed) != POOL_OK)
        return;
    if (pool_free_finish(&freed) > 0)
        pool_trim(freed.pool, UINT64_MAX);
}
