/* reader.c - reads a trace file. See reader.h.
 *
 * Every chunk is in the order of time by itself. The chunks' headers are read at first and put in
 * order by the earliest time that each may hold; then a heap of open chunks gives the earliest
 * record, and a chunk is opened only when the heap has come to its time. So memory goes by the
 * number of threads that are active together, not by the length of the trace.
 */
#define _GNU_SOURCE
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW_RECORDS = 341 }; /* 16 KiB */

struct place {
    uint64_t offset, bytes;
    uint64_t first_ns;
    uint32_t thread;
    int32_t tid;
};

/* An open chunk. record[at] is the next one while at < count. */
struct run {
    uint64_t offset, end; /* of what is not read yet */
    uint32_t thread;
    int32_t tid;
    size_t at, count;
    struct trace_record record[WINDOW_RECORDS];
};

struct reader {
    int fd;
    struct reader_info info;
    struct reader_item *items;
    struct place *places;
    size_t place_count, place_next;
    struct run **heap;
    size_t heap_count;
    bool failed;
    char reason[READER_REASON_BYTES];
    char texts[2 * TRACE_UNIT_BYTES]; /* the items' */
    size_t text_used;
    union {
        struct trace_header header;
        unsigned char bytes[TRACE_UNIT_BYTES];
    } first;
};

static const char *const kind_names[TRACE_KIND_COUNT] = {"nothing",
#define X(NAME, name) name,
                                                         TRACE_KINDS(X)
#undef X
};

__attribute__((format(printf, 2, 3))) static bool fail(struct reader *reader, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->reason, sizeof(reader->reason), format, arguments);
    va_end(arguments);
    reader->failed = true;
    return false;
}

/* Reads all of it, or fails. */
static bool read_at(struct reader *reader, void *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(reader->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(reader, "%s", strerror(errno));
        if (got == 0)
            return fail(reader, "the file is cut short");
        done += (size_t)got;
    }
    return true;
}

/* --- opening ----------------------------------------------------------------------------- */

static bool header_check(struct reader *reader)
{
    struct trace_header *header = &reader->first.header;
    if (memcmp(header->magic, TRACE_MAGIC, sizeof(header->magic)) != 0)
        return fail(reader, "this is no trace of vramalloc, or one that was never begun");
    if (reader->info.file_bytes % TRACE_UNIT_BYTES != 0)
        return fail(reader, "the file is cut short");
    if (header->byte_order != TRACE_BYTE_ORDER)
        return fail(reader, "the trace is from a machine of another byte order");
    if (header->version != TRACE_VERSION)
        return fail(reader, "the trace has version %u, and this reads version %u", header->version,
                    TRACE_VERSION);
    if (header->record_bytes != sizeof(struct trace_record) ||
        header->unit_bytes != TRACE_UNIT_BYTES)
        return fail(reader, "the trace's header is damaged");
    if (reader->info.file_bytes < header->end_bytes)
        return fail(reader, "the file is cut short: %llu bytes of %llu",
                    (unsigned long long)reader->info.file_bytes,
                    (unsigned long long)header->end_bytes);
    header->program[sizeof(header->program) - 1] = '\0';
    header->host[sizeof(header->host) - 1] = '\0';
    return true;
}

/* A copy of an item's text with a zero behind it, and bytes that are no text made visible. */
static const char *text_keep(struct reader *reader, const unsigned char *text, size_t bytes)
{
    char *copy = reader->texts + reader->text_used;
    for (size_t i = 0; i < bytes; i++)
        copy[i] = text[i] < ' ' || text[i] == 127 ? '?' : (char)text[i];
    copy[bytes] = '\0';
    reader->text_used += bytes + 1;
    return copy;
}

static bool items_load(struct reader *reader)
{
    size_t at = sizeof(struct trace_header),
           capacity = TRACE_UNIT_BYTES / sizeof(struct trace_item);
    struct trace_item item;
    reader->items = calloc(capacity, sizeof(*reader->items));
    if (reader->items == NULL)
        return fail(reader, "the host has no memory");
    while (at + sizeof(item) <= TRACE_UNIT_BYTES) {
        memcpy(&item, reader->first.bytes + at, sizeof(item));
        if (item.type == TRACE_ITEM_NONE)
            break;
        if (item.type >= TRACE_ITEM_TYPES || item.text_bytes > TRACE_UNIT_BYTES - at - sizeof(item))
            return fail(reader, "the trace is damaged at byte %zu", at);
        reader->items[reader->info.item_count++] = (struct reader_item){
            .type = item.type,
            .id = item.id,
            .other = item.other,
            .value = item.value,
            .text = text_keep(reader, reader->first.bytes + at + sizeof(item), item.text_bytes)};
        at += (sizeof(item) + item.text_bytes + 7) / 8 * 8;
    }
    reader->info.items = reader->items;
    return true;
}

