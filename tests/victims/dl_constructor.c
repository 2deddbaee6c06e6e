/* Two threads use the driver for the first time at once: one of them in a constructor of a library
 * that it loads. usage: dl_constructor LIBRARY */
#include "driver.h"

#include <pthread.h>
#include <unistd.h>

static void *load(void *name)
{
    usleep(50000);
    return dlopen(name, RTLD_NOW);
}

int main(int argc, char **argv)
{
    pthread_t other;
    void *loaded = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL || argc < 2)
        return 4;
    pthread_create(&other, NULL, load, argv[1]);
    int found = dlsym(driver, "cuMemAlloc_v2") != NULL;
    pthread_join(other, &loaded);
    printf("found %d, loaded %d\n", found, loaded != NULL);
    return 0;
}
