/* process.h - the life of the process we are in: first use, fork, exit. */
#ifndef VRAMALLOC_SHIM_PROCESS_H
#define VRAMALLOC_SHIM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Called once, when the driver was found: reads the settings and prepares for fork and exit. */
void process_start(void);

/* Called when a device was seen: from here on a forked child must use nothing of ours. */
void process_device_seen(void);

/* Called when device memory is asked for from the driver, of a card of total_bytes (0: not known):
 * what is wrong with the settings is said, and the thread that they ask for begins. errno is kept.
 */
void process_memory_asked(uint64_t total_bytes);

extern const bool *process_is_served; /* read through process_serves() */

/* False in a child made after the first device was seen, by fork or by a clone that copies memory:
 * memory and locks are its parent's, the driver does not work there, and every call goes straight
 * to the driver's own answer. */
static inline bool process_serves(void)
{
    return __builtin_expect(
        __atomic_load_n(__atomic_load_n(&process_is_served, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED),
        1);
}

#endif
