/* Runtimes opened by dlopen, RTLD_LOCAL, one or two of different versions.
 * usage: dl_runtime LIBRARY... */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stddef.h>

int main(int argc, char **argv)
{
    void *block[8];
    int (*release[8])(void *) = {0};
    for (int i = 1; i < argc; i++) {
        void *runtime = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (runtime == NULL) {
            printf("cannot open the runtime\n");
            return 4;
        }
        int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
        release[i] = (int (*)(void *))dlsym(runtime, "cudaFree");
        printf("runtime %d: cudaMalloc %d, global cudaMalloc seen %d\n", i,
               allocate(&block[i], 100000), dlsym(RTLD_DEFAULT, "cudaMalloc") != NULL);
    }
    for (int i = 1; i < argc; i++) /* each frees the other's block */
        printf("runtime %d: cudaFree %d\n", i, release[i](block[argc - i]));
    return 0;
}
