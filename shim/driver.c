/* driver.c - finds the real driver and keeps its functions.
 *
 * The driver is the libcuda that the program loaded: the object in which a looked-up symbol really
 * lies, or the one that the program links. Nothing is loaded that the program did not load; the
 * handle taken here (RTLD_NOLOAD) only keeps it from being unloaded under our pointers.
 *
 * What it leaves out: replacing anything (lookup.c does) and any call to the driver, except
 * cuGetProcAddress when an address it hands out is not that of an exported symbol.
 *
 * Lock: bind_lock, taken once a process and in the rare search by cuGetProcAddress; innermost. The
 * loader is never called under it.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "lookup.h"
#include "process.h"

#define HOOK(symbol, base, version, flags, params, args) CUresult(*real_##symbol) params;
#define COUNTED(symbol, base, version, flags, params, args, calls, bytes_counter, bytes)           \
    HOOK(symbol, base, version, flags, params, args)
#define RETRIED(symbol, base, version, flags, params, args)                                        \
    HOOK(symbol, base, version, flags, params, args)
#define REAL(symbol, params) CUresult(*real_##symbol) params;
#include "hooks.def"
#undef HOOK
#undef COUNTED
#undef RETRIED
#undef REAL

/* One function of the driver: where its pointer is kept and, for hooks, what stands before it. */
struct driver_row {
    const char *symbol;
    const char *base;
    int version;
    uint64_t flags;
    void **real;   /* the real_<symbol> variable */
    void *hook;    /* NULL for a REAL row */
    void *other;   /* the same function under the address that cuGetProcAddress gives */
    bool searched; /* `other` was asked for */
};

static struct driver_row rows[] = {
#define HOOK(symbol, base, version, flags, params, args)                                           \
    {#symbol, base, version, flags, (void **)&real_##symbol, (void *)hook_##symbol, NULL, false},
#define COUNTED(symbol, base, version, flags, params, args, calls, bytes_counter, bytes)           \
    HOOK(symbol, base, version, flags, params, args)
#define RETRIED(symbol, base, version, flags, params, args)                                        \
    HOOK(symbol, base, version, flags, params, args)
#define REAL(symbol, params) {#symbol, NULL, 0, 0, (void **)&real_##symbol, NULL, NULL, false},
#include "hooks.def"
#undef HOOK
#undef COUNTED
#undef RETRIED
#undef REAL
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

bool driver_bound;
static const void *driver_base; /* load address of the bound libcuda */
static pthread_mutex_t bind_lock = PTHREAD_MUTEX_INITIALIZER;

/* What a hooked function that this driver lacks answers. */
static CUresult driver_missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

bool driver_has(void *real)
{
    return real != NULL && real != (void *)driver_missing;
}

static bool object_is_libcuda(const Dl_info *info)
{
    if (info->dli_fname == NULL)
        return false;
    const char *slash = strrchr(info->dli_fname, '/');
    const char *name = slash != NULL ? slash + 1 : info->dli_fname;
    return strncmp(name, "libcuda.so", strlen("libcuda.so")) == 0;
}

/* Looks every function up. The loader's lock is taken here, so bind_lock must not be held: another
 * thread may be in a library's constructor, under the loader's lock, and wait for bind_lock. */
static void rows_find(void *handle, void **found)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        found[i] = lookup_real_dlsym(handle, rows[i].symbol);
        if (found[i] == NULL && rows[i].hook != NULL)
            found[i] = (void *)driver_missing;
    }
}

/* Keeps what was found, once. */
static bool bind_locked(const Dl_info *info, void *const *found)
{
    for (int i = 0; i < ROW_COUNT; i++)
        *rows[i].real = found[i];
    if (real_cuCtxGetCurrent == NULL || real_cuMemAlloc_v2 == (void *)driver_missing)
        return false;
    driver_base = info->dli_fbase;
    process_start();
    __atomic_store_n(&driver_bound, true, __ATOMIC_RELEASE);
    return true;
}

/* Binds to the object that `info` describes, unless another thread was quicker. */
static bool bind_to(const Dl_info *info)
{
    void *found[ROW_COUNT];
    void *handle = dlopen(info->dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return false;
    rows_find(handle, found);
    pthread_mutex_lock(&bind_lock);
    bool mine = !driver_bound && bind_locked(info, found);
    bool bound = driver_bound;
    pthread_mutex_unlock(&bind_lock);
    if (!mine)
        dlclose(handle);
    return bound;
}

bool driver_contains(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0 && object_is_libcuda(&info);
}

bool driver_bind_from(const void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || !object_is_libcuda(&info))
        return false;
    if (!__atomic_load_n(&driver_bound, __ATOMIC_ACQUIRE) && !bind_to(&info))
        return false;
    return driver_base == info.dli_fbase;
}

/* A program linked with -lcuda reaches our exports with no look-up at all. */
bool driver_bind(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return false;
    void *address = lookup_real_dlsym(handle, "cuInit");
    bool bound = address != NULL && driver_bind_from(address);
    dlclose(handle);
    return bound;
}

int driver_hook_index(const char *symbol)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (rows[i].hook != NULL && strcmp(rows[i].symbol, symbol) == 0)
            return i;
    return -1;
}

void *driver_hook_at(int index, const void *real)
{
    return *rows[index].real == real ? rows[index].hook : NULL;
}

/* Asks the driver which address it gives for exactly this row's function. */
static void row_search(struct driver_row *row)
{
    void *address = NULL;
    row->searched = true;
    if (real_cuGetProcAddress_v2 != (void *)driver_missing) {
        if (real_cuGetProcAddress_v2(row->base, &address, row->version, row->flags, NULL) ==
            CUDA_SUCCESS)
            row->other = address;
    } else if (real_cuGetProcAddress(row->base, &address, row->version, row->flags) ==
               CUDA_SUCCESS) {
        row->other = address;
    }
}

void *driver_hook_for(void *real, const char *base, uint64_t flags)
{
    void *hook = NULL;
    for (int i = 0; i < ROW_COUNT; i++)
        if (rows[i].hook != NULL && *rows[i].real == real)
            return rows[i].hook;
    pthread_mutex_lock(&bind_lock);
    for (int i = 0; i < ROW_COUNT && hook == NULL; i++) {
        struct driver_row *row = &rows[i];
        if (row->hook == NULL || strcmp(row->base, base) != 0 || (row->flags & 2) != (flags & 2))
            continue;
        if (!row->searched)
            row_search(row);
        if (row->other == real)
            hook = row->hook;
    }
    pthread_mutex_unlock(&bind_lock);
    return hook;
}