static bool place_add(struct reader *reader, uint64_t offset, const struct trace_chunk *chunk,
                      size_t *capacity)
{
    if (reader->place_count == *capacity) {
        size_t more = *capacity != 0 ? *capacity * 2 : 64;
        struct place *grown = realloc(reader->places, more * sizeof(*grown));
        if (grown == NULL)
            return fail(reader, "the host has no memory");
        reader->places = grown;
        *capacity = more;
    }
    reader->places[reader->place_count++] = (struct place){.offset = offset,
                                                           .bytes = chunk->bytes,
                                                           .first_ns = chunk->first_ns,
                                                           .thread = chunk->thread,
                                                           .tid = chunk->tid};
    return true;
}

static int place_compare(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->first_ns != b->first_ns)
        return a->first_ns < b->first_ns ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static bool places_load(struct reader *reader)
{
    size_t capacity = 0;
    uint64_t offset = TRACE_UNIT_BYTES, size = reader->info.file_bytes;
    while (offset < size) {
        struct trace_chunk chunk;
        if (!read_at(reader, &chunk, sizeof(chunk), offset))
            return false;
        if (chunk.magic == 0) { /* never filled */
            offset += TRACE_UNIT_BYTES;
            continue;
        }
        if (chunk.magic != TRACE_CHUNK_MAGIC || chunk.bytes == 0 ||
            chunk.bytes % TRACE_UNIT_BYTES != 0 || chunk.bytes > TRACE_CHUNK_MAX_BYTES ||
            chunk.bytes > size - offset)
            return fail(reader, "the trace is damaged at byte %llu", (unsigned long long)offset);
        if (!place_add(reader, offset, &chunk, &capacity))
            return false;
        offset += chunk.bytes;
    }
    if (reader->place_count > 0)
        qsort(reader->places, reader->place_count, sizeof(*reader->places), place_compare);
    reader->info.chunk_count = reader->place_count;
    reader->heap = calloc(reader->place_count + 1, sizeof(struct run *));
    return reader->heap != NULL || fail(reader, "the host has no memory");
}

static bool file_open(struct reader *reader, const char *path)
{
    struct stat status;
    reader->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (reader->fd < 0 || fstat(reader->fd, &status) != 0)
        return fail(reader, "%s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return fail(reader, "this is no regular file");
    reader->info.file_bytes = (uint64_t)status.st_size;
    if (status.st_size == 0)
        return fail(reader, "the file is empty");
    size_t bytes =
        status.st_size < (off_t)TRACE_UNIT_BYTES ? (size_t)status.st_size : TRACE_UNIT_BYTES;
    return read_at(reader, reader->first.bytes, bytes, 0);
}

struct reader *reader_open(const char *path, char reason[READER_REASON_BYTES])
{
    struct reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        snprintf(reason, READER_REASON_BYTES, "the host has no memory");
        return NULL;
    }
    reader->info.header = &reader->first.header;
    if (file_open(reader, path) && header_check(reader) && items_load(reader) &&
        places_load(reader))
        return reader;
    snprintf(reason, READER_REASON_BYTES, "%s", reader->reason);
    reader_close(reader);
    return NULL;
}

static void runs_close(struct reader *reader)
{
    for (size_t i = 0; i < reader->heap_count; i++)
        free(reader->heap[i]);
    reader->heap_count = 0;
}

void reader_close(struct reader *reader)
{
    runs_close(reader);
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->heap);
    free(reader->places);
    free(reader->items);
    free(reader);
}

bool reader_recognises(const char *path)
{
    char magic[8];
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    bool is = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
              pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
              memcmp(magic, TRACE_MAGIC, sizeof(magic)) == 0;
    close(fd);
    return is;
}

/* --- the heap of open chunks ------------------------------------------------------------- */

static uint64_t run_time(const struct run *run)
{
    return run->record[run->at].time_ns;
}

static void heap_down(struct reader *reader, size_t i)
{
    struct run **heap = reader->heap;
    for (;;) {
        size_t least = i, child = 2 * i + 1;
        for (size_t c = child; c < child + 2 && c < reader->heap_count; c++)
            if (run_time(heap[c]) < run_time(heap[least]))
                least = c;
        if (least == i)
            return;
        struct run *moved = heap[i];
        heap[i] = heap[least];
        heap[least] = moved;
        i = least;
    }
}

