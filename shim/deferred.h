/* deferred.h - VRAMALLOC_FREE=deferred: frees that cost no driver call.
 *
 * A free returns at once. Its block is kept back in a small batch; when that is full, or a
 * request finds no memory at hand, one fence after all work of the context is recorded for the
 * whole batch, and the blocks become free when it has passed. So a block is reused only when all
 * work submitted before its free has finished, as with a wait, but nobody waits.
 *
 * What it changes for a program: cudaFree is no point of synchronisation any more, and does not
 * report pending asynchronous errors.
 *
 * What it leaves out: frees that cannot be fenced this way wait as in sync mode (no
 * cuCtxRecordEvent, peers or green contexts, a batch that fills up while a stream captures).
 *
 * Lock: one a batch, never held across a driver call; outside the pool's.
 */
#ifndef VRAMALLOC_SHIM_DEFERRED_H
#define VRAMALLOC_SHIM_DEFERRED_H

#include <stdbool.h>

#include "devices.h"

/* Makes a context's batch if the settings ask for it and the driver can. */
struct deferred *deferred_create(void);
void deferred_destroy(struct deferred *deferred);

/* The frees kept back at this moment. deferred: NULL keeps none. */
uint64_t deferred_kept(const struct deferred *deferred);

/* Takes a block whose free has begun. False: it must be freed the waiting way. */
bool deferred_free(struct context *owner, const struct pool_block *block);

/* Records the fence of what is kept back, if anything and if that is possible now. self: the
 * context, which need not be current. */
void deferred_flush(void *self);

/* The same where a request found no memory at hand, which makes it a slow one: for backing.h's
 * frees_due. */
void deferred_due(void *self);

#endif
