/* A preload that hooks dlsym itself and passes everything on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*real)(void *, const char *);

void *dlsym(void *restrict handle, const char *restrict name)
{
    if (real == NULL)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (real == NULL)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return real(handle, name);
}
