/* origins.c - stores callers and call stacks. See origins.h.
 *
 *     origin -> steps: frame numbers -> frames: address, module, offset, name
 *
 * Frames and origins are found by hash tables of twice their number, linear probing, and never
 * removed. A frame stands for an address in one module: when modules were closed since it was last
 * seen, it is looked up again, and another module at the same place makes it another frame.
 *
 * The stack is walked by glibc's backtrace(), which needs unwind tables and no frame pointers. It
 * loads libgcc_s when it is first called, and allocates then, so it is called once beforehand. By
 * default nothing is walked: the unwinder runs through tables of the program's, which may be wrong,
 * and must not be run in a program that did not ask for it.
 *
 * A caller that is known to the thread is not looked up again: a library that was closed and
 * another one that took its very place count as one by default.
 */
#define _GNU_SOURCE
#include "origins.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "debug.h"
#include "lock_within.h"
#include "log.h"
#include "options.h"
#include "process.h"
#include "symbols.h"

enum { CALLERS_MAX = 1024, STACKS_MAX = 32768, STEPS_A_STACK = 16 };
enum { WALK_MAX = 64, OWN_FRAMES_MAX = 12, RUNTIME_FRAMES_MAX = 6 };
enum { NAMES_BYTES = 512 << 10, NAME_BYTES = 256, SYMBOLS_PATIENCE_MS = 100 };

struct frame {
    uint64_t address;
    struct module_place place;
    uint64_t closed; /* modules_closed() when it was last looked up */
    uint32_t name;   /* in names, + 1; 0: not looked for yet. Atomic */
    uint64_t into;   /* bytes from the symbol's start */
};

struct origin {
    uint64_t hash;
    uint32_t step, steps;        /* of `steps`; those of origin 0: none */
    struct origin_counts counts; /* atomic */
};

/* Of a size that is settled when they are made. */
static struct tables {
    uint32_t origins_max, steps_max; /* frames: as many as origins */
    uint32_t frames_used, steps_used;
    uint32_t *origin_slots, *frame_slots, *steps; /* slots: 2 * origins_max; 0: free */
    struct origin *origins;                       /* 0: what has no number */
    struct frame *frames;                         /* 0: unused */
} tables;

__thread struct origin_thread origin_thread;

static pthread_mutex_t origin_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t origins_used; /* atomic: those up to here, and their frames, are complete */
static bool stacks;           /* settled before the first allocation */
static struct module_place own;

static pthread_mutex_t symbol_lock = PTHREAD_MUTEX_INITIALIZER;
static char names[NAMES_BYTES]; /* "" first */
static uint32_t names_used = 1;

/* --- tables ---------------------------------------------------------------------------------- */

