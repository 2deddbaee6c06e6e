/* driver.h - the real driver: its functions by pointer, and the hooks that stand before them.
 *
 * Declares, from hooks.def:
 *   real_<symbol>   pointer to libcuda's own function. For a HOOK, COUNTED or RETRIED row it is
 * never NULL once driver_ready() was true (a function that the driver lacks answers
 * CUDA_ERROR_NOT_FOUND); for a REAL row it is NULL where the driver lacks it. hook_<symbol>   our
 * replacement, exported under the symbol's own name.
 *
 * What it leaves out: deciding anything. Lock: driver_bind() runs once, under a lock of its own.
 */
#ifndef VRAMALLOC_SHIM_DRIVER_H
#define VRAMALLOC_SHIM_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* cuda.h renames these to their newest variant; the table means the exact symbol. */
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuStreamBeginCapture
#undef cuStreamDestroy

#define HOOK(symbol, base, version, flags, params, args)                                           \
    extern CUresult(*real_##symbol) params;                                                        \
    CUresult hook_##symbol params __asm__(#symbol) __attribute__((visibility("default")));
#define COUNTED(symbol, base, version, flags, params, args, calls, bytes_counter, bytes)           \
    HOOK(symbol, base, version, flags, params, args)
#define RETRIED(symbol, base, version, flags, params, args)                                        \
    HOOK(symbol, base, version, flags, params, args)
#define REAL(symbol, params) extern CUresult(*real_##symbol) params;
#include "hooks.def"
#undef HOOK
#undef COUNTED
#undef RETRIED
#undef REAL

/* An address that no allocation has. Handed to the driver in place of a freed or interior pooled
 * address, so that the program gets the driver's own answer for "not an allocation". */
#define DRIVER_UNKNOWN_ADDRESS ((CUdeviceptr)512)

extern bool driver_bound; /* read through driver_ready() */

/* True when the real driver is known and the pointers above are valid. Binds on first use where
 * libcuda is loaded. Any thread. Cost once bound: one load. */
bool driver_bind(void);
static inline bool driver_ready(void)
{
    return __builtin_expect(__atomic_load_n(&driver_bound, __ATOMIC_ACQUIRE), 1) || driver_bind();
}

/* True when `address` lies in some libcuda. Cost: a walk over the loaded objects. */
bool driver_contains(const void *address);

/* Binds to the libcuda in which `address` lies. False when it lies in no libcuda, or in another
 * copy of it than the one already bound. */
bool driver_bind_from(const void *address);

/* The hook that stands before the exact real function `real`; NULL when none does.
 * base, flags: what cuGetProcAddress was asked for, used where the driver hands out another address
 * than the exported symbol's. Cost: a scan of the table. */
void *driver_hook_for(void *real, const char *base, uint64_t flags);

/* The index of a hooked symbol in the table, or -1. */
int driver_hook_index(const char *symbol);

/* The hook at that index, if `real` is the real function behind it; else NULL. */
void *driver_hook_at(int index, const void *real);

/* Whether the driver has the function that a real_<symbol> points to. */
bool driver_has(void *real);

#endif
