/* control.c - the switches: environment, ordered failures, blocked calls, counts, clock, faults.
 *
 * What it leaves out: what the switches mean elsewhere.
 *
 * Lock: the fields of an entry are atomics; the rest takes sim.lock.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *counts_target;

static uint64_t number_parse(const char *text, uint64_t otherwise)
{
    char *end;
    if (text == NULL || *text == '\0')
        return otherwise;
    uint64_t value = strtoull(text, &end, 0);
    const char *units = "KMGT";
    const char *unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    return unit != NULL ? value << (10 * (unit - units + 1)) : value;
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    return number_parse(getenv(variable), otherwise);
}

static void complain(const char *what, const char *item)
{
    fprintf(stderr, "vrsim: %s: %s\n", what, item);
}

static void hide_listed(char *list)
{
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        struct entry *entry = entry_find(name);
        if (entry != NULL)
            lookup_hide(entry);
        else
            complain("VRSIM_NO: no such function", name);
    }
}

static void hide_younger(int version)
{
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].version > version)
            lookup_hide(&entries[i]);
}

static void fail_one(const char *item)
{
    char name[128], nth[32];
    int code;
    if (sscanf(item, "%127[^:]:%31[^=]=%d", name, nth, &code) != 3 ||
        vrsim_fail(name, strcmp(nth, "*") == 0 ? 0 : strtoull(nth, NULL, 10), (CUresult)code) != 0)
        complain("VRSIM_FAIL: not understood", item);
}

static void fail_listed(char *list)
{
    char *rest = NULL;
    for (char *item = strtok_r(list, ",", &rest); item; item = strtok_r(NULL, ",", &rest))
        fail_one(item);
}

static void list_apply(const char *variable, void (*apply)(char *))
{
    const char *value = getenv(variable);
    char *copy = value != NULL ? strdup(value) : NULL;
    if (copy != NULL)
        apply(copy);
    free(copy);
}

void control_start(void)
{
    int devices = (int)number_of("VRSIM_DEVICES", 1);
    sim.device_count = devices < 0 ? 0 : devices > SIM_DEVICES_MAX ? SIM_DEVICES_MAX : devices;
    sim.card_bytes = number_of("VRSIM_CARD_BYTES", UINT64_C(139) << 30);
    sim.init_result = (CUresult)number_of("VRSIM_CUINIT_RESULT", CUDA_SUCCESS);
    sim.driver_version = (int)number_of("VRSIM_DRIVER_VERSION", 13000);
    sim.call_ns = number_of("VRSIM_CALL_NS", 100);
    sim.real_time = number_of("VRSIM_REAL_TIME", 0) != 0;
    sim.freed_use = number_of("VRSIM_FREED_USE", 0) != 0;
    sim.thunks = number_of("VRSIM_PROC_THUNKS", 0) != 0;
    counts_target = getenv("VRSIM_COUNTS");
    if (getenv("VRSIM_LOOKUPS") != NULL)
        lookup_record_open(getenv("VRSIM_LOOKUPS"));
    hide_younger(sim.driver_version);
    list_apply("VRSIM_NO", hide_listed);
    list_apply("VRSIM_FAIL", fail_listed);
}

/* --- at exit -------------------------------------------------------------------------------- */

/* A number is an open file; a path may hold %p once, for the process id. */
static int counts_open(const char *target)
{
    char path[4096];
    const char *mark = strstr(target, "%p");
    if (*target != '\0' && strspn(target, "0123456789") == strlen(target))
        return atoi(target);
    if (mark != NULL)
        snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - target), target, (int)getpid(),
                 mark + 2);
    else
        snprintf(path, sizeof(path), "%s", target);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void counts_write(int file)
{
    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].calls != 0)
            dprintf(file, "%s %llu\n", entries[i].elf, (unsigned long long)entries[i].calls);
}

/* The child of an initialised process has only its parent's counts. */
__attribute__((destructor)) static void control_end(void)
{
    if (counts_target != NULL && !sim.forked)
        counts_write(counts_open(counts_target));
    const char *fatal = getenv("VRSIM_HAZARDS_FATAL");
    if (fatal != NULL && strcmp(fatal, "1") == 0 && vrsim_hazards() != 0)
        _exit(86);
}