static bool tables_make_locked(void)
{
    if (tables.origins != NULL)
        return true;
    uint32_t most = stacks ? STACKS_MAX : CALLERS_MAX;
    uint32_t steps = stacks ? STACKS_MAX * STEPS_A_STACK : CALLERS_MAX;
    size_t bytes = (size_t)(most + 1) * (sizeof(struct origin) + sizeof(struct frame)) +
                   ((size_t)4 * most + steps) * sizeof(uint32_t);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    tables.origins_max = most;
    tables.steps_max = steps;
    tables.frames = (struct frame *)(void *)memory;
    struct origin *origins = (struct origin *)(void *)(tables.frames + most + 1);
    tables.origin_slots = (uint32_t *)(void *)(origins + most + 1);
    tables.frame_slots = tables.origin_slots + (size_t)2 * most;
    tables.steps = tables.frame_slots + (size_t)2 * most;
    __atomic_store_n(&tables.origins, origins, __ATOMIC_RELEASE);
    return true;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* The frame of an address as it is loaded now; place: NULL where it is not looked up yet. Returns
 * the slot, whose frame is 0 where there is none. */
static uint32_t *frame_slot(uint64_t address, uint64_t closed, const struct module_place *place)
{
    uint64_t at = mix(0, address);
    for (;; at++) {
        uint32_t *slot = &tables.frame_slots[at % (2 * tables.origins_max)];
        struct frame *frame = &tables.frames[*slot];
        if (*slot == 0)
            return slot;
        if (frame->address == address &&
            (place == NULL ? frame->closed == closed : frame->place.module == place->module))
            return slot;
    }
}

/* 0: there is no room. */
static uint32_t frame_number_locked(uint64_t address, uint64_t closed)
{
    uint32_t *slot = frame_slot(address, closed, NULL);
    if (*slot != 0)
        return *slot;
    struct module_place place = modules_find(address);
    slot = frame_slot(address, closed, &place);
    if (*slot == 0) {
        if (tables.frames_used == tables.origins_max)
            return 0;
        *slot = ++tables.frames_used;
        tables.frames[*slot] = (struct frame){.address = address, .place = place};
    }
    tables.frames[*slot].closed = closed;
    return *slot;
}

/* The slot of an origin with these steps. */
static uint32_t *origin_slot(uint64_t hash, const uint32_t *steps, uint32_t count)
{
    for (uint64_t at = hash;; at++) {
        uint32_t *slot = &tables.origin_slots[at % (2 * tables.origins_max)];
        const struct origin *origin = &tables.origins[*slot];
        if (*slot == 0 || (origin->hash == hash && origin->steps == count &&
                           memcmp(&tables.steps[origin->step], steps, count * sizeof(*steps)) == 0))
            return slot;
    }
}

static uint32_t origin_number_locked(const uint32_t *steps, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = mix(hash, steps[i]);
    uint32_t *slot = origin_slot(hash, steps, count);
    if (*slot != 0)
        return *slot;
    if (origins_used == tables.origins_max || count > tables.steps_max - tables.steps_used)
        return 0;
    uint32_t number = origins_used + 1;
    memcpy(&tables.steps[tables.steps_used], steps, count * sizeof(*steps));
    tables.origins[number] =
        (struct origin){.hash = hash, .step = tables.steps_used, .steps = count};
    tables.steps_used += count;
    *slot = number;
    __atomic_store_n(&origins_used, number, __ATOMIC_RELEASE);
    return number;
}

static void counts_add(uint32_t origin, uint64_t calls, uint64_t bytes)
{
    struct origin *all = __atomic_load_n(&tables.origins, __ATOMIC_ACQUIRE);
    if (all == NULL)
        return;
    struct origin_counts *counts = &all[origin].counts;
    __atomic_fetch_add(&counts->looked_at, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->calls, calls, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->bytes, bytes, __ATOMIC_RELAXED);
}

/* --- storing --------------------------------------------------------------------------------- */

/* The runtime's frames are left out at the front, unless there are no others. */
static uint32_t stack_number_locked(const void *const *returns, size_t count, uint64_t closed)
{
    uint32_t steps[ORIGIN_FRAMES_MAX], used = 0;
    for (size_t i = 0; i < count && used < ORIGIN_FRAMES_MAX; i++) {
        uint32_t frame = frame_number_locked((uint64_t)(uintptr_t)returns[i], closed);
        if (frame == 0)
            return 0;
        if (used == 1 && module_is_runtime(tables.frames[steps[0]].place.module))
            used = 0;
        steps[used++] = frame;
    }
    return used > 0 ? origin_number_locked(steps, used) : 0;
}

uint32_t origin_of_stack(const void *const *returns, size_t count, uint64_t bytes)
{
    int cancellable, saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    uint64_t closed = modules_closed();
    pthread_mutex_lock(&origin_lock);
    uint32_t origin = tables_make_locked() ? stack_number_locked(returns, count, closed) : 0;
    pthread_mutex_unlock(&origin_lock);
    if (stacks)
        counts_add(origin, 1, bytes);
    pthread_setcancelstate(cancellable, NULL);
    errno = saved_errno;
    return origin;
}

/* Where the library's own frames end. */
static size_t own_frames(void *const *returns, size_t count)
{
    const struct loaded_module *module = module_get(own.module);
    size_t first = 0;
    for (size_t i = 0; module != NULL && i < count && i < OWN_FRAMES_MAX; i++) {
        uint64_t address = (uint64_t)(uintptr_t)returns[i];
        if (address >= module->start && address < module->end)
            first = i + 1;
    }
    return first;
}

/* Walks the thread's stack. */
static __attribute__((noinline)) uint32_t stack_here(uint64_t bytes)
{
    void *returns[WALK_MAX];
    int saved_errno = errno;
    int walked = backtrace(returns, WALK_MAX);
    size_t count = walked > 0 ? (size_t)walked : 0, first = own_frames(returns, count);
    errno = saved_errno;
    return origin_of_stack((const void *const *)returns + first, count - first, bytes);
}

uint32_t origin_look_up(const void *caller, uint64_t bytes)
{
    if (!process_serves())
        return 0;
    if (stacks)
        return stack_here(bytes);
    origin_thread.origin = origin_of_stack(&caller, 1, bytes);
    origin_thread.caller = caller;
    return origin_thread.origin;
}

void origin_sample(uint32_t origin, uint64_t bytes, uint32_t weight)
{
    if (!stacks && process_serves())
        counts_add(origin, weight, bytes * weight);
}

void origins_settle(void)
{
    void *returns[4];
    bool asked = strcmp(options.leaks, "stacks") == 0;
    if (!asked && !debug_frees_wait())
        return;
    stacks = backtrace(returns, 4) > 0;
    if (stacks)
        own = modules_find((uint64_t)(uintptr_t)&origins_settle);
    else if (asked)
        log_line("VRAMALLOC_LEAKS=stacks is not possible here: libgcc_s.so.1 cannot be loaded");
}

/* --- reading --------------------------------------------------------------------------------- */

bool origins_are_stacks(void)
{
    return stacks;
}

uint32_t origins_stored(void)
{
    return __atomic_load_n(&origins_used, __ATOMIC_ACQUIRE);
}

static const struct origin *origin_get(uint32_t number)
{
    return number > 0 && number <= origins_stored() ? &tables.origins[number] : NULL;
}

struct origin_counts origin_counts(uint32_t number)
{
    const struct origin *all = __atomic_load_n(&tables.origins, __ATOMIC_ACQUIRE);
    if (all == NULL || number > origins_stored())
        return (struct origin_counts){0};
    const struct origin_counts *counts = &all[number].counts;
    return (struct origin_counts){__atomic_load_n(&counts->looked_at, __ATOMIC_RELAXED),
                                  __atomic_load_n(&counts->calls, __ATOMIC_RELAXED),
                                  __atomic_load_n(&counts->bytes, __ATOMIC_RELAXED)};
}

uint32_t origin_module(uint32_t number)
{
    const struct origin *origin = origin_get(number);
    return origin != NULL ? tables.frames[tables.steps[origin->step]].place.module : 0;
}

/* Looks for the name of a frame. What returns there was called before, by another function if the
 * call was the last thing in its own. */
static void frame_name_locked(struct frame *frame)
{
    char name[NAME_BYTES];
    uint64_t into;
    uint32_t at = 0;
    const struct loaded_module *module = module_get(frame->place.module);
    if (module != NULL && symbol_find(module, frame->place.offset - 1, name, sizeof(name), &into)) {
        size_t bytes = strlen(name) + 1;
        if (bytes <= NAMES_BYTES - names_used) {
            memcpy(names + names_used, name, bytes);
            frame->into = into + 1;
            at = names_used;
            names_used += (uint32_t)bytes;
        }
    }
    __atomic_store_n(&frame->name, at + 1, __ATOMIC_RELEASE);
}

/* The process may end from a handler, in a thread that holds the lock. */
static void frame_name(struct frame *frame)
{
    int cancellable, saved_errno = errno;
    if (__atomic_load_n(&frame->name, __ATOMIC_ACQUIRE) != 0)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    if (lock_within(&symbol_lock, SYMBOLS_PATIENCE_MS)) {
        if (frame->name == 0)
            frame_name_locked(frame);
        pthread_mutex_unlock(&symbol_lock);
    }
    pthread_setcancelstate(cancellable, NULL);
    errno = saved_errno;
}

static size_t frames_read(const struct origin *origin, struct module_frame *frames, size_t most)
{
    size_t used = 0;
    for (; used < origin->steps && used < most; used++) {
        struct frame *frame = &tables.frames[tables.steps[origin->step + used]];
        frame_name(frame);
        uint32_t name = __atomic_load_n(&frame->name, __ATOMIC_ACQUIRE);
        frames[used] = (struct module_frame){frame->place, name > 0 ? names + name - 1 : "",
                                             name > 1 ? frame->into : 0};
    }
    return used;
}

/* Where the frames of a runtime that is linked into its caller end: with its own function, if that
 * has a name. */
static size_t runtime_frames(const struct module_frame *frames, size_t count)
{
    static const char function[] = "cudaMalloc";
    size_t first = 0;
    for (size_t i = 0; i + 1 < count && i < RUNTIME_FRAMES_MAX; i++)
        if (strncmp(frames[i].symbol, function, sizeof(function) - 1) == 0)
            first = i + 1;
    return first;
}

size_t origin_frames(uint32_t number, struct module_frame *frames, size_t frames_max)
{
    const struct origin *origin = origin_get(number);
    size_t count = origin != NULL ? frames_read(origin, frames, frames_max) : 0;
    size_t first = runtime_frames(frames, count);
    memmove(frames, frames + first, (count - first) * sizeof(*frames));
    return count - first;
}

const char *origin_describe(uint32_t number, char *text, size_t bytes, size_t frames_max)
{
    struct module_frame frames[ORIGIN_FRAMES_MAX];
    size_t used = 0;
    size_t count = origin_frames(number, frames, ORIGIN_FRAMES_MAX);
    text[0] = '\0';
    for (size_t i = 0; i < count && i < frames_max; i++) {
        char one[NAME_BYTES];
        module_frame_text(&frames[i], one, sizeof(one));
        int added = snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", one);
        if (added < 0 || (size_t)added >= bytes - used) {
            text[used] = '\0'; /* whole frames only */
            break;
        }
        used += (size_t)added;
    }
    return text;
}
