/* backing_malloc.h - arena memory from cuMemAlloc. */
#ifndef VRAMALLOC_SHIM_BACKING_MALLOC_H
#define VRAMALLOC_SHIM_BACKING_MALLOC_H

#include "../pool/backing.h"
#include "devices.h"

/* The backing for a context's pool: segments from cuMemAlloc in that context, fences from fence.h.
 * acquire must be called with the context current; release may be called with any or none. */
struct backing backing_malloc(struct context *context);

#endif
