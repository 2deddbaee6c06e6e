/* A preload under which asking for a library that is loaded already takes long, so that two threads
 * meet at the library's first use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

void *dlopen(const char *name, int flags)
{
    static void *(*next)(const char *, int);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    if (flags & RTLD_NOLOAD)
        usleep(200000);
    return next(name, flags);
}
