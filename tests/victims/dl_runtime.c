/* Runtimes opened by dlopen, RTLD_LOCAL, one or two of different versions.
 * usage: dl_runtime [-deep|-namespace] LIBRARY...
 * -deep: RTLD_DEEPBIND; -namespace: dlmopen. Both ways pass preloads by. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>

static void *open_as(const char *how, const char *library)
{
    if (strcmp(how, "-namespace") == 0)
        return dlmopen(LM_ID_NEWLM, library, RTLD_NOW | RTLD_LOCAL);
    return dlopen(library, RTLD_NOW | RTLD_LOCAL | (strcmp(how, "-deep") == 0 ? RTLD_DEEPBIND : 0));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
    int first = how[0] == '-' ? 2 : 1;
    void *block[8];
    int (*release[8])(void *) = {0};
    for (int i = first; i < argc; i++) {
        void *runtime = open_as(how, argv[i]);
        if (runtime == NULL) {
            printf("cannot open the runtime\n");
            return 4;
        }
        int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
        release[i] = (int (*)(void *))dlsym(runtime, "cudaFree");
        printf("runtime %d: cudaMalloc %d, global cudaMalloc seen %d\n", i,
               allocate(&block[i], 100000), dlsym(RTLD_DEFAULT, "cudaMalloc") != NULL);
    }
    for (int i = first; i < argc; i++) /* each frees the other's block */
        printf("runtime %d: cudaFree %d\n", i, release[i](block[argc - 1 + first - i]));
    return 0;
}
