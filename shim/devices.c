/* devices.c - the registry of GPUs and contexts. See devices.h.
 *
 * A thread remembers the last context it used, with the generation of the registry at that time;
 * any drop moves the generation on, so the next call looks again.
 */
#define _GNU_SOURCE
#include "devices.h"

#include <string.h>

#include "backing_malloc.h"
#include "backing_vmm.h"
#include "capture.h"
#include "clock.h"
#include "debug.h"
#include "deferred.h"
#include "driver.h"
#include "fence.h"
#include "figures.h"
#include "forwarded.h"
#include "ipc.h"
#include "lazy_fence.h"
#include "options.h"
#include "trace.h"

enum { CONTEXTS_MAX = 256, DEFERRED_PATIENCE_US = 1000000 };

static struct device devices[DEVICES_MAX];
static struct context contexts[CONTEXTS_MAX];
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t visit_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t generation = 1;
static char claimed; /* its address is a handle that no context has: it is being dropped */

static __thread struct {
    CUcontext handle;
    uint32_t generation;
    struct context *context;
} last_used;

bool context_was_destroyed;

pthread_mutex_t *devices_lock(void)
{
    return &registry_lock;
}

struct device *device_of(CUdevice handle)
{
    if (handle < 0 || handle >= DEVICES_MAX)
        return NULL;
    struct device *device = &devices[handle];
    if (__atomic_load_n(&device->known, __ATOMIC_ACQUIRE))
        return device;
    if (!process_serves())
        return NULL;
    char name[sizeof(device->name)] = "";
    size_t total_bytes = 0;
    CUmemoryPool pool = NULL;
    if (real_cuDeviceGetName != NULL)
        real_cuDeviceGetName(name, (int)sizeof(name), handle);
    if (real_cuDeviceTotalMem_v2 != NULL)
        real_cuDeviceTotalMem_v2(&total_bytes, handle);
    if (real_cuDeviceGetDefaultMemPool != NULL)
        real_cuDeviceGetDefaultMemPool(&pool, handle);
    pthread_mutex_lock(&registry_lock);
    if (!device->known) {
        device->handle = handle;
        memcpy(device->name, name, sizeof(name));
        device->total_bytes = total_bytes;
        device->default_pool = pool;
        process_device_seen();
        trace_device(handle, total_bytes, name); /* before anybody is served */
        __atomic_store_n(&device->known, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&registry_lock);
    return device;
}

struct device *device_known(CUdevice handle)
{
    if (handle < 0 || handle >= DEVICES_MAX ||
        !__atomic_load_n(&devices[handle].known, __ATOMIC_ACQUIRE))
        return NULL;
    return &devices[handle];
}

struct device *device_for_counting(void)
{
    CUdevice handle;
    struct device *device = NULL;
    if (driver_ready() && real_cuCtxGetDevice != NULL &&
        real_cuCtxGetDevice(&handle) == CUDA_SUCCESS)
        return device_of(handle);
    for (handle = 0; handle < DEVICES_MAX && device == NULL; handle++)
        device = device_known(handle);
    return device;
}

void device_refused_free_note(struct device *device, CUdeviceptr address)
{
    struct pool_block block;
    uint32_t index = __atomic_fetch_add(&device->refused_frees_noted, 1, __ATOMIC_RELAXED);
    if (index >= REFUSED_FREES_MAX)
        return;
    struct refused_free *free = &device->refused_frees[index].free;
    free->address = address;
    if (pool_find(address, &block) == POOL_OK && block.state == POOL_BLOCK_LIVE) {
        free->block_address = block.address;
        free->block_bytes = block.requested_bytes;
    }
    __atomic_store_n(&device->refused_frees[index].ready, true, __ATOMIC_RELEASE);
}

bool device_reached_from_outside(const struct device *device)
{
    return __atomic_load_n(&device->green_made, __ATOMIC_RELAXED) ||
           __atomic_load_n(&device->peer_enabled, __ATOMIC_RELAXED);
}

struct context *device_context(const struct device *device, int *slot)
{
    while (*slot < CONTEXTS_MAX) {
        struct context *context = &contexts[(*slot)++];
        if (__atomic_load_n(&context->handle, __ATOMIC_ACQUIRE) != NULL &&
            context->device == device)
            return context;
    }
    return NULL;
}

static struct context *context_find_locked(CUcontext handle)
{
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (contexts[i].handle == handle)
            return &contexts[i];
    return NULL;
}

/* What is allocated in such a context ends with it, so nothing may be kept for later. */
static bool being_dropped_locked(CUcontext handle)
{
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (contexts[i].dropping == handle)
            return true;
    return false;
}

static struct pool *pool_make(struct context *context, const struct device *device)
{
    struct backing backing = context->vmm ? backing_vmm(context) : backing_malloc(context);
    struct pool_config config = {
        .arena_bytes = options.arena_size.none
                           ? 1 /* nothing ahead of what is asked for */
                           : options_size_resolve(&options.arena_size, device->total_bytes),
        .limit_bytes = options_size_resolve(&options.arena_limit, device->total_bytes),
        .slack_percent = options.slack,
        .uncached = debug_frees_wait(),
        .guard_bytes = debug_has(DEBUG_GUARD) ? DEBUG_GUARD_BYTES : 0,
        .patience_us = context->deferred != NULL ? DEFERRED_PATIENCE_US : 0};
    return pool_create(&config, &backing);
}

/* Takes a free slot for a context that is not known yet. NULL: no slot or no host memory. */
static struct context *context_make_locked(CUcontext handle, struct device *device, bool vmm)
{
    struct context *context = context_find_locked(NULL);
    if (context == NULL)
        return NULL;
    memset(context, 0, sizeof(*context));
    context->vmm = vmm;
    context->deferred = deferred_create();
    context->pool = pool_make(context, device);
    if (context->pool == NULL) {
        deferred_destroy(context->deferred);
        return NULL;
    }
    context->device = device;
    device->contexts_served++;
    __atomic_store_n(&context->handle, handle, __ATOMIC_RELEASE);
    return context;
}

/* A second pool: from here on the device keeps the peaks of their sum. */
static void pools_join_locked(struct device *device)
{
    struct context *context;
    for (int slot = 0;
         device->contexts_served > 1 && (context = device_context(device, &slot)) != NULL;)
        pool_join(context->pool, &device->together);
}

static struct context *context_look_up(CUcontext handle)
{
    CUdevice device_handle;
    struct device *device = NULL;
    if (real_cuCtxGetDevice != NULL && real_cuCtxGetDevice(&device_handle) == CUDA_SUCCESS)
        device = device_of(device_handle);
    if (device == NULL)
        return NULL;
    bool vmm = backing_vmm_wanted(device);
    pthread_mutex_lock(&registry_lock);
    struct context *context = context_find_locked(handle);
    bool made = context == NULL && !being_dropped_locked(handle);
    if (made)
        context = context_make_locked(handle, device, vmm);
    pools_join_locked(device);
    last_used.generation = __atomic_load_n(&generation, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&registry_lock);
    last_used.handle = handle;
    last_used.context = context;
    if (made && context != NULL)
        trace_event(TRACE_CONTEXT_BEGIN, trace_recent(), (uint64_t)(uintptr_t)handle,
                    (uint64_t)device_handle, 0, context_number(context));
    return context;
}

struct context *context_of(CUcontext current)
{
    if (last_used.handle == current &&
        last_used.generation == __atomic_load_n(&generation, __ATOMIC_ACQUIRE))
        return last_used.context;
    return context_look_up(current);
}

uint16_t context_number(const struct context *context)
{
    return (uint16_t)(context - contexts + 1);
}

uint16_t context_number_latest(void)
{
    return last_used.context != NULL ? context_number(last_used.context) : 0;
}

struct context *context_current(CUcontext *current_out)
{
    *current_out = NULL;
    if (!driver_ready() || !process_serves() || !options.enable)
        return NULL;
    if (real_cuCtxGetCurrent(current_out) != CUDA_SUCCESS || *current_out == NULL) {
        *current_out = NULL;
        return NULL;
    }
    return context_of(*current_out);
}

static bool context_stays(const struct context *context)
{
    CUcontext handle = __atomic_load_n(&context->handle, __ATOMIC_ACQUIRE);
    return handle != NULL && handle != (CUcontext)(void *)&claimed;
}

struct context *context_of_pool(const struct pool *pool, struct context *likely)
{
    if (likely != NULL && likely->pool == pool && context_stays(likely))
        return likely;
    for (int i = 0; i < CONTEXTS_MAX; i++)
        if (context_stays(&contexts[i]) && contexts[i].pool == pool)
            return &contexts[i];
    return NULL;
}

/* Claims a context for retiring, so that only one thread does it. */
static struct context *context_claim(CUcontext handle)
{
    pthread_mutex_lock(&visit_lock);
    pthread_mutex_lock(&registry_lock);
    struct context *found = context_find_locked(handle);
    if (found != NULL) {
        found->dropping = handle;
        __atomic_store_n(&found->handle, (CUcontext)(void *)&claimed, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&registry_lock);
    pthread_mutex_unlock(&visit_lock);
    return found;
}

struct context *contexts_drop_begin(CUcontext handle)
{
    forwarded_forget_context(handle);
    ipc_import_forget(handle);
    struct context *context = handle != NULL && process_serves() ? context_claim(handle) : NULL;
    if (context == NULL)
        return NULL;
    ipc_export_forget(context->pool);
    trace_event(TRACE_CONTEXT_END, trace_clock(), (uint64_t)(uintptr_t)handle,
                (uint64_t)context->device->handle, 0, context_number(context));
    lazy_fences_context_ends(context);
    if (context->vmm)
        pool_close(context->pool); /* its memory is given back when no kernel can touch it */
    else
        pool_destroy(context->pool, false); /* its addresses may soon be another context's */
    return context;
}

void contexts_drop_end(struct context *context)
{
    if (context == NULL)
        return;
    struct pool *pool = context->pool;
    if (context->vmm)
        pool_destroy(pool, true);
    lazy_fences_context_ends(context); /* a free of another thread's came between */
    fence_forget_context(context);
    capture_forget_context(context->dropping);
    pthread_mutex_lock(&registry_lock);
    figures_retire(context);
    context->dropping = NULL;
    __atomic_store_n(&context->handle, NULL, __ATOMIC_RELEASE);
    __atomic_fetch_add(&generation, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&registry_lock);
}

uint64_t context_room(void *self, uint64_t *total_out)
{
    const struct context *context = self;
    size_t free_bytes = 0, total_bytes = 0;
    DEVICE_COUNT(context->device, driver_calls, 1);
    if (real_cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return UINT64_MAX;
    *total_out = total_bytes;
    return free_bytes;
}

uint64_t context_clock_ns(void *self)
{
    (void)self;
    return clock_coarse_ns();
}

/* Frees kept back in a context that need not be the caller's, which the driver is called for: it
 * must not be destroyed meanwhile. */
static void kept_collect(struct context *context, struct pool *pool)
{
    pthread_mutex_lock(&visit_lock);
    if (context_stays(context) && context->pool == pool) {
        deferred_flush(context);
        pool_collect(pool);
    }
    pthread_mutex_unlock(&visit_lock);
}

bool device_idle_release(struct device *device)
{
    bool released = false;
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;) {
        struct pool *pool = context->pool;
        kept_collect(context, pool);
        if (pool_trim(pool, 0) > 0)
            released = true;
    }
    return released;
}

uint64_t device_idle_elsewhere(const struct context *context)
{
    uint64_t bytes = 0;
    struct context *other;
    for (int slot = 0; (other = device_context(context->device, &slot)) != NULL;) {
        struct pool *pool = other->pool;
        if (other == context)
            continue;
        kept_collect(other, pool);
        bytes += pool_releasable_bytes(pool);
    }
    return bytes;
}

static CUresult held_share(const struct device *device, CUdevice peer)
{
    struct context *context;
    CUresult result = CUDA_SUCCESS;
    for (int slot = 0; result == CUDA_SUCCESS && (context = device_context(device, &slot)) != NULL;)
        if (context->vmm)
            result = backing_vmm_share(context->pool, peer);
    return result;
}

static void held_unshare(const struct device *device, CUdevice peer)
{
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;)
        if (context->vmm)
            backing_vmm_unshare(context->pool, peer);
}

CUresult device_peer_add(struct device *device, CUdevice peer)
{
    if (peer < 0 || peer >= DEVICES_MAX)
        return CUDA_SUCCESS;
    uint64_t bit = (uint64_t)1 << peer;
    /* from here on new memory is shared as it comes */
    if ((__atomic_fetch_or(&device->peers, bit, __ATOMIC_SEQ_CST) & bit) != 0)
        return CUDA_SUCCESS;
    CUresult result = held_share(device, peer);
    if (result != CUDA_SUCCESS) {
        __atomic_fetch_and(&device->peers, ~bit, __ATOMIC_SEQ_CST);
        held_unshare(device, peer);
    }
    return result;
}
