/* lookup.c - stands in the two ways by which programs get the driver's functions.
 *
 * dlsym: the exported symbol is a few lines of assembly (dlsym_<arch>.S). RTLD_NEXT and
 * RTLD_DEFAULT look-ups, and names that do not begin with "cu" and a capital, jump straight on, so
 * that libc sees the program as the caller. The rest asks lookup_filter(), which lets the real
 * dlsym answer first and replaces the answer only if it is the exact address of a function in the
 * table, inside libcuda.
 *
 * cuGetProcAddress: the driver answers first, for the exact version and stream flavour, and the
 * pointer it returns is mapped to the hook of the function it is.
 *
 * What it leaves out: dlvsym and dlmopen. No history of look-ups is kept, no lock is taken here.
 */
#define _GNU_SOURCE
#include "lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "driver.h"

typedef void *(*dlsym_function)(void *, const char *);

void *(*lookup_real_dlsym_pointer)(void *handle, const char *name);

/* glibc's versions of dlsym: the architecture's base, which every glibc has, and the one
 * since 2.34. The first is found, so that no failed look-up leaves its error behind. */
#if defined(__x86_64__)
static const char *const dlsym_versions[] = {"GLIBC_2.2.5", "GLIBC_2.34"};
#else
static const char *const dlsym_versions[] = {"GLIBC_2.17", "GLIBC_2.34"};
#endif

void *(*lookup_init(void))(void *, const char *)
{
    dlsym_function found = __atomic_load_n(&lookup_real_dlsym_pointer, __ATOMIC_ACQUIRE);
    for (size_t i = 0; found == NULL && i < sizeof(dlsym_versions) / sizeof(*dlsym_versions); i++)
        found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", dlsym_versions[i]);
    __atomic_store_n(&lookup_real_dlsym_pointer, found, __ATOMIC_RELEASE);
    return found;
}

void *lookup_real_dlsym(void *handle, const char *name)
{
    dlsym_function real = lookup_init();
    return real != NULL ? real(handle, name) : NULL;
}

void *lookup_filter(void *handle, const char *name, const void *caller)
{
    int index = driver_hook_index(name);
    if (index < 0)
        return NULL;
    int saved_errno = errno;
    if (driver_contains(caller)) {
        errno = saved_errno;
        return NULL;
    }
    void *found = lookup_real_dlsym(handle, name);
    void *hook = NULL;
    if (found != NULL && driver_bind_from(found))
        hook = driver_hook_at(index, found);
    errno = saved_errno;
    return hook;
}

static void pointer_replace(const char *base, void **pfn, uint64_t flags)
{
    void *hook = driver_hook_for(*pfn, base, flags);
    if (hook != NULL)
        *pfn = hook;
}

CUresult hook_cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuGetProcAddress(symbol, pfn, version, flags);
    if (result == CUDA_SUCCESS && symbol != NULL && pfn != NULL && *pfn != NULL)
        pointer_replace(symbol, pfn, flags);
    return result;
}

CUresult hook_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags,
                                  void *status)
{
    if (!driver_ready())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real_cuGetProcAddress_v2(symbol, pfn, version, flags, status);
    if (result == CUDA_SUCCESS && symbol != NULL && pfn != NULL && *pfn != NULL)
        pointer_replace(symbol, pfn, flags);
    return result;
}
