/* bind.c - finds the driver as NVIDIA's runtime does: one dlopen, one dlsym, then requests.
 *
 * The first four requests go through the pointer from dlsym, all others through the one that the
 * request for cuGetProcAddress at version 12000 returned. Where the driver has no
 * cuGetProcAddress_v2 every function is looked up by dlsym under its exact name.
 *
 * What it leaves out: requests for functions that this runtime does not call.
 *
 * Lock: bind_once.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t,
                             CUdriverProcAddressQueryResult *);

struct driver driver;
static bool bound;
static pthread_once_t bind_once = PTHREAD_ONCE_INIT;

struct request {
    const char *name;
    int version;
    cuuint64_t flags;
    const char *elf;
    const char *suffix;
    void *place; /* the function pointer's own address */
};

static const struct request requests[] = {
#define DRIVER(name, version, elf, params) {#name, version, 0, #elf, "", &driver.elf},
#define STREAM(name, version, elf, thread_version, thread_suffix, params)                          \
    {#name, version, 0, #elf, "", &driver.elf[0]},                                                 \
        {#name, thread_version, 2, #elf, thread_suffix, &driver.elf[1]},
#include "driver.def"
#undef DRIVER
#undef STREAM
};

enum { REQUEST_COUNT = sizeof(requests) / sizeof(requests[0]) };

static void bind_by_request(get_proc first)
{
    void *unused = NULL, *init = NULL, *next = NULL;
    first("", &unused, 0, 0, NULL);
    first("cuInit", &init, 2000, 0, NULL);
    first("cuGetProcAddress", &unused, 11030, 0, NULL);
    first("cuGetProcAddress", &next, 12000, 0, NULL);
    get_proc get = next != NULL ? (get_proc)next : first;
    driver.cuInit = (CUresult(*)(unsigned int))init;
    for (int i = 0; i < REQUEST_COUNT; i++)
        get(requests[i].name, (void **)requests[i].place, requests[i].version, requests[i].flags,
            NULL);
}

static void bind_by_name(void *handle)
{
    char name[128];
    driver.cuInit = (CUresult(*)(unsigned int))dlsym(handle, "cuInit");
    for (int i = 0; i < REQUEST_COUNT; i++) {
        snprintf(name, sizeof(name), "%s%s", requests[i].elf, requests[i].suffix);
        *(void **)requests[i].place = dlsym(handle, name);
    }
}

/* What a function that this driver lacks answers: cudaErrorCallRequiresNewerDriver. */
static CUresult driver_too_old(void)
{
    return (CUresult)36;
}

static void bind_rest(void)
{
    for (int i = 0; i < REQUEST_COUNT; i++)
        if (*(void **)requests[i].place == NULL)
            *(void **)requests[i].place = (void *)driver_too_old;
}

static void bind_oracle(void *handle)
{
    *(void **)&driver.note_alloc = dlsym(handle, "vrsim_note_alloc");
    *(void **)&driver.note_free = dlsym(handle, "vrsim_note_free");
    *(void **)&driver.note_free_failed = dlsym(handle, "vrsim_note_free_failed");
    *(void **)&driver.note_alloc_async = dlsym(handle, "vrsim_note_alloc_async");
    *(void **)&driver.note_free_async = dlsym(handle, "vrsim_note_free_async");
}

static void bind_now(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (handle == NULL)
        return;
    get_proc get = (get_proc)dlsym(handle, "cuGetProcAddress_v2");
    if (get != NULL)
        bind_by_request(get);
    else
        bind_by_name(handle);
    bind_rest();
    bind_oracle(handle);
    bound = driver.cuInit != NULL;
}

bool runtime_bind(void)
{
    pthread_once(&bind_once, bind_now);
    return bound;
}
