/* stream_use.h - what the driver's default pool would tell of the stream-ordered blocks that ours
 * serves.
 *
 * What it leaves out: the program's calls (hooks_mempool.c). Lock: none; figures are atomic.
 */
#ifndef VRAMALLOC_SHIM_STREAM_USE_H
#define VRAMALLOC_SHIM_STREAM_USE_H

#include "devices.h"

/* A stream-ordered block of `bytes`, as asked for, comes to, or goes from, the program. */
void stream_use_add(struct context *context, uint64_t bytes);
void stream_use_remove(struct context *context, uint64_t bytes);

/* Live and highest bytes of the device's stream-ordered blocks (see struct context), those of
 * several contexts added up. reset: the highest
 * value of the used or the reserved bytes begins anew. */
struct stream_use {
    uint64_t bytes;
    uint64_t high_bytes;
    uint64_t reserved_bytes; /* the highest, since that of the reserved bytes was reset */
    uint64_t kept_bytes;
};
struct stream_use stream_use_of(const struct device *device);
void stream_use_reset(const struct device *device, bool reserved);

/* The driver's pool would have kept at most so much of what is not live. */
void stream_use_keep(const struct device *device, uint64_t keep_bytes);

/* The program trims the device's default pool: idle memory is given back where that does not wait
 * for the GPU, as it does not natively. */
void stream_use_trim(const struct device *device, uint64_t keep_bytes);

#endif