static void heap_add(struct reader *reader, struct run *run)
{
    struct run **heap = reader->heap;
    size_t i = reader->heap_count++;
    for (; i > 0 && run_time(run) < run_time(heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = run;
}

/* Makes record[at] the next record that is an event. False: the chunk has none left, or it is
 * damaged (reader->failed). */
static bool run_advance(struct reader *reader, struct run *run)
{
    for (;; run->at++) {
        if (run->at == run->count) {
            uint64_t left = (run->end - run->offset) / sizeof(struct trace_record);
            run->at = 0;
            run->count = left < WINDOW_RECORDS ? (size_t)left : WINDOW_RECORDS;
            size_t bytes = run->count * sizeof(struct trace_record);
            if (run->count == 0 || !read_at(reader, run->record, bytes, run->offset))
                return false;
            run->offset += bytes;
        }
        const struct trace_record *record = &run->record[run->at];
        if (record->kind == TRACE_NOTHING)
            return false;
        if (record->kind >= TRACE_KIND_COUNT) {
            uint64_t behind = (run->count - run->at) * sizeof(*record);
            return fail(reader, "the trace is damaged at byte %llu",
                        (unsigned long long)(run->offset - behind));
        }
        if (record->kind != TRACE_THREAD)
            return true;
        run->thread = (uint32_t)record->address;
        run->tid = (int32_t)record->bytes;
    }
}

static bool place_open(struct reader *reader, const struct place *place)
{
    struct run *run = malloc(sizeof(*run));
    if (run == NULL)
        return fail(reader, "the host has no memory");
    run->offset = place->offset + sizeof(struct trace_chunk);
    run->end = place->offset + place->bytes;
    run->thread = place->thread;
    run->tid = place->tid;
    run->at = run->count = 0;
    if (run_advance(reader, run))
        heap_add(reader, run);
    else
        free(run);
    return !reader->failed;
}

/* --- events ------------------------------------------------------------------------------ */

void reader_rewind(struct reader *reader)
{
    runs_close(reader);
    reader->place_next = 0;
    reader->failed = false;
}

enum reader_status reader_next(struct reader *reader, struct reader_event *event)
{
    while (!reader->failed && reader->place_next < reader->place_count &&
           (reader->heap_count == 0 ||
            reader->places[reader->place_next].first_ns <= run_time(reader->heap[0])))
        place_open(reader, &reader->places[reader->place_next++]);
    if (reader->failed)
        return READER_DAMAGED;
    if (reader->heap_count == 0)
        return READER_END;
    struct run *run = reader->heap[0];
    const struct trace_record *record = &run->record[run->at++];
    *event = (struct reader_event){.time_ns = record->time_ns,
                                   .duration_ns = record->duration_ns,
                                   .address = record->address,
                                   .bytes = record->bytes,
                                   .stream = record->stream,
                                   .thread = run->thread,
                                   .tid = run->tid,
                                   .result = record->result,
                                   .caller = record->caller,
                                   .context = record->context,
                                   .flags = record->flags,
                                   .kind = record->kind};
    if (!run_advance(reader, run)) {
        reader->heap[0] = reader->heap[--reader->heap_count];
        free(run);
    }
    heap_down(reader, 0);
    return READER_EVENT;
}

const char *reader_reason(const struct reader *reader)
{
    return reader->reason;
}

const struct reader_info *reader_info(const struct reader *reader)
{
    return &reader->info;
}

const struct reader_item *reader_item(const struct reader *reader, enum trace_item_type type,
                                      uint32_t id)
{
    for (size_t i = 0; i < reader->info.item_count; i++)
        if (reader->items[i].type == type && reader->items[i].id == id)
            return &reader->items[i];
    return NULL;
}

const char *reader_kind_name(enum trace_kind kind)
{
    return kind < TRACE_KIND_COUNT ? kind_names[kind] : "?";
}

bool reader_is_alloc(const struct reader_event *event)
{
    return event->result == 0 && event->address != 0 &&
           (event->kind == TRACE_ALLOC || event->kind == TRACE_ALLOC_PITCH ||
            event->kind == TRACE_ALLOC_ASYNC);
}

bool reader_is_free(const struct reader_event *event)
{
    return (event->result == 0 || event->result == TRACE_PENDING) && event->address != 0 &&
           (event->kind == TRACE_FREE || event->kind == TRACE_FREE_ASYNC);
}
