/* lookup.c - cuGetProcAddress, and functions that this driver is told to lack.
 *
 * A request names a base name, a CUDA version and a flavour; the answer is the newest variant that
 * is not younger than the version, in the asked flavour if it has one. The address is the one that
 * dlsym gives, unless VRSIM_PROC_THUNKS=1.
 *
 * A lacking function disappears from dlsym by marking its dynamic symbol undefined, which the
 * dynamic loader skips; programs already bound to it keep it.
 *
 * Lock: sim.lock is held by the callers.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int record_file = -1;

void lookup_record_open(const char *path)
{
    record_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void lookup_record(const char *symbol, int version, cuuint64_t flags,
                          const struct entry *found)
{
    char line[256];
    int length = snprintf(line, sizeof(line), "\"%s\" %d %llu -> %s\n", symbol, version,
                          (unsigned long long)flags, found != NULL ? found->elf : "none");
    if (record_file >= 0 && length > 0 && write(record_file, line, (size_t)length) < 0)
        record_file = -1;
}

/* The newest variant of the flavour that is old enough. *exists: there is one of any age. */
static const struct entry *lookup_newest(const char *base, int version, int flavour, bool *exists)
{
    const struct entry *best = NULL;
    for (size_t i = 0; i < entry_count; i++) {
        const struct entry *entry = &entries[i];
        if (entry->version == 0 || entry->missing || entry->flavour != flavour ||
            strcmp(entry->base, base) != 0)
            continue;
        *exists = true;
        if (entry->version <= version && (best == NULL || entry->version > best->version))
            best = entry;
    }
    return best;
}

static CUresult lookup_get(const char *symbol, void **pfn, int version, cuuint64_t flags,
                           CUdriverProcAddressQueryResult *status)
{
    bool exists = false;
    if (symbol == NULL || pfn == NULL || flags > 2)
        return CUDA_ERROR_INVALID_VALUE;
    const struct entry *found = NULL;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        found = lookup_newest(symbol, version, 2, &exists);
    if (found == NULL)
        found = lookup_newest(symbol, version, 0, &exists);
    lookup_record(symbol, version, flags, found);
    *pfn = found == NULL ? NULL : sim.thunks ? found->thunk : found->function;
    if (status != NULL)
        *status = found != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : exists      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult lookup_get_4(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    return lookup_get(symbol, pfn, version, flags, NULL);
}

CUresult lookup_get_5(const char *symbol, void **pfn, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult *status)
{
    return lookup_get(symbol, pfn, version, flags, status);
}

/* The exported symbol's own record, when this is a shared object that exports it. */
static ElfW(Sym) * symbol_record(const struct entry *entry)
{
    Dl_info info;
    void *record = NULL;
    if (dladdr1(entry->function, &info, &record, RTLD_DL_SYMENT) == 0 || record == NULL)
        return NULL;
    if (info.dli_sname == NULL || strcmp(info.dli_sname, entry->elf) != 0)
        return NULL;
    return (ElfW(Sym) *)record;
}

void lookup_hide(struct entry *entry)
{
    entry->missing = true;
    ElfW(Sym) *symbol = symbol_record(entry);
    if (symbol == NULL)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)symbol & ~(page - 1);
    size_t bytes = (uintptr_t)(symbol + 1) - start;
    if (mprotect((void *)start, bytes, PROT_READ | PROT_WRITE) != 0)
        return;
    symbol->st_shndx = SHN_UNDEF;
    symbol->st_value = 0;
    mprotect((void *)start, bytes, PROT_READ);
}