/* --- the control functions ------------------------------------------------------------------- */

SIM_API int vrsim_fail(const char *name, uint64_t nth, CUresult code)
{
    struct entry *entry = entry_find(name);
    if (entry == NULL)
        return -1;
    pthread_mutex_lock(&sim.lock);
    uint64_t calls = __atomic_load_n(&entry->calls, __ATOMIC_RELAXED);
    entry->fail_code = code;
    entry->fail_at = code == CUDA_SUCCESS ? 0 : nth == 0 ? UINT64_MAX : calls + nth;
    pthread_mutex_unlock(&sim.lock);
    return 0;
}

static int blocked_set(const char *name, int blocked)
{
    struct entry *entry = entry_find(name);
    if (entry == NULL)
        return -1;
    __atomic_store_n(&entry->blocked, blocked, __ATOMIC_RELEASE);
    return 0;
}

SIM_API int vrsim_block(const char *name)
{
    return blocked_set(name, 1);
}

SIM_API int vrsim_unblock(const char *name)
{
    return blocked_set(name, 0);
}

SIM_API void vrsim_on_call(void (*tell)(const char *name))
{
    sim.on_call = tell;
}

SIM_API void vrsim_forbid_calls(void)
{
    __atomic_store_n(&sim.forbidden, true, __ATOMIC_RELAXED);
}

uint64_t vrsim_calls(const char *name)
{
    struct entry *entry = entry_find(name);
    return entry != NULL ? __atomic_load_n(&entry->calls, __ATOMIC_RELAXED) : 0;
}

SIM_API uint64_t vrsim_blocked(const char *name)
{
    struct entry *entry = entry_find(name);
    return entry != NULL ? __atomic_load_n(&entry->waiting, __ATOMIC_RELAXED) : 0;
}

SIM_API uint64_t vrsim_calls_all(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < entry_count; i++)
        sum += __atomic_load_n(&entries[i].calls, __ATOMIC_RELAXED);
    return sum;
}

SIM_API void vrsim_calls_reset(void)
{
    for (size_t i = 0; i < entry_count; i++)
        __atomic_store_n(&entries[i].calls, 0, __ATOMIC_RELAXED);
}

SIM_API uint64_t vrsim_now(void)
{
    pthread_mutex_lock(&sim.lock);
    uint64_t now = sim.host_ns;
    pthread_mutex_unlock(&sim.lock);
    return now;
}

SIM_API void vrsim_advance(uint64_t ns)
{
    pthread_mutex_lock(&sim.lock);
    sim.host_ns += ns;
    work_pump();
    pthread_mutex_unlock(&sim.lock);
}

SIM_API void vrsim_fault(CUcontext handle, CUresult code)
{
    struct context *context = NULL;
    pthread_mutex_lock(&sim.lock);
    if (handle != NULL)
        context = context_alive(handle);
    else
        context_current(&context);
    if (context != NULL)
        context->fault = code;
    pthread_mutex_unlock(&sim.lock);
}

SIM_API uint64_t vrsim_card_used(CUdevice device)
{
    pthread_mutex_lock(&sim.lock);
    struct device *found = device_find(device);
    uint64_t used = found != NULL ? found->used_bytes : 0;
    pthread_mutex_unlock(&sim.lock);
    return used;
}

SIM_API void vrsim_live(struct vrsim_live *out)
{
    pthread_mutex_lock(&sim.lock);
    *out = (struct vrsim_live){.device_blocks = card_live(BLOCK_DEVICE),
                               .ordered_blocks = card_live(BLOCK_PIECE),
                               .managed_blocks = card_live(BLOCK_MANAGED),
                               .host_blocks = card_live(BLOCK_HOST),
                               .registered_blocks = card_live(BLOCK_REGISTERED),
                               .external_blocks = card_live(BLOCK_EXTERNAL),
                               .externals = external_live(),
                               .mappings = card_live(BLOCK_MAPPED),
                               .events = events_live()};
    vmm_live(&out->handles, &out->reservations);
    pthread_mutex_unlock(&sim.lock);
}

SIM_API void *vrsim_function(const char *name)
{
    const struct entry *entry = entry_find(name);
    return entry != NULL ? entry->function : NULL;
}
