/* report_origins.c - the parts of the report about who allocated: calls by module, and blocks that
 * are live by their origin. See report.h.
 *
 * Text shows the largest groups, JSON those that there is room for; both say what the rest is, so
 * that the figures add up.
 */
#include "origins.h"
#include "report_buffer.h"
#include "units.h"

enum { GROUP_ROWS = 4, STACK_ROWS = 10, FRAME_ROWS = 8, CALLER_ROWS = 4, FRAME_BYTES = 256 };
/* Groups are listed in JSON while it is shorter. */
enum { JSON_GROUPS_BYTES = REPORT_BUFFER_BYTES / 2 };

#define BYTES(value) unit_bytes(value).text
#define COUNT(value) unit_count(value).text
#define S(count)     unit_plural(count)
#define U(value)     ((unsigned long long)(value))

static struct module_frame frames[ORIGIN_FRAMES_MAX]; /* one report is made at a time */

static size_t frames_of(const struct report *report, uint32_t origin)
{
    return report->frames != NULL ? report->frames(origin, frames, ORIGIN_FRAMES_MAX) : 0;
}

static const char *name_of(uint32_t module)
{
    const char *name = module_name(module);
    return name[0] != '\0' ? name : "code that is not known";
}

/* --- callers --------------------------------------------------------------------------------- */

static struct report_caller callers_sum(const struct report *report)
{
    struct report_caller sum = {0};
    for (size_t i = 0; i < report->caller_count; i++) {
        sum.looked_at += report->callers[i].looked_at;
        sum.calls += report->callers[i].calls;
        sum.bytes += report->callers[i].bytes;
    }
    return sum;
}

static void caller_print(struct report_buffer *out, const char *name, const char *end,
                         const struct report_caller *caller, const struct report_caller *sum)
{
    report_print(out, "    %-9s of the calls, %-9s of the bytes: %s%s\n",
                 unit_share(caller->calls, sum->calls).text,
                 unit_share(caller->bytes, sum->bytes).text, name, end);
}

void report_callers_text(struct report_buffer *out, const struct report *report)
{
    struct report_caller sum = callers_sum(report), rest = sum;
    if (sum.looked_at == 0)
        return;
    report_print(out, "\nAllocations by module%s ",
                 report->stacks ? ", behind the CUDA runtime" : " that called the driver");
    if (sum.looked_at == sum.calls)
        report_print(out, "(every call was looked at)\n");
    else
        report_print(out, "(1 of %s calls was looked at)\n", COUNT(sum.calls / sum.looked_at));
    size_t rows = report->caller_count;
    rows = rows > CALLER_ROWS ? CALLER_ROWS : rows;
    for (size_t i = 0; i < rows; i++) {
        const struct report_caller *caller = &report->callers[i];
        caller_print(out, name_of(caller->module), "", caller, &sum);
        rest.calls -= caller->calls;
        rest.bytes -= caller->bytes;
    }
    if (report->caller_count > rows)
        caller_print(out, COUNT(report->caller_count - rows), " more", &rest, &sum);
}

void report_callers_json(struct report_buffer *out, const struct report *report)
{
    struct report_caller sum = callers_sum(report);
    report_print(out, " \"callers\": {\"stacks\": %s, \"looked_at\": %llu, \"calls\": %llu, ",
                 report->stacks ? "true" : "false", U(sum.looked_at), U(sum.calls));
    report_print(out, "\"stacks_stored\": %llu, \"stacks_lost\": %llu, \"modules\": [",
                 U(report->stacks_stored), U(report->stacks_lost));
    for (size_t i = 0; i < report->caller_count; i++) {
        const struct report_caller *caller = &report->callers[i];
        report_print(out, "%s\n   {\"module\": ", i > 0 ? "," : "");
        report_json_string(out, module_name(caller->module));
        report_print(out, ", \"looked_at\": %llu, \"calls\": %llu, \"bytes\": %llu}",
                     U(caller->looked_at), U(caller->calls), U(caller->bytes));
    }
    report_print(out, "]},\n");
}

/* --- live blocks ----------------------------------------------------------------------------- */

