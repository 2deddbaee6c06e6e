/* debug.h - VRAMALLOC_DEBUG: faults of the program that a pool would hide, found.
 *
 *   guard  each block is followed by at least DEBUG_GUARD_BYTES that are nobody's, filled, and
 *          looked at when the block is freed: a write past its end is said;
 *   fill   free memory is filled with NaN (0xfffa): what is read after its free or before its first
 *          write is no number any more, and what was written after its free is said when the
 *          memory is handed out again;
 *   zero   fresh blocks are zero.
 *
 * With guard or fill every free waits for the GPU, stream-ordered and deferred ones too. The work
 * is done in a stream of its own for each context and waited for, so it is in order with whatever
 * the program does; it spoils no capture (the thread is in relaxed mode meanwhile). Of a large
 * block DEBUG_LOOK_BYTES at each end are looked at for late writes.
 *
 * What it leaves out: blocks that the driver serves, blocks that are live at exit, reads past an
 * end. Lock: none; the stream of a context is made once. Cost: some copies of 10 to 100 us each.
 */
#ifndef VRAMALLOC_SHIM_DEBUG_H
#define VRAMALLOC_SHIM_DEBUG_H

#include <stdbool.h>
#include <stdint.h>

#include "devices.h"
#include "options.h"

enum { DEBUG_GUARD_BYTES = 512, DEBUG_LOOK_BYTES = 64 << 10 };

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

#endif
