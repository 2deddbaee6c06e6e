/* info.c - what is in a trace: where it is from, whether it is whole, counts, callers. */
#include "trace_tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLERS = 65536, THREADS_MAX = 1 << 20 };

struct tally {
    uint64_t events, first_ns, last_ns;
    uint64_t of_kind[TRACE_KIND_COUNT], served[TRACE_KIND_COUNT], failed[TRACE_KIND_COUNT];
    uint64_t duration_ns[TRACE_KIND_COUNT];
    uint64_t pending;
    uint64_t asked_bytes, live_bytes, peak_bytes, peak_ns;
    uint64_t of_caller[CALLERS];
    uint64_t threads;
    unsigned char thread_seen[THREADS_MAX / 8];
    struct lives *lives;
};

static void life_change(void *arg, const struct reader_event *event, const struct life *life,
                        bool is_free, bool implied)
{
    struct tally *tally = arg;
    (void)implied;
    tally->live_bytes += is_free ? 0 - life->bytes : life->bytes;
    tally->asked_bytes += is_free ? 0 : life->bytes;
    if (tally->live_bytes > tally->peak_bytes && !is_free) {
        tally->peak_bytes = tally->live_bytes;
        tally->peak_ns = event->time_ns;
    }
}

static bool is_call(enum trace_kind kind)
{
    return kind <= TRACE_PASSED;
}

static void thread_note(struct tally *tally, uint32_t thread)
{
    uint32_t bit = thread % THREADS_MAX;
    unsigned char mask = (unsigned char)(1u << bit % 8);
    if ((tally->thread_seen[bit / 8] & mask) == 0)
        tally->threads++;
    tally->thread_seen[bit / 8] |= mask;
}

static bool tally_feed(struct tally *tally, const struct reader_event *event)
{
    enum trace_kind kind = event->kind;
    if (tally->events++ == 0)
        tally->first_ns = event->time_ns;
    if (event->time_ns > tally->last_ns)
        tally->last_ns = event->time_ns;
    tally->of_kind[kind]++;
    tally->duration_ns[kind] += event->duration_ns;
    tally->served[kind] += (event->flags & TRACE_SERVED) != 0;
    tally->pending += event->result == TRACE_PENDING;
    tally->failed[kind] += event->result != 0 && event->result != TRACE_PENDING;
    if (is_call(kind))
        tally->of_caller[event->caller]++;
    thread_note(tally, event->thread);
    return lives_feed(tally->lives, event, life_change, tally);
}

