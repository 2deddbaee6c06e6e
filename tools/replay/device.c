/* device.c - a simulated device behind a pool. See device.h. Addresses are never used twice. */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>

#include "card.h"

#define BASE_ADDRESS ((uint64_t)1 << 45)
#define MIB          ((double)(1 << 20))
#define POLL_NS      10000

/* Microseconds of the calls that make and move memory by handle; see the cost functions. */
static const double reserve_us = 5, create_us = 10.5, map_us = 1.3, access_us = 31, unmap_us = 28;

struct device {
    pthread_mutex_t lock;
    bool vmm;
    uint64_t card_bytes;
    uint64_t held_bytes; /* by the pool */
    uint64_t peak_bytes;
    uint64_t next_address;
    uint64_t now_ns;
    uint64_t lag_ns;
    uint64_t calls;
    double time_ns;
    struct card *own; /* blocks that the pool refused */
    void (*due)(void *arg);
    void *due_arg;
};

struct device *device_create(uint64_t card_bytes, bool vmm, uint64_t lag_ns)
{
    struct device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return NULL;
    *device = (struct device){
        .card_bytes = card_bytes, .vmm = vmm, .next_address = BASE_ADDRESS, .lag_ns = lag_ns};
    pthread_mutex_init(&device->lock, NULL);
    device->own = card_create(card_bytes);
    if (device->own != NULL)
        return device;
    free(device);
    return NULL;
}

