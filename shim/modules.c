/* modules.c - what dl_iterate_phdr() tells of an address, kept in tables of fixed size.
 *
 * dladdr() would hold the loader's lock, which another thread may hold in a constructor that waits
 * for this one; dl_iterate_phdr() takes one that guards the list of modules alone. While its
 * callback runs no module can go, so its name can be copied there.
 */
#define _GNU_SOURCE
#include "modules.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { MODULES_MAX = 512, PATHS_BYTES = 64 << 10 };

static struct loaded_module modules[MODULES_MAX];
static uint32_t module_count; /* atomic: entries below it are complete */
static char paths[PATHS_BYTES];
static size_t paths_used;

/* The program's own name is empty in the list. */
static const char *path_of(const char *name)
{
    static char program[PATH_MAX];
    if (name[0] != '\0')
        return name;
    if (program[0] == '\0') {
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
        program[length > 0 ? length : 0] = '\0';
    }
    return program;
}

/* What of the address space an object takes. False: nothing. */
static bool object_extent(const struct dl_phdr_info *info, uint64_t *start, uint64_t *end)
{
    *start = UINT64_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
        if (part->p_type != PT_LOAD)
            continue;
        *start = from < *start ? from : *start;
        *end = to > *end ? to : *end;
    }
    return *start < *end;
}

static bool object_has(const struct dl_phdr_info *info, uint64_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - (info->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* The number of an object, a new one at its first sight; 0: there is no room. */
static uint32_t module_number(const struct dl_phdr_info *info)
{
    const char *path = path_of(info->dlpi_name);
    size_t bytes = strlen(path) + 1;
    for (uint32_t i = 0; i < module_count; i++)
        if (modules[i].base == info->dlpi_addr && strcmp(modules[i].path, path) == 0)
            return i + 1;
    if (module_count == MODULES_MAX || bytes > PATHS_BYTES - paths_used)
        return 0;
    struct loaded_module *module = &modules[module_count];
    module->path = memcpy(paths + paths_used, path, bytes);
    paths_used += bytes;
    module->base = info->dlpi_addr;
    object_extent(info, &module->start, &module->end);
    return module_count + 1;
}

struct search {
    uint64_t address;
    struct module_place place;
};

static int object_look(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct search *search = arg;
    (void)bytes;
    if (!object_has(info, search->address))
        return 0;
    search->place.module = module_number(info);
    if (search->place.module != 0)
        search->place.offset = search->address - info->dlpi_addr;
    return 1;
}

struct module_place modules_find(uint64_t address)
{
    struct search search = {.address = address, .place = {.offset = address}};
    int saved_errno = errno;
    dl_iterate_phdr(object_look, &search);
    if (search.place.module > module_count) { /* a new one; its file is not for the loader's lock */
        struct loaded_module *module = &modules[module_count];
        if (stat(module->path, &module->file) != 0)
            memset(&module->file, 0, sizeof(module->file));
        __atomic_store_n(&module_count, module_count + 1, __ATOMIC_RELEASE);
    }
    errno = saved_errno;
    return search.place;
}

static int closed_read(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    if (bytes >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
        *(uint64_t *)arg = info->dlpi_subs;
    return 1;
}

uint64_t modules_closed(void)
{
    uint64_t closed = 0;
    dl_iterate_phdr(closed_read, &closed);
    return closed;
}

const struct loaded_module *module_get(uint32_t number)
{
    uint32_t count = __atomic_load_n(&module_count, __ATOMIC_ACQUIRE);
    return number > 0 && number <= count ? &modules[number - 1] : NULL;
}

const char *module_name(uint32_t number)
{
    const struct loaded_module *module = module_get(number);
    const char *slash = module != NULL ? strrchr(module->path, '/') : NULL;
    return module == NULL ? "" : slash != NULL ? slash + 1 : module->path;
}