static enum tool_status tally_make(struct reader *reader, struct tally *tally)
{
    struct reader_event event;
    enum reader_status status;
    tally->lives = lives_create();
    if (tally->lives == NULL)
        return TOOL_NO_MEMORY;
    while ((status = reader_next(reader, &event)) == READER_EVENT)
        if (!tally_feed(tally, &event))
            return TOOL_NO_MEMORY;
    return status == READER_END ? TOOL_OK : TOOL_DAMAGED;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static const char *state_text(const struct trace_header *header)
{
    return header->ended ? "the process ended in order" : "the process runs still, or was killed";
}

/* --- text -------------------------------------------------------------------------------- */

static void origin_text(FILE *to, const struct reader_info *info)
{
    const struct trace_header *header = info->header;
    char when[64] = "?";
    time_t at = (time_t)(header->start_unix_ns / 1000000000);
    struct tm utc;
    if (gmtime_r(&at, &utc) != NULL)
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
    fprintf(to, "program   %s (pid %d) on %s, %s\n", header->program, header->pid, header->host,
            when);
    fprintf(to, "file      %" PRIu64 " bytes; %s\n", info->file_bytes, state_text(header));
    for (size_t i = 0; i < info->item_count; i++)
        if (info->items[i].type == TRACE_ITEM_DEVICE)
            fprintf(to, "GPU %-5u %s, %" PRIu64 " MiB\n", info->items[i].id, info->items[i].text,
                    info->items[i].value >> 20);
}

static void whole_text(FILE *to, const struct trace_header *header)
{
    if (header->stop == TRACE_WHOLE) {
        fprintf(to, "whole     yes\n");
        return;
    }
    fprintf(to, "whole     NO: %" PRIu64 " events are missing, from %.6f s on, since the file %s\n",
            header->lost_events, seconds(header->lost_from_ns),
            header->stop == TRACE_LIMIT ? "reached its limit" : "could not grow");
    if (header->stop == TRACE_ERROR)
        fprintf(to, "          (%s)\n", strerror(header->stop_errno));
}

static void kinds_text(FILE *to, const struct tally *tally)
{
    fprintf(to, "\n  %-14s %12s %12s %10s %14s\n", "event", "count", "from pool", "failed",
            "time in it");
    for (int kind = 1; kind < TRACE_KIND_COUNT; kind++) {
        if (tally->of_kind[kind] == 0)
            continue;
        fprintf(to, "  %-14s %12" PRIu64, reader_kind_name((enum trace_kind)kind),
                tally->of_kind[kind]);
        if (is_call((enum trace_kind)kind))
            fprintf(to, " %12" PRIu64, tally->served[kind]);
        else
            fprintf(to, " %12s", "");
        fprintf(to, " %10" PRIu64 " %11.3f ms\n", tally->failed[kind],
                (double)tally->duration_ns[kind] / 1e6);
    }
    if (tally->pending > 0)
        fprintf(to, "  %" PRIu64 " free%s had not returned when the trace ended\n", tally->pending,
                tally->pending == 1 ? "" : "s");
}

static void callers_text(FILE *to, const struct reader *reader, const struct tally *tally)
{
    const struct reader_info *info = reader_info(reader);
    for (size_t i = 0; i < info->item_count; i++) {
        const struct reader_item *item = &info->items[i];
        if (item->type != TRACE_ITEM_CALLER || item->id >= CALLERS ||
            tally->of_caller[item->id] == 0)
            continue;
        const struct reader_item *module = reader_item(reader, TRACE_ITEM_MODULE, item->other);
        fprintf(to, "  %12" PRIu64 " calls from %s+0x%" PRIx64 "\n", tally->of_caller[item->id],
                module != NULL ? module->text : "no known file", item->value);
    }
}

static void text_write(FILE *to, const struct reader *reader, const struct tally *tally)
{
    const struct reader_info *info = reader_info(reader);
    origin_text(to, info);
    whole_text(to, info->header);
    fprintf(to, "events    %" PRIu64 " in %.6f s, from %.6f to %.6f, of %" PRIu64 " thread%s\n",
            tally->events, seconds(tally->last_ns - tally->first_ns), seconds(tally->first_ns),
            seconds(tally->last_ns), tally->threads, tally->threads == 1 ? "" : "s");
    fprintf(to,
            "memory    %" PRIu64 " blocks, %" PRIu64 " bytes in all; at most %" PRIu64
            " bytes at a time, at %.6f s; %" PRIu64 " block%s left\n",
            lives_blocks(tally->lives), tally->asked_bytes, tally->peak_bytes,
            seconds(tally->peak_ns), lives_count(tally->lives),
            lives_count(tally->lives) == 1 ? "" : "s");
    kinds_text(to, tally);
    fputc('\n', to);
    callers_text(to, reader, tally);
}

/* --- JSON -------------------------------------------------------------------------------- */

static void kinds_json(FILE *to, const struct tally *tally)
{
    bool any = false;
    fputs(",\n \"kinds\": {", to);
    for (int kind = 1; kind < TRACE_THREAD; kind++) {
        fprintf(to,
                "%s\n  \"%s\": {\"count\": %" PRIu64 ", \"served\": %" PRIu64
                ", \"failed\": %" PRIu64 ", \"duration_ns\": %" PRIu64 "}",
                any ? "," : "", reader_kind_name((enum trace_kind)kind), tally->of_kind[kind],
                tally->served[kind], tally->failed[kind], tally->duration_ns[kind]);
        any = true;
    }
    fputs("\n }", to);
}

static void callers_json(FILE *to, const struct reader *reader, const struct tally *tally)
{
    const struct reader_info *info = reader_info(reader);
    bool any = false;
    fputs(",\n \"callers\": [", to);
    for (size_t i = 0; i < info->item_count; i++) {
        const struct reader_item *item = &info->items[i];
        if (item->type != TRACE_ITEM_CALLER || item->id >= CALLERS)
            continue;
        const struct reader_item *module = reader_item(reader, TRACE_ITEM_MODULE, item->other);
        fprintf(to, "%s\n  {\"module\": ", any ? "," : "");
        json_text(to, module != NULL ? module->text : "");
        fprintf(to, ", \"offset\": %" PRIu64 ", \"calls\": %" PRIu64 "}", item->value,
                tally->of_caller[item->id]);
        any = true;
    }
    fputs("\n ]", to);
}

static void settings_json(FILE *to, const struct reader_info *info)
{
    bool any = false;
    fputs(",\n \"settings\": [", to);
    for (size_t i = 0; i < info->item_count; i++) {
        if (info->items[i].type != TRACE_ITEM_SETTING)
            continue;
        fputs(any ? ", " : "", to);
        json_text(to, info->items[i].text);
        any = true;
    }
    fputs("]", to);
}

static void json_write(FILE *to, const struct reader *reader, const struct tally *tally)
{
    const struct trace_header *header = reader_info(reader)->header;
    fputs("{\"program\": ", to);
    json_text(to, header->program);
    fputs(", \"host\": ", to);
    json_text(to, header->host);
    fprintf(to,
            ", \"pid\": %d, \"ended\": %s,\n \"whole\": %s, \"lost_events\": %" PRIu64
            ", \"lost_from_ns\": %" PRIu64 ",\n",
            header->pid, header->ended ? "true" : "false",
            header->stop == TRACE_WHOLE ? "true" : "false", header->lost_events,
            header->lost_from_ns);
    fprintf(to,
            " \"file_bytes\": %" PRIu64 ", \"events\": %" PRIu64 ", \"threads\": %" PRIu64
            ", \"first_ns\": %" PRIu64 ", \"last_ns\": %" PRIu64 ", \"pending\": %" PRIu64 ",\n",
            reader_info(reader)->file_bytes, tally->events, tally->threads, tally->first_ns,
            tally->last_ns, tally->pending);
    fprintf(to,
            " \"blocks\": %" PRIu64 ", \"asked_bytes\": %" PRIu64 ", \"peak_live_bytes\": %" PRIu64
            ", \"peak_ns\": %" PRIu64 ", \"left_blocks\": %" PRIu64 ", \"left_bytes\": %" PRIu64
            ", \"unknown_frees\": %" PRIu64,
            lives_blocks(tally->lives), tally->asked_bytes, tally->peak_bytes, tally->peak_ns,
            lives_count(tally->lives), tally->live_bytes, lives_unknown(tally->lives));
    kinds_json(to, tally);
    callers_json(to, reader, tally);
    settings_json(to, reader_info(reader));
    fputs("\n}\n", to);
}

enum tool_status info_write(struct reader *reader, FILE *to, bool json)
{
    struct tally *tally = calloc(1, sizeof(*tally));
    if (tally == NULL)
        return TOOL_NO_MEMORY;
    enum tool_status status = tally_make(reader, tally);
    if (status == TOOL_OK && json)
        json_write(to, reader, tally);
    else if (status == TOOL_OK)
        text_write(to, reader, tally);
    if (tally->lives != NULL)
        lives_destroy(tally->lives);
    free(tally);
    return status;
}
