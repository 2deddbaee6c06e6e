/* audit.c - writes down which object each driver function lies in that a program's look-ups return.
 *
 * A preload that stands before all others: its dlsym asks the next one and, for
 * cuGetProcAddress_v2 and the older cuGetProcAddress (which has no status and ignores it), hands
 * out a function that asks in turn and notes the answer. So it sees what the program gets, after
 * whatever stands behind it has answered. Lines go to the file in AUDIT_LOG: name version flags
 * object      ("none" when there was no answer; version -1: by dlsym)
 *
 * What it leaves out: look-ups through dlvsym, and any change to an answer other than the look-up
 * functions themselves.
 *
 * Lock: none; one write(2) a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*get_proc)(const char *, void **, int, uint64_t, void *);
typedef void *(*symbol_lookup)(void *, const char *);

static get_proc next_by_symbol;  /* what dlsym("cuGetProcAddress[_v2]") gave */
static get_proc next_by_request; /* what the request for cuGetProcAddress gave */

static const char *object_of(const void *address)
{
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL)
        return "none";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

static void note(const char *name, int version, uint64_t flags, const void *answer)
{
    static int file = -1;
    char line[512];
    const char *path = getenv("AUDIT_LOG");
    if (file < 0 && path != NULL)
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int length = snprintf(line, sizeof(line), "\"%s\" %d %llu %s\n", name, version,
                          (unsigned long long)flags, object_of(answer));
    if (file >= 0 && length > 0 && write(file, line, (size_t)length) != length)
        file = -1;
}

static int audited_by_request(const char *, void **, int, uint64_t, void *);

static int audited(get_proc next, const char *name, void **answer, int version, uint64_t flags,
                   void *status)
{
    int result = next(name, answer, version, flags, status);
    note(name, version, flags, *answer);
    if (strcmp(name, "cuGetProcAddress") == 0 && *answer != NULL) {
        next_by_request = (get_proc)*answer;
        *answer = (void *)audited_by_request;
    }
    return result;
}

static int audited_by_symbol(const char *name, void **answer, int version, uint64_t flags,
                             void *status)
{
    return audited(next_by_symbol, name, answer, version, flags, status);
}

static int audited_by_request(const char *name, void **answer, int version, uint64_t flags,
                              void *status)
{
    return audited(next_by_request, name, answer, version, flags, status);
}

/* The dlsym behind this one. libc's own, found under its versions, is asked for it: a versioned
 * look-up would step over a preload whose dlsym has no version. */
static symbol_lookup next_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
    static symbol_lookup next;
    symbol_lookup libc = NULL;
    for (size_t i = 0; next == NULL && libc == NULL && i < sizeof(versions) / sizeof(versions[0]);
         i++)
        libc = (symbol_lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (next == NULL)
        next = (symbol_lookup)libc(RTLD_NEXT, "dlsym");
    return next;
}

__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
{
    void *answer = next_dlsym()(handle, name);
    if (strncmp(name, "cu", 2) != 0)
        return answer;
    note(name, -1, 0, answer);
    bool looks_up =
        strcmp(name, "cuGetProcAddress_v2") == 0 || strcmp(name, "cuGetProcAddress") == 0;
    if (!looks_up || answer == NULL)
        return answer;
    next_by_symbol = (get_proc)answer;
    return (void *)audited_by_symbol;
}