static void frames_print(struct report_buffer *out, const struct report *report, uint32_t origin)
{
    char text[FRAME_BYTES];
    size_t count = frames_of(report, origin);
    if (count == 0)
        report_print(out, "          a call stack that is not known\n");
    for (size_t i = 0; i < count && i < FRAME_ROWS; i++) {
        module_frame_text(&frames[i], text, sizeof(text));
        report_print(out, "          %s\n", text);
    }
    if (count > FRAME_ROWS)
        report_print(out, "          and %zu more\n", count - FRAME_ROWS);
}

static void group_print(struct report_buffer *out, const struct report *report,
                        const struct report_group *group)
{
    report_print(out, "      %10s in %s block%s of %s", BYTES(group->bytes), COUNT(group->blocks),
                 S(group->blocks), BYTES(group->smallest_bytes));
    if (group->largest_bytes != group->smallest_bytes)
        report_print(out, " to %s", BYTES(group->largest_bytes));
    if (group->by_driver)
        report_print(out, " of the driver's");
    if (report->stacks) {
        report_print(out, ", allocated at\n");
        frames_print(out, report, group->origin);
    } else {
        report_print(out, ", by %s\n", name_of(group->module));
    }
}

void report_live_text(struct report_buffer *out, const struct report *report,
                      const struct report_device *device)
{
    const struct report_live *live = &device->live;
    size_t rows = report->stacks ? STACK_ROWS : GROUP_ROWS;
    struct report_live rest = *live;
    for (size_t i = 0; i < live->count; i++) {
        if (i < rows) {
            group_print(out, report, &live->groups[i]);
            continue;
        }
        report_live_other(&rest, &live->groups[i]);
    }
    if (rest.other_blocks > 0)
        report_print(out, "      %10s in %s block%s in %s more group%s\n", BYTES(rest.other_bytes),
                     COUNT(rest.other_blocks), S(rest.other_blocks), COUNT(rest.other_groups),
                     S(rest.other_groups));
    if (live->kept_blocks > 0)
        report_print(out,
                     "      %10s in %s block%s of all these belong to NVIDIA's libraries, "
                     "which keep memory until the end\n",
                     BYTES(live->kept_bytes), COUNT(live->kept_blocks), S(live->kept_blocks));
}

static void stack_json(struct report_buffer *out, const struct report *report, uint32_t origin)
{
    size_t count = frames_of(report, origin);
    report_print(out, ", \"stack\": [");
    for (size_t i = 0; i < count; i++) {
        report_print(out, "%s\n          {\"module\": ", i > 0 ? "," : "");
        report_json_string(out, module_name(frames[i].place.module));
        report_print(out, ", \"offset\": %llu, \"symbol\": ", U(frames[i].place.offset));
        report_json_string(out, frames[i].symbol);
        report_print(out, ", \"symbol_offset\": %llu}", U(frames[i].symbol_offset));
    }
    report_print(out, "]");
}

static void group_json(struct report_buffer *out, const struct report *report,
                       const struct report_group *group)
{
    report_print(out,
                 "\n        {\"blocks\": %llu, \"bytes\": %llu, \"smallest_bytes\": %llu, "
                 "\"largest_bytes\": %llu, \"by_driver\": %s, \"kept_on_purpose\": %s, "
                 "\"module\": ",
                 U(group->blocks), U(group->bytes), U(group->smallest_bytes),
                 U(group->largest_bytes), group->by_driver ? "true" : "false",
                 module_is_keeper(group->module) ? "true" : "false");
    report_json_string(out, module_name(group->module));
    if (report->stacks)
        stack_json(out, report, group->origin);
    report_print(out, "}");
}

void report_live_json(struct report_buffer *out, const struct report *report,
                      const struct report_device *device)
{
    const struct report_live *live = &device->live;
    struct report_live rest = *live;
    if (!live->known)
        return;
    report_print(out, "     \"live\": {\"groups\": [");
    for (size_t i = 0; i < live->count; i++) {
        if (out->used < JSON_GROUPS_BYTES) {
            report_print(out, i > 0 ? "," : "");
            group_json(out, report, &live->groups[i]);
            continue;
        }
        report_live_other(&rest, &live->groups[i]);
    }
    report_print(out,
                 "],\n       \"other_groups\": %llu, \"other_blocks\": %llu, \"other_bytes\": "
                 "%llu, \"kept_blocks\": %llu, \"kept_bytes\": %llu},\n",
                 U(rest.other_groups), U(rest.other_blocks), U(rest.other_bytes),
                 U(live->kept_blocks), U(live->kept_bytes));
}
