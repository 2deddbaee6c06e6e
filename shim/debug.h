/* debug.h - VRAMALLOC_DEBUG: faults of the program that a pool would hide, found.
 *
 *   guard  each block is followed by at least DEBUG_GUARD_BYTES that are nobody's, filled, and
 *          looked at when the block is freed: a write past its end is said;
 *   fill   free memory is filled with NaN (0xfffa): what is read after its free or before its first
 *          write is no number any more, and what was written after its free is said when the
 *          memory is handed out again;
 *   zero   fresh blocks are zero.
 *
 * Each line names the function that allocated the block, and its callers (origins.h).
 *
 * With guard or fill every free waits for the GPU, stream-ordered and deferred ones too. The work
 * is done in a stream of its own for each context and waited for, so it is in order with whatever
 * the program does; it spoils no capture (the thread is in relaxed mode meanwhile). Of a large
 * block DEBUG_LOOK_BYTES at each end are looked at for late writes.
 *
 * A free that can only be put off (wait.h) is looked at and filled when its fence has passed,
 * before anybody else has the block. Where memory could not be filled, late writes are looked for
 * no more.
 *
 * What it leaves out: blocks that the driver serves, blocks that are live at exit, reads past an
 * end, writes between a free that is put off and its end. Lock: put_off_lock for the table of such
 * frees, freed_lock for the list of blocks freed: leaves, never held across a driver call; the
 * stream of a context is made once. Cost: some copies of 10 to 100 us each.
 */
#ifndef VRAMALLOC_SHIM_DEBUG_H
#define VRAMALLOC_SHIM_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "devices.h"
#include "options.h"

enum { DEBUG_GUARD_BYTES = 512, DEBUG_LOOK_BYTES = 64 << 10, DEBUG_PUT_OFF_MAX = 4096 };

enum { DEBUG_GUARD = 1, DEBUG_FILL = 2, DEBUG_ZERO = 4 }; /* in the order of options.def */

static inline bool debug_has(uint32_t what)
{
    return __builtin_expect((options.debug & what) != 0, 0);
}

/* Frees must wait for the GPU. */
static inline bool debug_frees_wait(void)
{
    return debug_has(DEBUG_GUARD | DEBUG_FILL);
}

/* The context, which is current, got `bytes` of memory from the driver. */
void debug_segment(struct context *context, uint64_t address, uint64_t bytes);

/* A block is handed out by the context, which is current. errno may change. */
void debug_allocated(struct context *context, uint64_t address);

/* A block is about to be free for anyone; the GPU is done with it. current: the thread's context,
 * whichever it is. errno may change. */
void debug_freeing(struct context *owner, CUcontext current, const struct pool_block *block);

/* The free of a block is put off until the fence has passed: called before the pool knows. fence: a
 * number of its own, of fence_after_next_wait(). */
void debug_put_off(struct context *context, const struct pool_block *block, uint64_t fence);

/* The fence has passed, and the block is not free yet; or it will not. errno may change. */
void debug_put_off_passed(struct context *context, uint64_t fence);
void debug_put_off_forget(const struct context *context, uint64_t fence);

#endif
