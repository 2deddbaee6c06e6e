/* Look-ups that are not ours: nothing about them may change. Case 25. */
#include "driver.h"

static int visible(void *handle, const char *name)
{
    dlerror();
    void *found = dlsym(handle, name);
    return found != NULL ? 1 : dlerror() != NULL ? -1 : 0;
}

int main(void)
{
    void *self = dlopen(NULL, RTLD_NOW), *libm = dlopen("libm.so.6", RTLD_NOW);
    for (int i = 0; i < 10000; i++)
        if (dlsym(RTLD_DEFAULT, "ompt_start_tool") != NULL)
            printf("found\n");
    static const char *const names[] = {
        "cublasCreate_v2", "cudnnCreate", "cuda", "cu",           "c", "", "curl_easy_init",
        "cuInit",          "printf",      "cos",  "cuMemAlloc_v3"};
    for (int i = 0; i < 11; i++)
        printf("%s: self %d default %d next %d libm %d\n", names[i], visible(self, names[i]),
               visible(RTLD_DEFAULT, names[i]), visible(RTLD_NEXT, names[i]),
               visible(libm, names[i]));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    printf("driver %d: cuInit %d cuMemAlloc_v2 %d cuMemAlloc_v3 %d\n", driver != NULL,
           visible(driver, "cuInit"), visible(driver, "cuMemAlloc_v2"),
           visible(driver, "cuMemAlloc_v3"));
    printf("invalid handle: %d\n", visible(self, "no such symbol"));
    return 0;
}
