/* export_perfetto.c - Chrome's trace JSON, which Perfetto opens: a slice for each call and each
 * event of the pool that lasts, an instant for what has no length, counters for memory.
 *
 * Times are microseconds with three decimals since the trace began. A thread is named by the
 * kernel's number of it. Counters, a GPU each: what the program holds live, and what the pool holds
 * from the driver; a point at each change.
 */
#include "trace_tool.h"

#include <inttypes.h>
#include <stdlib.h>

enum { DEVICES = 64 };

struct perfetto {
    FILE *to;
    const struct reader *reader;
    bool any; /* an event was written: the next one needs a comma */
    int pid;
    unsigned char *named; /* threads that have a name, a byte each */
    size_t named_count;
    uint64_t live_bytes[DEVICES], held_bytes[DEVICES];
    uint64_t held_of_context[65536];
};

static void microseconds(FILE *to, const char *name, uint64_t ns)
{
    fprintf(to, ",\"%s\":%" PRIu64 ".%03u", name, ns / 1000, (unsigned)(ns % 1000));
}

static void event_open(struct perfetto *perfetto, const char *name, char phase, uint32_t thread)
{
    fprintf(perfetto->to, "%s\n{\"name\":\"%s\",\"ph\":\"%c\",\"pid\":%d,\"tid\":%u",
            perfetto->any ? "," : "", name, phase, perfetto->pid, thread + 1);
    perfetto->any = true;
}

/* False: the host has no memory. */
static bool thread_name(struct perfetto *perfetto, const struct reader_event *event)
{
    if (event->thread >= (1u << 20)) /* no trace of ours has so many */
        return true;
    if (event->thread >= perfetto->named_count) {
        size_t count = (size_t)event->thread + 256;
        unsigned char *grown = realloc(perfetto->named, count);
        if (grown == NULL)
            return false;
        for (size_t i = perfetto->named_count; i < count; i++)
            grown[i] = 0;
        perfetto->named = grown;
        perfetto->named_count = count;
    }
    if (perfetto->named[event->thread])
        return true;
    perfetto->named[event->thread] = 1;
    event_open(perfetto, "thread_name", 'M', event->thread);
    fprintf(perfetto->to, ",\"args\":{\"name\":\"thread %d\"}}", event->tid);
    return true;
}

static void counter_write(struct perfetto *perfetto, uint64_t ns, const char *what, uint32_t device,
                          uint64_t bytes)
{
    fprintf(perfetto->to, ",\n{\"name\":\"GPU %u %s\",\"ph\":\"C\",\"pid\":%d", device, what,
            perfetto->pid);
    microseconds(perfetto->to, "ts", ns);
    fprintf(perfetto->to, ",\"args\":{\"bytes\":%" PRIu64 "}}", bytes);
}

static void caller_write(struct perfetto *perfetto, uint16_t caller)
{
    const struct reader_item *item = reader_item(perfetto->reader, TRACE_ITEM_CALLER, caller);
    const struct reader_item *module =
        item != NULL ? reader_item(perfetto->reader, TRACE_ITEM_MODULE, item->other) : NULL;
    if (module == NULL)
        return;
    fputs(",\"caller\":", perfetto->to);
    json_text(perfetto->to, module->text);
    fprintf(perfetto->to, ",\"offset\":\"0x%" PRIx64 "\"", item->value);
}

static bool lasts(const struct reader_event *event)
{
    return event->kind <= TRACE_SHRINK || event->kind == TRACE_WAIT;
}

static bool ends_at_its_time(const struct reader_event *event)
{
    return event->kind != TRACE_FREE && event->kind != TRACE_FREE_ASYNC;
}

