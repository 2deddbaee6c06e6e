/* origins.h - who allocates: the code that called the driver or, where asked for, the call stack.
 *
 * Each allocation has an origin, a number that the pool keeps with the block in the upper bits of
 * its tag. So what is live needs no table of its own, and what dies with a context is gone with it.
 *
 *   by default             the hook's return address: the module that called the driver, which is
 *                          the CUDA runtime where that is a library of its own. A sample of the
 *                          calls is counted: those that latency.h draws.
 *   VRAMALLOC_LEAKS=stacks the thread's call stack, without our frames and the runtime's. So with
 *   VRAMALLOC_DEBUG        guard or fill. Every call is counted.
 *
 * Equal stacks are stored once. Tables are of fixed size: what has no room gets the number 0, and
 * is counted.
 *
 * What it leaves out: frees, which need no hook. Lock: one of its own for what is new, a leaf, with
 * no driver call under it; who reads takes none. errno is kept; no malloc but the loader's, when
 * stacks are asked for, at the first CUDA call. Cost by default: a load and a compare; of a stack 2
 * to 10 us.
 */
#ifndef VRAMALLOC_SHIM_ORIGINS_H
#define VRAMALLOC_SHIM_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "modules.h"

enum { ORIGIN_TAG_SHIFT = 8, ORIGIN_FRAMES_MAX = 24 };

/* The thread's latest caller, by the code's address. Private to this file and origins.c. */
struct origin_thread {
    const void *caller;
    uint32_t origin;
};
extern __thread struct origin_thread origin_thread;

/* The settings are known: makes ready for stacks where they are asked for, and says so if that is
 * not possible. May call malloc. */
void origins_settle(void);

uint32_t origin_look_up(const void *caller, uint64_t bytes);

/* The origin of an allocation of `bytes`; caller: the hook's return address. 0: not known. */
static inline uint32_t origin_of_call(const void *caller, uint64_t bytes)
{
    return __builtin_expect(origin_thread.caller == caller, 1) ? origin_thread.origin
                                                               : origin_look_up(caller, bytes);
}

/* The origin of a stack by its return addresses, the innermost first: as origin_look_up(), which
 * walks the thread's. */
uint32_t origin_of_stack(const void *const *returns, size_t count, uint64_t bytes);

/* One call was drawn that stands for `weight` of them; does nothing where all are counted. */
void origin_sample(uint32_t origin, uint64_t bytes, uint32_t weight);

/* As the bits of a block's tag, and back. */
static inline uint32_t origin_tag(uint32_t origin)
{
    return origin << ORIGIN_TAG_SHIFT;
}

static inline uint32_t origin_of_tag(uint32_t tag)
{
    return tag >> ORIGIN_TAG_SHIFT;
}

/* Origins are call stacks. */
bool origins_are_stacks(void);

/* The frames of an origin, the innermost first; names are looked up in the modules' files, once.
 * Returns how many. Cost: the first time for a frame, the symbols of a file are read. */
size_t origin_frames(uint32_t origin, struct module_frame *frames, size_t frames_max);

/* The module that allocated: of the innermost frame. 0: not known. Cost: O(1). */
uint32_t origin_module(uint32_t origin);

/* "f+0x12 (program), main+0x40 (program)" into text, at most `frames_max` of them; "" where nothing
 * is known. Returns text. */
const char *origin_describe(uint32_t origin, char *text, size_t bytes, size_t frames_max);

/* What was counted of an origin. */
struct origin_counts {
    uint64_t looked_at; /* calls */
    uint64_t calls;     /* that these stand for */
    uint64_t bytes;     /* asked for in those */
};
struct origin_counts origin_counts(uint32_t origin);

/* Origins are numbered from 1 to this. 0 is what has no number. */
uint32_t origins_stored(void);

#endif
