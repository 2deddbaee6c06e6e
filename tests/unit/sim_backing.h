/* sim_backing.h - a backing for tests: a card of a given size that hands out multiples of 2 MiB as
 * long as the total fits (the driver maps scattered pages, so nothing fragments), the lowest
 * addresses first and again after a release; fences on a clock that the test advances; failures on
 * demand; and a watch on how the pool uses it.
 *
 * With `parts` set (SIM_PARTS in the environment sets it), memory comes and goes in parts:
 * addresses are free again when they were retired.
 *
 * A misuse (a segment released twice or in part, a fence asked after it was dropped or dropped
 * twice) is remembered in `misuse` and fails sim_backing_check(); so does a fence that was never
 * dropped, in sim_backing_destroy().
 *
 * Lock: one of its own; hooks are called without it.
 */
#ifndef VRAMALLOC_TESTS_SIM_BACKING_H
#define VRAMALLOC_TESTS_SIM_BACKING_H

#include <pthread.h>

#include "../../pool/pool.h"

#define SIM_BASE_ADDRESS  ((uint64_t)0x7f0000000000)
#define SIM_UNITS         ((uint64_t)1 << 19) /* of 2 MiB: the address space is 1 TiB */
#define SIM_FAIL_ALWAYS   UINT64_MAX
#define SIM_CARD_NO_BOUND UINT64_MAX

enum { SIM_FENCES_MAX = 1 << 20 };

enum sim_call { SIM_ACQUIRE = 0, SIM_RELEASE, SIM_POLL, SIM_WAIT, SIM_CALLS };

struct sim_backing {
    pthread_mutex_t lock;
    bool parts;
    uint64_t card_bytes;
    uint64_t held_bytes;
    uint64_t held_peak_bytes;
    uint64_t calls[SIM_CALLS];
    uint64_t fail_at[SIM_CALLS];     /* the n-th call from 1 fails; SIM_FAIL_ALWAYS; 0: none */
    enum backing_status fail_status; /* what a failing acquire or release says */
    uint64_t clock_ns;               /* what the pool takes for the time; 0: it has no clock */
    uint64_t now;                    /* a fence passes when now reaches its time */
    uint64_t fences;                 /* handed out: 1 .. fences */
    uint64_t *fence_time;
    uint8_t *fence_dropped;
    uint32_t *fence_more;    /* it may be dropped so many more times */
    uint8_t *unit_used;      /* of the address space */
    uint64_t *segment_bytes; /* by its first unit; 0: no segment starts here */
    uint64_t *part_bytes;    /* by its first unit; 0: no part that is backed starts here */
    const char *misuse;
    void (*hook[SIM_CALLS])(struct sim_backing *sim); /* called inside, first */
};

/* card_bytes: SIM_CARD_NO_BOUND for a card without bound. */
struct sim_backing *sim_backing_create(uint64_t card_bytes);
void sim_backing_destroy(struct sim_backing *sim);
struct backing sim_backing_get(struct sim_backing *sim);

/* A fence that passes when sim->now reaches `time`. */
uint64_t sim_backing_fence(struct sim_backing *sim, uint64_t time);

/* A fence for so many blocks. */
uint64_t sim_backing_fence_shared(struct sim_backing *sim, uint64_t time, uint32_t blocks);

/* The clock goes on. Other threads may use the backing meanwhile. */
void sim_backing_advance(struct sim_backing *sim, uint64_t time);

/* Fails the test if the pool misused the backing, or pool_check() finds something. */
void sim_backing_check(struct sim_backing *sim, struct pool *pool);

/* A pool on a card, with slack 80 and the first segment of arena_bytes (0: the default). */
struct pool *sim_pool_create(struct sim_backing *sim, uint64_t arena_bytes, uint64_t limit_bytes);

/* The same, and threads keep nothing: each free reaches the slabs and runs at once. */
struct pool *sim_pool_create_uncached(struct sim_backing *sim, uint64_t arena_bytes);

/* Destroys both. */
void sim_pool_end(struct sim_backing *sim, struct pool *pool);

/* pool_alloc and an immediate free, failing the test on any other status than POOL_OK. */
uint64_t sim_alloc(struct pool *pool, uint64_t bytes);
uint64_t sim_alloc_on(struct pool *pool, uint64_t bytes, uint64_t stream);
void sim_free(uint64_t address);

/* Frees under a fence that passes at `time`. */
void sim_free_pending(struct sim_backing *sim, uint64_t address, uint64_t stream, uint64_t time);

#endif
