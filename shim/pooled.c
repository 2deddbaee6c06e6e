/* pooled.c - what an address is to the pool. See pooled.h.
 */
#define _GNU_SOURCE
#include "pooled.h"

#include <errno.h>

#include "devices.h"

enum pooled pooled_find(CUdeviceptr dptr, struct pool_block *block)
{
    if (!process_serves() || !pool_owns(dptr))
        return POOLED_NO;
    int saved_errno = errno;
    enum pool_status status = pool_find(dptr, block);
    errno = saved_errno;
    if (status == POOL_OK && block->state == POOL_BLOCK_LIVE &&
        dptr - block->address < block->requested_bytes)
        return POOLED_LIVE;
    return status == POOL_NOT_OWNED ? POOLED_NO : POOLED_DEAD;
}

bool pooled_is_by_handle(const struct pool_block *block)
{
    const struct context *owner = context_of_pool(block->pool, NULL);
    return owner != NULL && owner->vmm;
}
