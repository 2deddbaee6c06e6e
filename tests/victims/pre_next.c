/* A preload beside the library that wraps a libc function by RTLD_NEXT, as many do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int usleep(useconds_t us)
{
    static int (*next)(useconds_t);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "usleep");
    fprintf(stderr, "pre_next: usleep found %d, not itself %d\n", next != NULL, next != usleep);
    return next(us);
}

__attribute__((constructor)) static void begin(void)
{
    usleep(1);
}
