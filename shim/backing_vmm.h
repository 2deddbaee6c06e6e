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

/* Lets another device's contexts at all that a pool holds. Where the driver refuses that for some
 * of it, its answer is returned, and the rest left as it is. */
CUresult backing_vmm_share(struct pool *pool, CUdevice peer);

/* Takes that back. What the driver refuses to take back stays open, which the program is not told.
 */
void backing_vmm_unshare(struct pool *pool, CUdevice peer);

/* Whether any context's memory is by handle. */
bool backing_vmm_used(void);

#endif
