/* explain.h - why an allocation failed, in words. */
#ifndef VRAMALLOC_SHIM_EXPLAIN_H
#define VRAMALLOC_SHIM_EXPLAIN_H

#include <stdint.h>

#include "devices.h"

/* The pool could not meet a request of `bytes`, and the driver refused it: writes one block of
 * lines to stderr, for the first three and then the 10th, 100th ... such failure of the process.
 * VRAMALLOC_REPORT has no say in it. The cause of each is counted. context: current, or NULL for
 * nothing. Errno is kept; no malloc. Cost: one cuMemGetInfo, and a walk over the live blocks if it
 * is told. */
void explain_out_of_memory(struct context *context, uint64_t bytes);

#endif
