/* entries.c - the exported functions, made from entries.def, and what holds before each of them.
 *
 * An entry counts the call, waits while it is blocked, and answers at once where the driver would
 * whatever the arguments: after exit, in a forked child, inside a host callback, when a failure was
 * ordered, before cuInit, without a context, after a fault, during a capture. Only then the
 * function behind it runs, under the lock.
 *
 * The functions are static and exported by alias, so the address that the simulator hands out is
 * its own even when a preloaded object defines the same name.
 *
 * Lock: takes sim.lock around the function behind the entry.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEGACY_OF(stream) ((stream) == NULL ? CU_STREAM_LEGACY : (stream))
#define THREAD_OF(stream) ((stream) == NULL ? CU_STREAM_PER_THREAD : (stream))

enum entry_index {
#define ENTRY(elf, ...) INDEX_##elf,
#include "entries.def"
#undef ENTRY
    ENTRY_COUNT
};

static void call_wait_unblocked(struct entry *entry)
{
    const struct timespec pause = {0, 50000};
    if (!__atomic_load_n(&entry->blocked, __ATOMIC_ACQUIRE))
        return;
    __atomic_fetch_add(&entry->waiting, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&entry->blocked, __ATOMIC_ACQUIRE))
        nanosleep(&pause, NULL);
    __atomic_fetch_sub(&entry->waiting, 1, __ATOMIC_RELAXED);
}

/* What the state of the process says, before any lock. */
static CUresult call_check_process(const struct entry *entry)
{
    if (entry->missing)
        return CUDA_ERROR_NOT_FOUND;
    if (entry->rules & NEEDS_NOTHING)
        return CUDA_SUCCESS;
    if (sim.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (__atomic_load_n(&sim.exited, __ATOMIC_ACQUIRE))
        return CUDA_ERROR_DEINITIALIZED;
    return sim_in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

static CUresult call_check_ordered(struct entry *entry, uint64_t number)
{
    bool hit = entry->fail_at == UINT64_MAX || (entry->fail_at != 0 && entry->fail_at == number);
    return hit ? entry->fail_code : CUDA_SUCCESS;
}

static CUresult call_check_context(const struct entry *entry)
{
    struct context *context = NULL;
    CUresult result = context_current(&context);
    if ((entry->rules & NEEDS_CONTEXT) && result != CUDA_SUCCESS)
        return result;
    if ((entry->rules & TELLS_FAULT) && context != NULL && context->fault != CUDA_SUCCESS)
        return context->fault;
    if ((entry->rules & SPOILS) && capture_prohibits())
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return CUDA_SUCCESS;
}

static CUresult call_check_locked(struct entry *entry, uint64_t number)
{
    CUresult ordered = call_check_ordered(entry, number);
    if (ordered != CUDA_SUCCESS)
        return ordered;
    if (entry->rules & (NEEDS_NOTHING | WORKS_DOWN))
        return CUDA_SUCCESS;
    if (!sim.initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    work_pump();
    return call_check_context(entry);
}

/* CUDA_SUCCESS: sim.lock is held and the function may run. */
static CUresult call_enter(enum entry_index index)
{
    struct entry *entry = &entries[index];
    uint64_t number = __atomic_add_fetch(&entry->calls, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&sim.forbidden, __ATOMIC_RELAXED))
        fprintf(stderr, "vrsim: a call after the last: %s\n", entry->elf);
    if (sim.on_call != NULL)
        sim.on_call(entry->elf);
    call_wait_unblocked(entry);
    CUresult result = call_check_process(entry);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&sim.lock);
    sim.host_ns += sim.call_ns;
    result = call_check_locked(entry, number);
    if (result != CUDA_SUCCESS)
        pthread_mutex_unlock(&sim.lock);
    return result;
}

static CUresult call_leave(CUresult result)
{
    pthread_mutex_unlock(&sim.lock);
    if (sim.on_call != NULL)
        sim.on_call(NULL);
    return result;
}

/* Variants that differ from the function behind them by arguments that are not simulated. */
static CUresult context_create_v3(CUcontext *out, const CUexecAffinityParam *affinity, int count,
                                  unsigned int flags, CUdevice device)
{
    (void)affinity;
    return count < 0 ? CUDA_ERROR_INVALID_VALUE : context_create(out, flags, device);
}

static CUresult capture_info_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                CUgraph *graph, const CUgraphNode **nodes,
                                const CUgraphEdgeData **edges, size_t *count)
{
    if (edges != NULL)
        *edges = NULL;
    return capture_info(stream, status, id, graph, nodes, count);
}

static CUresult capture_begin_onto(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                   const CUgraphEdgeData *edges, size_t count,
                                   CUstreamCaptureMode mode)
{
    (void)dependencies;
    (void)edges;
    (void)count;
    return capture_begin_graph(stream, graph, mode);
}

#define ENTRY(elf, base, version, flavour, rules, params, args, impl, impl_args)                   \
    static CUresult entry_##elf params                                                             \
    {                                                                                              \
        CUresult result = call_enter(INDEX_##elf);                                                 \
        return result != CUDA_SUCCESS ? result : call_leave(impl impl_args);                       \
    }                                                                                              \
    static CUresult thunk_##elf params                                                             \
    {                                                                                              \
        return entry_##elf args;                                                                   \
    }                                                                                              \
    SIM_API CUresult elf params __attribute__((alias("entry_" #elf)));
#include "entries.def"
#undef ENTRY

#define ENTRY(elf, base, version, flavour, rules, params, args, impl, impl_args)                   \
    {#elf, base,         version, flavour, rules, (void *)entry_##elf, (void *)thunk_##elf, 0,     \
     0,    CUDA_SUCCESS, 0,       0,       false},
struct entry entries[] = {
#include "entries.def"
};
#undef ENTRY

const size_t entry_count = ENTRY_COUNT;

struct entry *entry_find(const char *elf)
{
    for (size_t i = 0; i < entry_count; i++)
        if (strcmp(entries[i].elf, elf) == 0)
            return &entries[i];
    return NULL;
}
