/* forwarded.h - blocks that the driver itself allocated for the program, as far as the program can
 * free them with cuMemFree: what the pool did not serve.
 *
 * Kept for the report alone: how many are live, and how large they are.
 *
 * Lock: one, for the table, never held across a driver call; each of these calls came or goes with
 * one that costs microseconds.
 */
#ifndef VRAMALLOC_SHIM_FORWARDED_H
#define VRAMALLOC_SHIM_FORWARDED_H

#include <cuda.h>
#include <stddef.h>

#include "devices.h"

struct forwarded_block {
    CUdeviceptr address; /* 0: none */
    size_t bytes;
    struct device *device;
    CUcontext context;
    uint32_t origin; /* who allocated it: origins.h */
};

/* The driver allocated. context: which ends the block with itself; NULL where none does. Without
 * host memory for the table the block is not counted as live. Cost: O(1). */
void forwarded_add(CUdeviceptr address, size_t bytes, struct device *device, CUcontext context,
                   uint32_t origin);

/* Before the driver is asked to free an address, which may be anything's: afterwards it may be a
 * new block's at once. The answer is for forwarded_return(). Cost: O(1). */
struct forwarded_block forwarded_take(CUdeviceptr address);

/* The driver did not free it. */
void forwarded_return(const struct forwarded_block *block);

/* The context is gone, and its blocks with it. Cost: O(blocks). */
void forwarded_forget_context(CUcontext context);

/* Calls `visit` for each live one; it must not call any of these. Waits 100 ms at most for the
 * lock: the process may end in a thread that holds it. False: none was visited. Cost: O(blocks). */
bool forwarded_visit(void (*visit)(void *arg, const struct forwarded_block *block), void *arg);

#endif
