/* trace.c - reads allocation traces. See trace.h.
 *
 * Each life of a pointer becomes one block number, so that a replay needs no look-up. Pointers are
 * kept in an open-addressing hash table, those that were freed as well: to free one again is a
 * fault of the file, to free one that was never allocated is not (the recording began later).
 */
#include "trace.h"

#include "../trace/reader.h"
#include "binary.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LINE_BYTES = 1024, COLUMNS = 6, THREADS_MAX = 1024 };
enum { COLUMN_THREAD, COLUMN_TIME, COLUMN_ACTION, COLUMN_POINTER, COLUMN_SIZE, COLUMN_STREAM };

struct live {
    uint64_t pointer; /* 0: empty */
    uint64_t bytes;   /* 0: it was freed */
    uint32_t block;
};

/* Open addressing; capacity is a power of two. */
struct live_table {
    struct live *slots;
    size_t capacity;
    size_t used;
};

struct loader {
    struct trace *trace;
    size_t events_capacity;
    size_t failures, nothings; /* lines left out: failed allocations, and those of no memory */
    struct live_table live;
    struct trace_error *error;
    size_t line;
    uint64_t *threads; /* as named in the file */
    uint64_t first_ns;
    trace_visitor *visit; /* NULL: events are kept */
    void *visit_arg;
    struct trace_event event; /* what is known of the line's event so far */
};

static bool load_fail(struct loader *loader, const char *reason)
{
    loader->error->line = loader->line;
    snprintf(loader->error->reason, sizeof(loader->error->reason), "%s", reason);
    return false;
}

