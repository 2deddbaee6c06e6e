/* pooled.h - what an address is to the pool, for the hooks that answer questions.
 *
 * What it leaves out: blocks of other processes (ipc.h). Lock: none.
 */
#ifndef VRAMALLOC_SHIM_POOLED_H
#define VRAMALLOC_SHIM_POOLED_H

#include <cuda.h>
#include <stdbool.h>

#include "../pool/pool.h"

enum pooled {
    POOLED_NO,   /* the driver's to answer */
    POOLED_LIVE, /* inside a live block, which is described */
    POOLED_DEAD  /* the pool's, but in no live block: no allocation to the program */
};

/* errno is kept. Cost: as pool_find(). */
enum pooled pooled_find(CUdeviceptr dptr, struct pool_block *block);

/* The block is memory made by handle (VRAMALLOC_BACKING=vmm). Cost: as context_of_pool(). */
bool pooled_is_by_handle(const struct pool_block *block);

#endif
