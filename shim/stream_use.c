/* stream_use.c - live, highest and kept bytes of stream-ordered blocks, a context each. See
 * stream_use.h.
 */
#include "stream_use.h"

static void raise_to(uint64_t *highest, uint64_t now)
{
    uint64_t high = __atomic_load_n(highest, __ATOMIC_RELAXED);
    while (now > high && !__atomic_compare_exchange_n(highest, &high, now, true, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {
    }
}

void stream_use_add(struct context *context, uint64_t bytes)
{
    uint64_t now = __atomic_add_fetch(&context->async_bytes, bytes, __ATOMIC_RELAXED);
    raise_to(&context->async_high_bytes, now);
    raise_to(&context->async_reserved_bytes, now);
    raise_to(&context->async_kept_bytes, now);
}

void stream_use_remove(struct context *context, uint64_t bytes)
{
    __atomic_sub_fetch(&context->async_bytes, bytes, __ATOMIC_RELAXED);
}

struct stream_use stream_use_of(const struct device *device)
{
    struct stream_use use = {0};
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;) {
        use.bytes += __atomic_load_n(&context->async_bytes, __ATOMIC_RELAXED);
        use.high_bytes += __atomic_load_n(&context->async_high_bytes, __ATOMIC_RELAXED);
        use.reserved_bytes += __atomic_load_n(&context->async_reserved_bytes, __ATOMIC_RELAXED);
        use.kept_bytes += __atomic_load_n(&context->async_kept_bytes, __ATOMIC_RELAXED);
    }
    return use;
}

/* A highest value falls to `bytes`, but not below the present one. */
static void lower(uint64_t *highest, uint64_t bytes, const struct context *context)
{
    uint64_t now = __atomic_load_n(&context->async_bytes, __ATOMIC_RELAXED);
    uint64_t least = bytes > now ? bytes : now;
    if (__atomic_load_n(highest, __ATOMIC_RELAXED) > least)
        __atomic_store_n(highest, least, __ATOMIC_RELAXED);
}

void stream_use_reset(const struct device *device, bool reserved)
{
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;)
        lower(reserved ? &context->async_reserved_bytes : &context->async_high_bytes, 0, context);
}

void stream_use_keep(const struct device *device, uint64_t keep_bytes)
{
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;)
        lower(&context->async_kept_bytes, keep_bytes, context);
}

void stream_use_trim(const struct device *device, uint64_t keep_bytes)
{
    stream_use_keep(device, keep_bytes);
    struct context *context;
    for (int slot = 0; (context = device_context(device, &slot)) != NULL;) {
        struct pool *pool = context->pool;
        if (!context->vmm)
            continue;
        pool_collect(pool);
        pool_trim(pool, keep_bytes);
    }
}