static size_t live_home(const struct live_table *table, uint64_t pointer)
{
    return (size_t)((pointer * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (table->capacity - 1);
}

static struct live *live_find(struct live_table *table, uint64_t pointer)
{
    size_t i = live_home(table, pointer);
    while (table->slots[i].pointer != 0 && table->slots[i].pointer != pointer)
        i = (i + 1) & (table->capacity - 1);
    return &table->slots[i];
}

static bool live_grow(struct live_table *table)
{
    struct live_table bigger = {.capacity = table->capacity != 0 ? table->capacity * 2 : 1024,
                                .used = table->used};
    bigger.slots = calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return false;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->slots[i].pointer != 0)
            *live_find(&bigger, table->slots[i].pointer) = table->slots[i];
    free(table->slots);
    *table = bigger;
    return true;
}

static bool event_add(struct loader *loader, struct trace_event event, uint64_t pointer)
{
    struct trace *trace = loader->trace;
    if (loader->visit != NULL) {
        trace->event_count++;
        return loader->visit(loader->visit_arg, &event, pointer) ||
               load_fail(loader, "its events cannot be taken");
    }
    if (trace->event_count == loader->events_capacity) {
        size_t capacity = loader->events_capacity != 0 ? loader->events_capacity * 2 : 4096;
        struct trace_event *grown = realloc(trace->events, capacity * sizeof(*grown));
        if (grown == NULL)
            return load_fail(loader, "out of memory");
        trace->events = grown;
        loader->events_capacity = capacity;
    }
    trace->events[trace->event_count++] = event;
    return true;
}

static bool number_parse(const char *text, int base, uint64_t *out)
{
    char *end;
    errno = 0;
    if (text[0] == '\0' || text[0] == '-' || text[0] == '+')
        return false;
    *out = strtoull(text, &end, base);
    return errno == 0 && *end == '\0';
}

/* RMM logs an allocation of 0 bytes as "(nil)". */
static bool pointer_parse(const char *text, uint64_t *out)
{
    *out = 0;
    return strcmp(text, "(nil)") == 0 || number_parse(text, 16, out);
}

static bool allocate_add(struct loader *loader, uint64_t pointer, uint64_t bytes, uint64_t stream)
{
    if (bytes == 0 || pointer == 0) {
        loader->nothings++;
        return true;
    }
    if ((loader->live.used + 1) * 2 > loader->live.capacity && !live_grow(&loader->live))
        return load_fail(loader, "out of memory");
    struct live *slot = live_find(&loader->live, pointer);
    if (slot->pointer != 0 && slot->bytes != 0)
        return load_fail(loader, "allocates a pointer that is still live");
    if (loader->trace->block_count == UINT32_MAX)
        return load_fail(loader, "more than 4294967295 allocations");
    uint32_t block = (uint32_t)loader->trace->block_count++;
    loader->live.used += slot->pointer == 0;
    *slot = (struct live){.pointer = pointer, .bytes = bytes, .block = block};
    loader->event.bytes = bytes;
    loader->event.stream = stream;
    loader->event.block = block;
    return event_add(loader, loader->event, pointer);
}

static bool free_add(struct loader *loader, uint64_t pointer, uint64_t stream)
{
    struct live *slot = loader->live.capacity != 0 ? live_find(&loader->live, pointer) : NULL;
    if (slot == NULL || slot->pointer == 0 || pointer == 0) {
        loader->trace->foreign_frees++;
        return true;
    }
    if (slot->bytes == 0)
        return load_fail(loader, "frees a pointer that was freed before");
    loader->event.bytes = slot->bytes;
    loader->event.stream = stream;
    loader->event.block = slot->block;
    loader->event.is_free = true;
    slot->bytes = 0;
    return event_add(loader, loader->event, pointer);
}

static bool line_split(char *line, char *columns[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        columns[i] = line;
        char *comma = strchr(line, ',');
        if ((comma == NULL) != (i == COLUMNS - 1))
            return false;
        if (comma != NULL) {
            *comma = '\0';
            line = comma + 1;
        }
    }
    return true;
}

/* Nanoseconds, or RMM's time of day with microseconds behind a colon or a point. */
static bool time_parse(const char *text, uint64_t *ns_out)
{
    unsigned hours, minutes, seconds, micros;
    char end;
    if (number_parse(text, 10, ns_out))
        return true;
    if (sscanf(text, "%2u:%2u:%2u%*1[:.]%6u%c", &hours, &minutes, &seconds, &micros, &end) != 4)
        return false;
    *ns_out =
        ((hours * 60 + minutes) * UINT64_C(60) + seconds) * 1000000000 + micros * UINT64_C(1000);
    return true;
}

/* Threads are numbered in the order in which they appear. */
static bool thread_number(struct loader *loader, uint64_t thread, uint32_t *out)
{
    struct trace *trace = loader->trace;
    for (size_t i = trace->thread_count; i-- > 0;) {
        if (loader->threads[i] == thread) {
            *out = (uint32_t)i;
            return true;
        }
    }
    if (trace->thread_count == THREADS_MAX)
        return load_fail(loader, "more than 1024 threads");
    *out = (uint32_t)trace->thread_count++;
    loader->threads[*out] = thread;
    return true;
}

static bool when_and_who(struct loader *loader, char *columns[COLUMNS])
{
    uint64_t thread, ns;
    if (!number_parse(columns[COLUMN_THREAD], 0, &thread))
        return load_fail(loader, "the thread is not a number");
    if (!time_parse(columns[COLUMN_TIME], &ns))
        return load_fail(loader, "the time is neither nanoseconds nor a time of day");
    if (loader->trace->event_count == 0)
        loader->first_ns = ns;
    loader->event =
        (struct trace_event){.time_ns = ns > loader->first_ns ? ns - loader->first_ns : 0};
    return thread_number(loader, thread, &loader->event.thread);
}

static bool line_load(struct loader *loader, char *line)
{
    char *columns[COLUMNS];
    uint64_t pointer, bytes, stream = 0;
    if (line[0] == '\0')
        return true;
    if (!line_split(line, columns))
        return load_fail(loader, "expected 6 columns: Thread,Time,Action,Pointer,Size,Stream");
    if (loader->line == 1 && strcmp(columns[0], "Thread") == 0)
        return true;
    if (!when_and_who(loader, columns))
        return false;
    if (strcmp(columns[COLUMN_ACTION], "allocate failure") == 0) {
        loader->failures++;
        return true;
    }
    if (!pointer_parse(columns[COLUMN_POINTER], &pointer))
        return load_fail(loader, "the pointer is not a hexadecimal number");
    if (!number_parse(columns[COLUMN_SIZE], 10, &bytes))
        return load_fail(loader, "the size is not a number of bytes");
    if (bytes > TRACE_BLOCK_MAX_BYTES)
        return load_fail(loader, "the size is beyond any card's");
    if (strcmp(columns[COLUMN_STREAM], "-") != 0) {
        if (!number_parse(columns[COLUMN_STREAM], 0, &stream) || stream == UINT64_MAX)
            return load_fail(loader, "the stream is neither \"-\" nor a number");
        stream++;
    }
    if (strcmp(columns[COLUMN_ACTION], "allocate") == 0)
        return allocate_add(loader, pointer, bytes, stream);
    if (strcmp(columns[COLUMN_ACTION], "free") == 0)
        return free_add(loader, pointer, stream);
    return load_fail(loader, "the action is neither \"allocate\" nor \"free\"");
}

/* A line without an end: right only as the last of a whole file. */
static bool line_ends_file(struct loader *loader, gzFile file, size_t length)
{
    int code;
    gzerror(file, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        return load_fail(loader, "the file is damaged or cut short");
    if (length == LINE_BYTES - 1)
        return load_fail(loader, "the line is too long");
    return gzeof(file) || load_fail(loader, "the line holds a zero byte");
}

/* Appends " (2 things" or ", 2 things" to the reason. */
static void kind_say(struct loader *loader, size_t count, const char *one, const char *more)
{
    char *reason = loader->error->reason;
    size_t used = strlen(reason), room = sizeof(loader->error->reason) - used;
    if (count > 0)
        snprintf(reason + used, room, "%s%zu %s", strchr(reason, '(') == NULL ? " (" : ", ", count,
                 count == 1 ? one : more);
}

static bool no_events(struct loader *loader)
{
    size_t foreign = loader->trace->foreign_frees;
    size_t ignored = loader->failures + loader->nothings + foreign;
    char reason[96] = "the file has no events";
    if (ignored > 0)
        snprintf(reason, sizeof(reason), "the file has no events: %zu line%s ignored", ignored,
                 ignored == 1 ? " was" : "s were");
    load_fail(loader, reason);
    kind_say(loader, loader->failures, "failed allocation", "failed allocations");
    kind_say(loader, loader->nothings, "allocation of nothing", "allocations of nothing");
    kind_say(loader, foreign, "free of a pointer never allocated",
             "frees of pointers never allocated");
    if (ignored > 0)
        strcat(loader->error->reason, ")");
    return false;
}

static bool lines_load(struct loader *loader, gzFile file)
{
    char line[LINE_BYTES];
    while (gzgets(file, line, sizeof(line)) != NULL) {
        loader->line++;
        size_t length = strcspn(line, "\r\n");
        if (line[length] == '\0' && !line_ends_file(loader, file, length))
            return false;
        line[length] = '\0';
        if (!line_load(loader, line))
            return false;
    }
    int code;
    gzerror(file, &code);
    loader->line++;
    if (code != Z_OK && code != Z_STREAM_END)
        return load_fail(loader, "the file is damaged or cut short");
    loader->line = 0;
    return loader->trace->event_count > 0 || no_events(loader);
}

static bool file_load(struct loader *loader, const char *path)
{
    uint64_t threads[THREADS_MAX];
    loader->threads = threads;
    *loader->trace = (struct trace){0};
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return load_fail(loader, strerror(errno));
    gzbuffer(file, 256 << 10);
    bool loaded = lines_load(loader, file);
    gzclose(file);
    free(loader->live.slots);
    if (!loaded)
        trace_free(loader->trace);
    return loaded;
}

bool trace_load(const char *path, struct trace *trace, struct trace_error *error)
{
    struct loader loader = {.trace = trace, .error = error};
    return reader_recognises(path) ? binary_load(path, trace, error) : file_load(&loader, path);
}

bool trace_visit(const char *path, trace_visitor *visit, void *arg, struct trace_error *error)
{
    struct trace trace;
    struct loader loader = {.trace = &trace, .error = error, .visit = visit, .visit_arg = arg};
    return file_load(&loader, path);
}

bool trace_refused_add(struct trace *trace)
{
    size_t at = trace->refused_at, count = trace->event_count;
    if (trace->refused_bytes == 0 || at == 0 || at > count || trace->block_count == UINT32_MAX)
        return true;
    struct trace_event *events = realloc(trace->events, (count + 1) * sizeof(*events));
    if (events == NULL)
        return false;
    memmove(events + at + 1, events + at, (count - at) * sizeof(*events));
    events[at] = (struct trace_event){.bytes = trace->refused_bytes,
                                      .time_ns = trace->refused_ns,
                                      .block = (uint32_t)trace->block_count++,
                                      .thread = events[at - 1].thread};
    trace->events = events;
    trace->event_count = count + 1;
    return true;
}

void trace_free(struct trace *trace)
{
    free(trace->events);
    *trace = (struct trace){0};
}