void device_destroy(struct device *device)
{
    card_destroy(device->own);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static void charge(struct device *device, uint64_t calls, double ns)
{
    device->calls += calls;
    device->time_ns += ns;
}

static uint64_t room_of(const struct device *device)
{
    uint64_t used_bytes = device->held_bytes + card_used_bytes(device->own);
    return device->card_bytes > used_bytes ? device->card_bytes - used_bytes : 0;
}

static void held_set(struct device *device, uint64_t bytes)
{
    device->held_bytes = bytes;
    if (device->card_bytes != UINT64_MAX)
        card_capacity_set(device->own, device->card_bytes - bytes);
    if (bytes + card_used_bytes(device->own) > device->peak_bytes)
        device->peak_bytes = bytes + card_used_bytes(device->own);
}

/* cuMemCreate: 10.5 us up to 128 MiB, 22 to 85 at 1 GiB. */
static double create_ns(uint64_t bytes)
{
    double mib = (double)bytes / MIB;
    return 1000 * (mib <= 128 ? create_us : create_us + (mib - 128) * 0.05);
}

/* cuMemSetAccess: 31 us a handle, 69 at 1 GiB. */
static double access_ns(uint64_t bytes)
{
    double mib = (double)bytes / MIB;
    return 1000 * (mib <= 128 ? access_us : access_us + (mib - 128) * 0.042);
}

/* cuMemUnmap of the last mapping, which frees the memory as cuMemRelease would: 12 us at 2 MiB, 74
 * at 128 MiB, 544 at 1 GiB. */
static double unmap_ns(uint64_t bytes)
{
    double mib = (double)bytes / MIB;
    return 1000 * (unmap_us + (mib <= 128 ? 12 + mib * 0.49 : 74 + (mib - 128) * 0.525));
}

static enum backing_status acquire(struct device *device, uint64_t bytes, uint64_t part_bytes,
                                   uint64_t *address_out)
{
    pthread_mutex_lock(&device->lock);
    bool fits = bytes <= room_of(device);
    if (!device->vmm) {
        charge(device, 1, fits ? card_cost_ns(bytes, false) : 5000);
    } else {
        charge(device, 1, 1000 * reserve_us);
        for (uint64_t at = 0; fits && at < bytes; at += part_bytes) {
            uint64_t part = bytes - at < part_bytes ? bytes - at : part_bytes;
            charge(device, 4, create_ns(part) + 1000 * map_us + access_ns(part));
        }
    }
    if (fits) {
        *address_out = device->next_address;
        device->next_address += bytes;
        held_set(device, device->held_bytes + bytes);
    }
    pthread_mutex_unlock(&device->lock);
    return fits ? BACKING_OK : BACKING_NO_MEMORY;
}

static enum backing_status acquire_whole(void *self, uint64_t bytes, uint64_t *address_out)
{
    return acquire(self, bytes, 0, address_out);
}

static enum backing_status acquire_parts(void *self, uint64_t bytes, uint64_t part_bytes,
                                         uint64_t *address_out)
{
    return acquire(self, bytes, part_bytes, address_out);
}

static enum backing_status release(void *self, uint64_t address, uint64_t bytes)
{
    struct device *device = self;
    (void)address;
    pthread_mutex_lock(&device->lock);
    charge(device, 1, card_cost_ns(bytes, true));
    held_set(device, device->held_bytes - bytes);
    pthread_mutex_unlock(&device->lock);
    return BACKING_OK;
}

static enum backing_status release_parts(void *self, uint64_t address, uint64_t bytes,
                                         uint64_t part_bytes)
{
    struct device *device = self;
    (void)address;
    pthread_mutex_lock(&device->lock);
    for (uint64_t at = 0; at < bytes; at += part_bytes)
        charge(device, 1, unmap_ns(bytes - at < part_bytes ? bytes - at : part_bytes));
    held_set(device, device->held_bytes - bytes);
    pthread_mutex_unlock(&device->lock);
    return BACKING_OK;
}

static void retire(void *self, uint64_t address, uint64_t bytes)
{
    struct device *device = self;
    (void)address;
    (void)bytes;
    pthread_mutex_lock(&device->lock);
    charge(device, 1, 1000 * reserve_us);
    pthread_mutex_unlock(&device->lock);
}

/* cuMemGetInfo: 4.2 us. */
static uint64_t room(void *self, uint64_t *total_out)
{
    struct device *device = self;
    pthread_mutex_lock(&device->lock);
    uint64_t bytes = device->card_bytes == UINT64_MAX ? (uint64_t)1 << 50 : room_of(device);
    *total_out = device->card_bytes == UINT64_MAX ? (uint64_t)1 << 50 : device->card_bytes;
    charge(device, 1, 4200);
    pthread_mutex_unlock(&device->lock);
    return bytes;
}

/* A fence is the time at which it passes. Asking takes a moment, so that a host that waits by
 * asking sees time go by: cuEventQuery 0.16 us, and a yield. */
static enum backing_fence_state fence_poll(void *self, uint64_t fence)
{
    struct device *device = self;
    pthread_mutex_lock(&device->lock);
    bool passed = fence <= device->now_ns;
    device->now_ns += POLL_NS;
    pthread_mutex_unlock(&device->lock);
    return passed ? BACKING_FENCE_PASSED : BACKING_FENCE_PENDING;
}

static enum backing_fence_state fence_wait(void *self, uint64_t fence)
{
    device_clock(self, fence);
    return BACKING_FENCE_PASSED;
}

static void frees_due(void *self)
{
    const struct device *device = self;
    device->due(device->due_arg);
}

void device_frees_due_set(struct device *device, void (*due)(void *arg), void *arg)
{
    device->due = due;
    device->due_arg = arg;
}

struct backing device_backing(struct device *device)
{
    struct backing backing = {
        .self = device, .room = room, .fence_poll = fence_poll, .fence_wait = fence_wait};
    if (device->due != NULL)
        backing.frees_due = frees_due;
    if (device->vmm) {
        backing.acquire_parts = acquire_parts;
        backing.release_parts = release_parts;
        backing.retire = retire;
    } else {
        backing.acquire = acquire_whole;
        backing.release = release;
    }
    return backing;
}

void device_clock(struct device *device, uint64_t ns)
{
    pthread_mutex_lock(&device->lock);
    if (device->now_ns < ns)
        device->now_ns = ns;
    pthread_mutex_unlock(&device->lock);
}

uint64_t device_fence(struct device *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t fence = device->now_ns + device->lag_ns;
    pthread_mutex_unlock(&device->lock);
    return fence;
}

bool device_allocate(struct device *device, uint64_t bytes, uint64_t *address_out)
{
    pthread_mutex_lock(&device->lock);
    bool allocated = card_allocate(device->own, bytes, address_out);
    held_set(device, device->held_bytes);
    pthread_mutex_unlock(&device->lock);
    return allocated;
}

void device_release(struct device *device, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&device->lock);
    card_release(device->own, address, bytes);
    pthread_mutex_unlock(&device->lock);
}

uint64_t device_peak_bytes(const struct device *device)
{
    return device->peak_bytes;
}

uint64_t device_calls(const struct device *device)
{
    return device->calls + card_calls(device->own);
}

double device_time_ns(const struct device *device)
{
    return device->time_ns + card_time_ns(device->own);
}
