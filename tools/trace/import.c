/* import.c - a trace from RMM's CSV, as if the driver alone had been called.
 *
 * All events go into one row of chunks in the order of the file, with a mark where the thread
 * changes; a time that goes back is raised to the one before, so that the order stays. What the
 * form does not tell (callers, results of frees, the device) stays empty.
 */
#define _GNU_SOURCE
#include "trace_tool.h"

#include <string.h>

#include "../replay/trace.h"

enum { CHUNK_BYTES = TRACE_CHUNK_MAX_BYTES, ROWS = CHUNK_BYTES / sizeof(struct trace_record) };

struct import {
    FILE *to;
    uint64_t latest_ns;
    uint32_t thread;
    size_t used; /* rows of this chunk, its header included; 0: none is begun */
    uint64_t file_bytes;
    union {
        struct trace_chunk chunk;
        struct trace_record row[ROWS];
        unsigned char bytes[CHUNK_BYTES];
    } at;
};

/* What is written is whole units. */
static bool chunk_flush(struct import *import)
{
    size_t bytes = import->used * sizeof(struct trace_record);
    if (import->used == 0)
        return true;
    bytes = (bytes + TRACE_UNIT_BYTES - 1) / TRACE_UNIT_BYTES * TRACE_UNIT_BYTES;
    import->at.chunk.bytes = (uint32_t)bytes;
    import->used = 0;
    import->file_bytes += bytes;
    return fwrite(import->at.bytes, bytes, 1, import->to) == 1;
}

static void chunk_begin(struct import *import)
{
    memset(&import->at, 0, sizeof(import->at));
    import->at.chunk = (struct trace_chunk){.magic = TRACE_CHUNK_MAGIC,
                                            .first_ns = import->latest_ns,
                                            .thread = import->thread,
                                            .tid = (int32_t)import->thread};
    import->used = 1;
}

static bool row_add(struct import *import, const struct trace_record *record)
{
    if (import->used == ROWS && !chunk_flush(import))
        return false;
    if (import->used == 0)
        chunk_begin(import);
    import->at.row[import->used++] = *record;
    return true;
}

static bool event_add(void *arg, const struct trace_event *event, uint64_t pointer)
{
    struct import *import = arg;
    bool async = event->stream != 0;
    if (event->time_ns > import->latest_ns)
        import->latest_ns = event->time_ns;
    struct trace_record mark = {
        .kind = TRACE_THREAD, .time_ns = import->latest_ns, .address = event->thread};
    mark.bytes = event->thread;
    if (event->thread != import->thread && !row_add(import, &mark))
        return false;
    import->thread = event->thread;
    struct trace_record record = {.time_ns = import->latest_ns,
                                  .address = pointer,
                                  .bytes = event->is_free ? 0 : event->bytes,
                                  .stream = async ? event->stream - 1 : TRACE_STREAM_NONE};
    if (async && record.stream == TRACE_STREAM_NONE)
        record.stream = TRACE_STREAM_LEGACY;
    if (event->is_free)
        record.kind = async ? TRACE_FREE_ASYNC : TRACE_FREE;
    else
        record.kind = async ? TRACE_ALLOC_ASYNC : TRACE_ALLOC;
    return row_add(import, &record);
}

static bool head_write(const struct import *import)
{
    union {
        struct trace_header header;
        unsigned char bytes[TRACE_UNIT_BYTES];
    } unit = {.header = {.version = TRACE_VERSION,
                         .byte_order = TRACE_BYTE_ORDER,
                         .record_bytes = sizeof(struct trace_record),
                         .unit_bytes = TRACE_UNIT_BYTES,
                         .end_bytes = import->file_bytes,
                         .ended = 1,
                         .program = "(imported)"}};
    memcpy(unit.header.magic, TRACE_MAGIC, sizeof(unit.header.magic));
    return fseek(import->to, 0, SEEK_SET) == 0 && fwrite(&unit, sizeof(unit), 1, import->to) == 1;
}

int import_rmm(const struct command *command, const char *from_path, const char *to_path)
{
    static struct import import;
    struct trace_error error = {0};
    import = (struct import){.to = command_output_open(command, to_path),
                             .file_bytes = TRACE_UNIT_BYTES};
    if (import.to == NULL)
        return COMMAND_FAILED;
    head_write(&import);
    bool read = trace_visit(from_path, event_add, &import, &error);
    if (!read && ferror(import.to))
        read = true; /* what cannot be written ended it */
    bool begun = chunk_flush(&import) && head_write(&import);
    bool whole = command_output_close(command, to_path, import.to, read) && begun;
    if (!read)
        return command_bad_input(command, from_path, error.line, error.reason);
    return whole ? COMMAND_DONE : COMMAND_FAILED;
}
