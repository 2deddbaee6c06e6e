/* source.c - events from a trace or from a CSV. See source.h.
 *
 * A trace is read again each time. A CSV is kept (32 bytes an event), since going through it twice
 * would be unpacking it twice; its blocks count as the pool's, so that the map shows the addresses
 * which it names.
 */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../replay/trace.h"
#include "../trace/reader.h"

enum { SIZE_CLASSES = 64, CONTEXTS = 65536, CALLERS = 65536 };

#define ROW_FREE ((uint64_t)1 << 63)

/* An event of a CSV. */
struct row {
    uint64_t address, time_ns;
    uint64_t bytes; /* and ROW_FREE */
    uint32_t thread;
};

struct source {
    struct source_info info;
    uint64_t latest_ns;
    const char *reason;
    /* A CSV */
    struct row *row;
    size_t row_count, row_capacity, row_next;
    /* A trace; reader is NULL for a CSV */
    struct reader *reader;
    const char **setting;
    uint8_t *context_device;                   /* by a context's number */
    const struct reader_item *caller[CALLERS]; /* by number; NULL: unknown */
};

/* --- a CSV ----------------------------------------------------------------------------------- */

static bool row_add(void *arg, const struct trace_event *event, uint64_t pointer)
{
    struct source *source = arg;
    if (source->row_count == source->row_capacity) {
        size_t capacity = source->row_capacity != 0 ? source->row_capacity * 2 : 4096;
        struct row *grown = realloc(source->row, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        source->row = grown;
        source->row_capacity = capacity;
    }
    source->row[source->row_count++] =
        (struct row){.address = pointer,
                     .time_ns = event->time_ns,
                     .bytes = event->bytes | (event->is_free ? ROW_FREE : 0),
                     .thread = event->thread};
    return true;
}

static bool csv_open(struct source *source, const char *path, char *reason)
{
    struct trace_error error = {0};
    if (!trace_visit(path, row_add, source, &error)) {
        if (error.line > 0)
            snprintf(reason, SOURCE_REASON_BYTES, "line %zu: %s", error.line, error.reason);
        else
            snprintf(reason, SOURCE_REASON_BYTES, "%s", error.reason);
        return false;
    }
    source->info.form = "csv";
    source->info.ended = true;
    return true;
}

/* The number of a thread and a power of two. */
static uint16_t csv_caller(uint32_t thread, uint64_t bytes)
{
    unsigned class = 63u - (unsigned)__builtin_clzll(bytes);
    return (uint16_t)(thread * SIZE_CLASSES + class + 1);
}

static void power_text(char *text, size_t room, unsigned power)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    snprintf(text, room, "%u %s", 1u << power % 10, units[power / 10 < 6 ? power / 10 : 5]);
}

static void csv_place(uint16_t caller, struct source_place *place)
{
    char from[24], to[24];
    unsigned number = caller - 1u;
    power_text(from, sizeof(from), number % SIZE_CLASSES);
    power_text(to, sizeof(to), number % SIZE_CLASSES + 1);
    snprintf(place->module, sizeof(place->module), "thread %u", number / SIZE_CLASSES);
    snprintf(place->place, sizeof(place->place), "%s to %s", from, to);
}

static bool csv_next(struct source *source, struct event *event)
{
    if (source->row_next == source->row_count)
        return false;
    const struct row *row = &source->row[source->row_next++];
    uint64_t bytes = row->bytes & ~ROW_FREE;
    *event = (struct event){.kind = (row->bytes & ROW_FREE) != 0 ? EVENT_FREE : EVENT_ALLOC,
                            .served = true,
                            .time_ns = row->time_ns,
                            .address = row->address,
                            .bytes = bytes,
                            .thread = row->thread,
                            .caller = csv_caller(row->thread, bytes)};
    return true;
}

/* --- a trace -----------------------------------------------------------------------------------
 */

/* Settings, devices and callers. */
static void items_take(struct source *source)
{
    struct source_info *info = &source->info;
    const struct reader_info *from = reader_info(source->reader);
    for (size_t i = 0; i < from->item_count; i++) {
        const struct reader_item *item = &from->items[i];
        if (item->type == TRACE_ITEM_SETTING) {
            source->setting[info->setting_count++] = item->text;
            info->movable |= strcmp(item->text, "VRAMALLOC_BACKING=vmm") == 0;
        } else if (item->type == TRACE_ITEM_DEVICE && item->id < SOURCE_DEVICES) {
            info->device[item->id] =
                (struct source_device){.known = true, .bytes = item->value, .name = item->text};
        } else if (item->type == TRACE_ITEM_CALLER && item->id < CALLERS) {
            source->caller[item->id] = item;
        }
    }
    info->setting = source->setting;
}

static void header_take(struct source_info *info, const struct trace_header *header)
{
    info->form = "vramalloc";
    info->program = header->program;
    info->host = header->host;
    info->pid = header->pid;
    info->start_unix_ns = header->start_unix_ns;
    info->ended = header->ended == 1;
    info->lost_events = header->lost_events;
    info->cut = header->stop != TRACE_WHOLE;
    info->cut_ns = header->lost_from_ns;
    info->knows_callers = true;
}

