/* leaks.c - groups live blocks in a hash table, and keeps the largest groups. See leaks.h.
 *
 * A group is an origin and, where origins are no stacks, a doubling of the size. What finds no
 * place in the table is counted with the others.
 */
#define _GNU_SOURCE
#include "leaks.h"

#include <string.h>
#include <sys/mman.h>

#include "devices.h"
#include "forwarded.h"
#include "origins.h"

enum { PLACES = 16384, GROUPS_MAX = PLACES / 2, LISTED_MAX = 100 };

struct collection {
    struct report_group places[PLACES]; /* blocks 0: free */
    struct report_group listed[DEVICES_MAX][LISTED_MAX];
};

static struct collection *collection; /* from mmap, while the report is made */

struct visit {
    const struct device *device;
    struct report_live *live;
    size_t used;
};

static unsigned doubling_of(uint64_t bytes)
{
    return origins_are_stacks() ? 0 : 63 - (unsigned)__builtin_clzll(bytes | 1);
}

/* NULL: there is no room for one more. */
static struct report_group *group_of(struct visit *visit, uint32_t origin, uint64_t bytes,
                                     bool by_driver)
{
    unsigned doubling = doubling_of(bytes);
    uint64_t key = ((uint64_t)origin << 8 | doubling << 1 | by_driver) + 1;
    for (uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;; at++) {
        struct report_group *group = &collection->places[at % PLACES];
        if (group->blocks == 0 && visit->used == GROUPS_MAX)
            return NULL;
        if (group->blocks == 0) {
            visit->used++;
            *group = (struct report_group){.origin = origin,
                                           .module = origin_module(origin),
                                           .by_driver = by_driver,
                                           .smallest_bytes = bytes};
            return group;
        }
        if (group->origin == origin && group->by_driver == by_driver &&
            doubling_of(group->smallest_bytes) == doubling)
            return group;
    }
}

static void block_add(struct visit *visit, uint32_t origin, uint64_t bytes, bool by_driver)
{
    struct report_group *group = group_of(visit, origin, bytes, by_driver);
    if (module_is_keeper(origin_module(origin))) {
        visit->live->kept_blocks++;
        visit->live->kept_bytes += bytes;
    }
    if (group == NULL) {
        visit->live->other_blocks++;
        visit->live->other_bytes += bytes;
        return;
    }
    group->blocks++;
    group->bytes += bytes;
    if (bytes < group->smallest_bytes)
        group->smallest_bytes = bytes;
    if (bytes > group->largest_bytes)
        group->largest_bytes = bytes;
}

static void pooled_add(void *arg, const struct pool_block *block)
{
    block_add(arg, origin_of_tag(block->tag), block->requested_bytes, false);
}

static void forwarded_visited(void *arg, const struct forwarded_block *block)
{
    struct visit *visit = arg;
    if (block->device == visit->device)
        block_add(visit, block->origin, block->bytes, true);
}

static bool group_before(const struct report_group *a, const struct report_group *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->origin < b->origin;
}

/* Puts a group among those that are listed. */
static void group_list(struct report_live *live, struct report_group *listed,
                       const struct report_group *group)
{
    size_t at = live->count;
    if (at == LISTED_MAX && !group_before(group, &listed[at - 1])) {
        report_live_other(live, group);
        return;
    }
    if (at == LISTED_MAX)
        report_live_other(live, &listed[--at]);
    else
        live->count++;
    for (; at > 0 && group_before(group, &listed[at - 1]); at--)
        listed[at] = listed[at - 1];
    listed[at] = *group;
}

static void device_collect(struct report_device *row, struct report_group *listed)
{
    int slot = 0;
    struct context *context;
    struct visit visit = {.device = device_known(row->ordinal), .live = &row->live};
    memset(collection->places, 0, sizeof(collection->places));
    bool whole = visit.device != NULL && forwarded_visit(forwarded_visited, &visit);
    while (whole && (context = device_context(visit.device, &slot)) != NULL)
        whole = pool_visit_live(context->pool, pooled_add, &visit);
    if (!whole) {
        row->live = (struct report_live){0};
        return;
    }
    row->live.known = true;
    row->live.groups = listed;
    for (size_t i = 0; i < PLACES; i++)
        if (collection->places[i].blocks > 0)
            group_list(&row->live, listed, &collection->places[i]);
}

void leaks_collect(struct report_device *rows, size_t count)
{
    if (collection == NULL) {
        void *memory = mmap(NULL, sizeof(*collection), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return;
        collection = memory;
    }
    for (size_t i = 0; i < count && i < DEVICES_MAX; i++)
        device_collect(&rows[i], collection->listed[i]);
}

/* --- callers --------------------------------------------------------------------------------- */

/* The row of a module; the last one where there is no room for it. */
static struct report_caller *caller_of(struct report *report, uint32_t module)
{
    for (size_t i = 0; i < report->caller_count; i++)
        if (report->callers[i].module == module)
            return &report->callers[i];
    if (report->caller_count == REPORT_CALLERS_MAX)
        return &report->callers[REPORT_CALLERS_MAX - 1];
    struct report_caller *caller = &report->callers[report->caller_count++];
    *caller = (struct report_caller){.module = module};
    return caller;
}

static void callers_sort(struct report *report)
{
    for (size_t i = 1; i < report->caller_count; i++) {
        struct report_caller caller = report->callers[i];
        size_t at = i;
        for (; at > 0 && report->callers[at - 1].calls < caller.calls; at--)
            report->callers[at] = report->callers[at - 1];
        report->callers[at] = caller;
    }
}

void callers_collect(struct report *report)
{
    report->stacks = origins_are_stacks();
    report->frames = origin_frames;
    report->caller_count = 0;
    report->stacks_stored = report->stacks ? origins_stored() : 0;
    report->stacks_lost = report->stacks ? origin_counts(0).looked_at : 0;
    for (uint32_t origin = 0; origin <= origins_stored(); origin++) {
        struct origin_counts counts = origin_counts(origin);
        if (counts.looked_at == 0)
            continue;
        struct report_caller *caller = caller_of(report, origin_module(origin));
        caller->looked_at += counts.looked_at;
        caller->calls += counts.calls;
        caller->bytes += counts.bytes;
    }
    callers_sort(report);
}
