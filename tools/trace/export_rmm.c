/* export_rmm.c - the form that RMM's replay benchmark reads:
 * Thread,Time,Action,Pointer,Size,Stream.
 *
 * Time is nanoseconds since the trace began; Stream is "-" for cudaMalloc and cudaFree, else the
 * stream's handle; frees carry their block's size. A failed allocation becomes RMM's "allocate
 * failure". A block that ends with its context is freed there.
 *
 * What it leaves out, since the form has no place for it: devices, callers, the pool's events,
 * frees of what was not allocated.
 */
#include "trace_tool.h"

#include <inttypes.h>

static void line_write(FILE *to, const struct reader_event *event, const char *action,
                       uint64_t address, uint64_t bytes)
{
    fprintf(to, "%u,%" PRIu64 ",%s,", event->thread, event->time_ns, action);
    if (address != 0)
        fprintf(to, "0x%" PRIx64, address);
    else
        fputs("(nil)", to);
    fprintf(to, ",%" PRIu64, bytes);
    if (event->stream == TRACE_STREAM_NONE)
        fputs(",-\n", to);
    else
        fprintf(to, ",0x%" PRIx64 "\n", event->stream);
}

static void life_write(void *arg, const struct reader_event *event, const struct life *life,
                       bool is_free, bool implied)
{
    struct reader_event at = *event;
    if (implied)
        at.stream = life->stream;
    line_write(arg, &at, is_free ? "free" : "allocate", life->address, life->bytes);
}

static bool is_failure(const struct reader_event *event)
{
    return event->result != 0 && (event->kind == TRACE_ALLOC || event->kind == TRACE_ALLOC_PITCH ||
                                  event->kind == TRACE_ALLOC_ASYNC);
}

enum tool_status export_rmm(struct reader *reader, FILE *to)
{
    struct reader_event event;
    enum reader_status status;
    struct lives *lives = lives_create();
    bool ok = lives != NULL;
    fputs("Thread,Time,Action,Pointer,Size,Stream\n", to);
    while (ok && (status = reader_next(reader, &event)) == READER_EVENT) {
        if (is_failure(&event))
            line_write(to, &event, "allocate failure", 0, event.bytes);
        else
            ok = lives_feed(lives, &event, life_write, to);
    }
    if (lives != NULL)
        lives_destroy(lives);
    if (!ok)
        return TOOL_NO_MEMORY;
    return status == READER_END ? TOOL_OK : TOOL_DAMAGED;
}
