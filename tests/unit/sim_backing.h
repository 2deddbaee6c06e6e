/* sim_backing.h - a backing for tests: a card of a given size by the driver's rules
 * (tools/replay/card.h), fences on a clock that the test advances, failures on demand, and a watch
 * on how the pool uses it.
 *
 * A misuse (a segment released twice or in part, a fence asked after it was dropped or dropped
 * twice) is remembered in `misuse` and fails sim_backing_check(). Lock: one of its own.
 */
#ifndef VRAMALLOC_TESTS_SIM_BACKING_H
#define VRAMALLOC_TESTS_SIM_BACKING_H

#include <pthread.h>

#include "../../pool/pool.h"
#include "../../tools/replay/card.h"

enum { SIM_FENCES_MAX = 1 << 20, SIM_SEGMENTS_MAX = 1 << 14 };

struct sim_backing {
    pthread_mutex_t lock;
    struct card *card;
    uint64_t held_bytes;
    uint64_t held_peak_bytes;
    uint64_t acquires, releases, polls, waits;
    uint64_t fail_acquire_at; /* the n-th acquire from 1 fails; UINT64_MAX: all do; 0: none */
    uint64_t fail_release_at;
    enum backing_status fail_status;
    uint64_t now;    /* a fence passes when now reaches its time */
    uint64_t fences; /* handed out: 1 .. fences */
    uint64_t *fence_time;
    uint8_t *fence_dropped;
    bool fences_fail;
    void (*in_release)(struct sim_backing *sim); /* called inside release, without the lock */
    struct {
        uint64_t address, bytes;
    } segments[SIM_SEGMENTS_MAX];
    const char *misuse;
};

struct sim_backing *sim_backing_create(uint64_t card_bytes);
void sim_backing_destroy(struct sim_backing *sim);
struct backing sim_backing_get(struct sim_backing *sim);

/* A fence that passes when sim->now reaches `time`. */
uint64_t sim_backing_fence(struct sim_backing *sim, uint64_t time);

/* Fails the test if the pool misused the backing, or pool_check() finds something. */
void sim_backing_check(struct sim_backing *sim, struct pool *pool);

/* A pool on a card, with slack 10 and the first segment of arena_bytes (0: the default). */
struct pool *sim_pool_create(struct sim_backing *sim, uint64_t arena_bytes, uint64_t limit_bytes);

/* pool_alloc and an immediate free, failing the test on any other status than POOL_OK. */
uint64_t sim_alloc(struct pool *pool, uint64_t bytes);
void sim_free(uint64_t address);

#endif
