/* backing_vmm.h - arena memory by handle, mapped where it is wanted. */
#ifndef VRAMALLOC_SHIM_BACKING_VMM_H
#define VRAMALLOC_SHIM_BACKING_VMM_H

#include "../pool/backing.h"
#include "devices.h"

/* Whether VRAMALLOC_BACKING asks for this backing and the device has what it needs. Where it lacks
 * something, one line is written, once. */
bool backing_vmm_wanted(const struct device *device);

/* The backing for a context's pool: memory from cuMemCreate on the context's device, fences from
 * fence.h. Its functions may be called with any context current, or none. */
struct backing backing_vmm(struct context *context);

/* Another device's contexts were let at this one's memory: lets them at what a pool of it holds. */
void backing_vmm_share(struct pool *pool, const struct device *device);

/* Whether any context's memory is by handle. */
bool backing_vmm_used(void);

#endif