static void event_write(struct perfetto *perfetto, const struct reader_event *event)
{
    FILE *to = perfetto->to;
    uint64_t begin_ns = event->time_ns;
    if (ends_at_its_time(event))
        begin_ns -= event->duration_ns < begin_ns ? event->duration_ns : begin_ns;
    event_open(perfetto, reader_kind_name(event->kind), lasts(event) ? 'X' : 'i', event->thread);
    microseconds(to, "ts", begin_ns);
    if (lasts(event))
        microseconds(to, "dur", event->duration_ns);
    else
        fputs(",\"s\":\"t\"", to);
    fputs(",\"args\":{", to);
    if (event->result == TRACE_PENDING)
        fputs("\"result\":null", to);
    else
        fprintf(to, "\"result\":%u", event->result);
    fprintf(to, ",\"address\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64, event->address, event->bytes);
    if (event->stream != TRACE_STREAM_NONE)
        fprintf(to, ",\"stream\":\"0x%" PRIx64 "\"", event->stream);
    if (event->kind <= TRACE_FREE_ASYNC)
        fprintf(to, ",\"served\":%s", (event->flags & TRACE_SERVED) != 0 ? "true" : "false");
    caller_write(perfetto, event->caller);
    fputs("}}", to);
}

static void life_change(void *arg, const struct reader_event *event, const struct life *life,
                        bool is_free, bool implied)
{
    struct perfetto *perfetto = arg;
    uint32_t device = life->device % DEVICES;
    (void)implied;
    perfetto->live_bytes[device] += is_free ? 0 - life->bytes : life->bytes;
    counter_write(perfetto, event->time_ns, "live", device, perfetto->live_bytes[device]);
}

static void held_change(struct perfetto *perfetto, const struct reader_event *event,
                        const struct lives *lives)
{
    uint32_t device = lives_device(lives, event->context) % DEVICES;
    uint64_t *of_context = &perfetto->held_of_context[event->context];
    uint64_t change = 0;
    if (event->kind == TRACE_CONTEXT_END)
        change = 0 - *of_context;
    else if (event->result == 0)
        change = event->kind == TRACE_GROW ? event->bytes : 0 - event->bytes;
    *of_context += change;
    perfetto->held_bytes[device] += change;
    if (change != 0)
        counter_write(perfetto, event->time_ns, "held", device, perfetto->held_bytes[device]);
}

static bool event_feed(struct perfetto *perfetto, struct lives *lives,
                       const struct reader_event *event)
{
    if (!thread_name(perfetto, event))
        return false;
    event_write(perfetto, event);
    if (!lives_feed(lives, event, life_change, perfetto))
        return false;
    if (event->kind == TRACE_GROW || event->kind == TRACE_SHRINK ||
        event->kind == TRACE_CONTEXT_END)
        held_change(perfetto, event, lives);
    return true;
}

static void head_write(struct perfetto *perfetto)
{
    const struct trace_header *header = reader_info(perfetto->reader)->header;
    perfetto->pid = header->pid;
    fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":", perfetto->to);
    json_text(perfetto->to, header->program);
    fprintf(perfetto->to, ",\"lost_events\":%" PRIu64 "},\n\"traceEvents\":[", header->lost_events);
    event_open(perfetto, "process_name", 'M', 0);
    fputs(",\"args\":{\"name\":", perfetto->to);
    json_text(perfetto->to, header->program);
    fputs("}}", perfetto->to);
}

enum tool_status export_perfetto(struct reader *reader, FILE *to)
{
    struct reader_event event;
    enum reader_status status;
    struct perfetto *perfetto = calloc(1, sizeof(*perfetto));
    struct lives *lives = lives_create();
    bool ok = perfetto != NULL && lives != NULL;
    if (ok) {
        perfetto->to = to;
        perfetto->reader = reader;
        head_write(perfetto);
    }
    while (ok && (status = reader_next(reader, &event)) == READER_EVENT)
        ok = event_feed(perfetto, lives, &event);
    fputs("\n]}\n", to);
    if (perfetto != NULL)
        free(perfetto->named);
    free(perfetto);
    if (lives != NULL)
        lives_destroy(lives);
    if (!ok)
        return TOOL_NO_MEMORY;
    return status == READER_END ? TOOL_OK : TOOL_DAMAGED;
}
