/* read_origins.c - who allocated, as a report says it: names of modules, and call stacks, each kept
 * once in tables of this file, so that the parts of the library that print them find them by
 * number. See read.h.
 *
 * Lock: none; one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "../../shim/modules.h"
#include "../../shim/origins.h"
#include "read_internal.h"

enum { NAMES_MAX = 4096, NAME_BYTES = 256, GROUPS_MAX = 1 << 16 };

/* A call stack; its number is the place in the table + 1. */
struct stack {
    size_t count;
    struct module_frame *frames;
};

static char *names[NAMES_MAX];
static uint32_t name_count;
static struct stack *stacks;
static uint32_t stack_count, stack_room;

const char *module_name(uint32_t number)
{
    return number > 0 && number <= name_count ? names[number - 1] : "";
}

static uint32_t name_number(struct read_state *state, const json_t *object, const char *member)
{
    char name[NAME_BYTES];
    read_text(state, object, member, name, sizeof(name));
    if (name[0] == '\0')
        return 0;
    for (uint32_t i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return i + 1;
    char *copy = name_count < NAMES_MAX ? strdup(name) : NULL;
    if (copy == NULL) {
        read_wrong(state, "it names too many modules");
        return 0;
    }
    names[name_count++] = copy;
    return name_count;
}

static size_t frames_of(uint32_t origin, struct module_frame *frames, size_t max)
{
    const struct stack *stack = origin > 0 && origin <= stack_count ? &stacks[origin - 1] : NULL;
    size_t count = stack == NULL ? 0 : stack->count < max ? stack->count : max;
    if (count > 0)
        memcpy(frames, stack->frames, count * sizeof(frames[0]));
    return count;
}

static void frame_read(struct read_state *state, const json_t *row, struct module_frame *frame)
{
    char symbol[NAME_BYTES];
    read_text(state, row, "symbol", symbol, sizeof(symbol));
    frame->place.module = name_number(state, row, "module");
    frame->place.offset = read_figure(state, row, "offset");
    frame->symbol_offset = read_figure(state, row, "symbol_offset");
    frame->symbol = symbol[0] != '\0' ? strdup(symbol) : "";
    if (frame->symbol == NULL)
        frame->symbol = "";
}

/* The number of the group's call stack; 0: there is none. */
static uint32_t stack_read(struct read_state *state, const json_t *group)
{
    const json_t *rows;
    size_t count = read_list(state, group, "stack", ORIGIN_FRAMES_MAX, &rows);
    if (count == 0)
        return 0;
    if (stack_count == stack_room) {
        uint32_t room = stack_room == 0 ? 64 : 2 * stack_room;
        struct stack *larger = realloc(stacks, room * sizeof(*stacks));
        if (larger == NULL)
            return 0;
        stacks = larger;
        stack_room = room;
    }
    struct module_frame *frames = calloc(count, sizeof(*frames));
    if (frames == NULL)
        return 0;
    for (size_t i = 0; i < count; i++)
        frame_read(state, json_array_get(rows, i), &frames[i]);
    stacks[stack_count++] = (struct stack){count, frames};
    return stack_count;
}

size_t read_groups_count(struct read_state *state, const json_t *gpu)
{
    const json_t *rows;
    return read_list(state, json_object_get(gpu, "live"), "groups", GROUPS_MAX, &rows);
}

void read_live(struct read_state *state, const json_t *gpu, struct report_live *live,
               struct report_group *groups)
{
    const json_t *rows, *object = json_object_get(gpu, "live");
    live->known = object != NULL;
    live->groups = groups;
    live->count = read_list(state, object, "groups", GROUPS_MAX, &rows);
    for (size_t i = 0; i < live->count; i++) {
        const json_t *row = json_array_get(rows, i);
        groups[i] =
            (struct report_group){.origin = stack_read(state, row),
                                  .module = name_number(state, row, "module"),
                                  .by_driver = json_is_true(json_object_get(row, "by_driver")),
                                  .blocks = read_figure(state, row, "blocks"),
                                  .bytes = read_figure(state, row, "bytes"),
                                  .smallest_bytes = read_figure(state, row, "smallest_bytes"),
                                  .largest_bytes = read_figure(state, row, "largest_bytes")};
    }
    live->other_groups = read_figure(state, object, "other_groups");
    live->other_blocks = read_figure(state, object, "other_blocks");
    live->other_bytes = read_figure(state, object, "other_bytes");
    live->kept_blocks = read_figure(state, object, "kept_blocks");
    live->kept_bytes = read_figure(state, object, "kept_bytes");
}

void read_callers(struct read_state *state, const json_t *root, struct report *report)
{
    const json_t *rows, *object = json_object_get(root, "callers");
    report->stacks = json_is_true(json_object_get(object, "stacks"));
    report->stacks_stored = read_figure(state, object, "stacks_stored");
    report->stacks_lost = read_figure(state, object, "stacks_lost");
    report->frames = frames_of;
    report->caller_count = read_list(state, object, "modules", REPORT_CALLERS_MAX, &rows);
    for (size_t i = 0; i < report->caller_count; i++) {
        const json_t *row = json_array_get(rows, i);
        report->callers[i] =
            (struct report_caller){.module = name_number(state, row, "module"),
                                   .looked_at = read_figure(state, row, "looked_at"),
                                   .calls = read_figure(state, row, "calls"),
                                   .bytes = read_figure(state, row, "bytes")};
    }
}
