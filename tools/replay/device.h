/* device.h - a simulated device behind a pool: what its backing holds, and what the driver calls
 * cost.
 *
 * Two backings as in the library: segments from cuMemAlloc, or memory in parts from cuMemCreate.
 * Costs are those measured on an NVIDIA H200 with driver 580. Fences pass a fixed time after they
 * were recorded. Blocks that the pool refuses are asked of the same card's driver, as the library
 * does.
 *
 * What it leaves out: the time that GPU work takes. Lock: one of its own.
 */
#ifndef VRAMALLOC_REPLAY_DEVICE_H
#define VRAMALLOC_REPLAY_DEVICE_H

#include "../../pool/pool.h"

struct device;

/* card_bytes: UINT64_MAX for a card without bound. lag_ns: from a free to its fence. NULL: the host
 * has no memory. */
struct device *device_create(uint64_t card_bytes, bool vmm, uint64_t lag_ns);
void device_destroy(struct device *device);
struct backing device_backing(struct device *device);

/* For backing.h's frees_due. Before device_backing(). */
void device_frees_due_set(struct device *device, void (*due)(void *arg), void *arg);

/* The clock goes on to `ns`, not back. */
void device_clock(struct device *device, uint64_t ns);

/* A fence over all that was freed so far. */
uint64_t device_fence(struct device *device);

/* A block of the driver's own, beside the pool. False: the card is full. */
bool device_allocate(struct device *device, uint64_t bytes, uint64_t *address_out);
void device_release(struct device *device, uint64_t address, uint64_t bytes);

uint64_t device_peak_bytes(const struct device *device); /* pool's and driver's own together */
uint64_t device_calls(const struct device *device);
double device_time_ns(const struct device *device);

#endif
