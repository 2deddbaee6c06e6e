/* lookup.h - how programs find the driver: dlsym and cuGetProcAddress, and the way past them. */
#ifndef VRAMALLOC_SHIM_LOOKUP_H
#define VRAMALLOC_SHIM_LOOKUP_H

/* The dlsym that the program would use without us: libc's, or that of another preloaded object
 * behind us. NULL before lookup_init(). Used by the assembly entry, hence the plain name. */
extern void *(*lookup_real_dlsym_pointer)(void *handle, const char *name);

/* Finds it. Idempotent, any thread, callable before constructors have run. Returns it. */
void *(*lookup_init(void))(void *, const char *);

/* Calls it; for handles that are neither RTLD_NEXT nor RTLD_DEFAULT (the caller would be us). */
void *lookup_real_dlsym(void *handle, const char *name);

/* Decides a dlsym(handle, name) with an explicit handle and a name that begins like a driver
 * function's: the hook if the real result is a hooked function of the driver, else NULL, and the
 * assembly entry jumps on to the real dlsym. caller: an address in the code that asks; the driver
 * itself always gets its own function. */
void *lookup_filter(void *handle, const char *name, const void *caller);

#endif