static bool trace_open(struct source *source, const char *path, char *reason)
{
    char why[READER_REASON_BYTES];
    source->reader = reader_open(path, why);
    if (source->reader == NULL) {
        snprintf(reason, SOURCE_REASON_BYTES, "%s", why);
        return false;
    }
    const struct reader_info *from = reader_info(source->reader);
    source->setting = calloc(from->item_count + 1, sizeof(*source->setting));
    source->context_device = calloc(CONTEXTS, 1);
    if (source->setting == NULL || source->context_device == NULL) {
        snprintf(reason, SOURCE_REASON_BYTES, "the host has no memory");
        return false;
    }
    header_take(&source->info, from->header);
    items_take(source);
    return true;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void trace_place(const struct source *source, uint16_t caller, struct source_place *place)
{
    const struct reader_item *item = source->caller[caller];
    if (item == NULL)
        return;
    const struct reader_item *module =
        item->other != 0 ? reader_item(source->reader, TRACE_ITEM_MODULE, item->other) : NULL;
    if (module != NULL)
        snprintf(place->module, sizeof(place->module), "%s", file_name(module->text));
    if (item->text[0] != '\0')
        snprintf(place->place, sizeof(place->place), "%s", item->text);
    else
        snprintf(place->place, sizeof(place->place), "+0x%llx", (unsigned long long)item->value);
}

static enum event_kind event_kind_of(const struct reader_event *from)
{
    switch (from->kind) {
    case TRACE_ALLOC:
    case TRACE_ALLOC_PITCH:
    case TRACE_ALLOC_ASYNC:
        return reader_is_alloc(from) && from->bytes > 0 ? EVENT_ALLOC
               : from->result != 0                      ? EVENT_FAILED
                                                        : EVENT_OTHER;
    case TRACE_FREE:
    case TRACE_FREE_ASYNC:
        return reader_is_free(from) ? EVENT_FREE : EVENT_OTHER;
    case TRACE_GROW:
        return from->result == 0 && from->address != 0 ? EVENT_GROW : EVENT_OTHER;
    case TRACE_SHRINK:
        return from->result == 0 && from->address != 0 ? EVENT_SHRINK : EVENT_OTHER;
    case TRACE_OUT_OF_MEMORY:
        return EVENT_OUT_OF_MEMORY;
    case TRACE_CONTEXT_END:
        return EVENT_CONTEXT_END;
    case TRACE_WAIT:
        return EVENT_WAIT;
    case TRACE_PASSED:
        return EVENT_PASSED;
    default:
        return EVENT_OTHER;
    }
}

static bool trace_next(struct source *source, struct event *event)
{
    struct reader_event from;
    enum reader_status status = reader_next(source->reader, &from);
    if (status == READER_DAMAGED)
        source->reason = reader_reason(source->reader);
    if (status != READER_EVENT)
        return false;
    if (from.kind == TRACE_CONTEXT_BEGIN && from.bytes < SOURCE_DEVICES)
        source->context_device[from.context] = (uint8_t)from.bytes;
    *event = (struct event){.kind = event_kind_of(&from),
                            .served = (from.flags & TRACE_SERVED) != 0,
                            .device = source->context_device[from.context],
                            .caller = from.caller,
                            .context = from.context,
                            .thread = from.thread,
                            .time_ns = from.time_ns,
                            .duration_ns = from.duration_ns,
                            .address = from.address,
                            .bytes = from.bytes};
    return true;
}

/* --- both --------------------------------------------------------------------------------------
 */

struct source *source_open(const char *path, char reason[SOURCE_REASON_BYTES])
{
    struct source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        snprintf(reason, SOURCE_REASON_BYTES, "the host has no memory");
        return NULL;
    }
    bool opened =
        reader_recognises(path) ? trace_open(source, path, reason) : csv_open(source, path, reason);
    if (opened)
        return source;
    source_close(source);
    return NULL;
}

void source_close(struct source *source)
{
    if (source->reader != NULL)
        reader_close(source->reader);
    free(source->row);
    free(source->setting);
    free(source->context_device);
    free(source);
}

const struct source_info *source_info(const struct source *source)
{
    return &source->info;
}

const char *source_reason(const struct source *source)
{
    return source->reason;
}

void source_rewind(struct source *source)
{
    source->row_next = 0;
    source->latest_ns = 0;
    source->reason = NULL;
    if (source->reader != NULL)
        reader_rewind(source->reader);
}

struct source_place source_caller(const struct source *source, uint16_t caller)
{
    struct source_place place = {.module = "unknown", .place = "unknown"};
    if (caller != 0 && source->reader == NULL)
        csv_place(caller, &place);
    else if (caller != 0)
        trace_place(source, caller, &place);
    return place;
}

bool source_next(struct source *source, struct event *event)
{
    bool is = source->reader != NULL ? trace_next(source, event) : csv_next(source, event);
    if (!is)
        return false;
    if (event->time_ns < source->latest_ns) /* threads log a little out of order */
        event->time_ns = source->latest_ns;
    source->latest_ns = event->time_ns;
    return true;
}
