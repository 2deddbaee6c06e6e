/* model_json.c - a model as JSON. See model_json.h. */
#include "model_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/json_text.h"

enum { CALLERS = 65536, CALLERS_SHOWN = 1000, NOT_SHOWN = UINT16_MAX };

struct writer {
    FILE *to;
    const struct model *model;
    bool first;         /* the next member or element is its object's first */
    uint16_t *shown;    /* from a caller's number to its place in "callers" */
    uint16_t *by_bytes; /* the other way round */
    size_t shown_count;
};

/* --- members -----------------------------------------------------------------------------------
 */

static void comma(struct writer *writer)
{
    if (!writer->first)
        putc(',', writer->to);
    writer->first = false;
}

static void name_write(struct writer *writer, const char *name)
{
    comma(writer);
    fprintf(writer->to, "\"%s\":", name);
}

/* name: NULL for an element of an array. */
static void begin(struct writer *writer, const char *name, char bracket)
{
    if (name != NULL)
        name_write(writer, name);
    else
        comma(writer);
    putc(bracket, writer->to);
    writer->first = true;
}

static void end(struct writer *writer, char bracket)
{
    putc(bracket, writer->to);
    writer->first = false;
}

static void number(struct writer *writer, const char *name, uint64_t value)
{
    name_write(writer, name);
    fprintf(writer->to, "%" PRIu64, value);
}

static void known_number(struct writer *writer, const char *name, bool known, uint64_t value)
{
    if (known) {
        number(writer, name, value);
    } else {
        name_write(writer, name);
        fputs("null", writer->to);
    }
}

static void element(struct writer *writer, uint64_t value)
{
    comma(writer);
    fprintf(writer->to, "%" PRIu64, value);
}

static void boolean(struct writer *writer, const char *name, bool value)
{
    name_write(writer, name);
    fputs(value ? "true" : "false", writer->to);
}

static void text(struct writer *writer, const char *name, const char *value)
{
    name_write(writer, name);
    if (value != NULL)
        json_text(writer->to, value);
    else
        fputs("null", writer->to);
}

/* --- parts -------------------------------------------------------------------------------------
 */

static void run_write(struct writer *writer, const char *trace_name)
{
    const struct source_info *info = source_info(writer->model->source);
    number(writer, "view", 1);
    text(writer, "trace", trace_name);
    text(writer, "form", info->form);
    text(writer, "program", info->program);
    text(writer, "host", info->host);
    known_number(writer, "pid", info->pid != 0, (uint64_t)info->pid);
    known_number(writer, "start_unix_ns", info->start_unix_ns != 0, info->start_unix_ns);
    boolean(writer, "ended", info->ended);
    number(writer, "lost_events", info->lost_events);
    known_number(writer, "cut_ns", info->cut, info->cut_ns);
    text(writer, "axis", writer->model->by_call ? "call" : "time");
    boolean(writer, "knows_held", !writer->model->by_address);
    boolean(writer, "knows_callers", info->knows_callers);
    begin(writer, "settings", '[');
    for (size_t i = 0; i < info->setting_count; i++) {
        comma(writer);
        json_text(writer->to, info->setting[i]);
    }
    end(writer, ']');
    begin(writer, "devices", '[');
    for (unsigned i = 0; i < SOURCE_DEVICES; i++) {
        if (!info->device[i].known)
            continue;
        begin(writer, NULL, '{');
        number(writer, "number", i);
        number(writer, "bytes", info->device[i].bytes);
        text(writer, "name", info->device[i].name);
        end(writer, '}');
    }
    end(writer, ']');
}

static void totals_write(struct writer *writer)
{
    const struct model *model = writer->model;
    bool held = !model->by_address, timed = source_info(model->source)->knows_callers;
    begin(writer, "totals", '{');
    number(writer, "events", model->events);
    number(writer, "allocations", model->allocs);
    number(writer, "frees", model->frees);
    number(writer, "allocated_bytes", model->alloc_bytes);
    known_number(writer, "out_of_memory", timed, model->failures);
    number(writer, "foreign_frees", model->foreign_frees);
    number(writer, "missing_frees", model->overlaps);
    known_number(writer, "grows", timed, model->grows);
    known_number(writer, "shrinks", timed, model->shrinks);
    known_number(writer, "waits", timed, model->waits);
    known_number(writer, "wait_ns", timed, model->wait_ns);
    known_number(writer, "call_ns", timed, model->call_ns);
    known_number(writer, "passed", timed, model->passed);
    known_number(writer, "passed_bytes", timed, model->passed_bytes);
    number(writer, "duration_ns", model->end_ns);
    number(writer, "end_position", model->end_position);
    number(writer, "peak_live_bytes", model->peak_live_bytes);
    number(writer, "peak_live_ns", model->peak_ns);
    number(writer, "peak_live_blocks", model->peak_live_count);
    number(writer, "peak_blocks_bytes", model->peak_blocks_bytes);
    known_number(writer, "peak_held_bytes", held, model->peak_held_bytes);
    known_number(writer, "peak_held_ns", held, model->peak_held_ns);
    number(writer, "peak_footprint_bytes", model->peak_footprint_bytes);
    number(writer, "peak_footprint_ns", model->peak_footprint_ns);
    known_number(writer, "peak_forwarded_bytes", held, model->forwarded_peak_bytes);
    number(writer, "end_live_bytes", model->end_live_bytes);
    number(writer, "end_live_blocks", model->end_live_count);
    end(writer, '}');
}

#define COLUMN(writer, name, count, expression)                                                    \
    do {                                                                                           \
        begin(writer, name, '[');                                                                  \
        for (size_t i = 0; i < (count); i++)                                                       \
            element(writer, expression);                                                           \
        end(writer, ']');                                                                          \
    } while (0)

static void series_write(struct writer *writer)
{
    const struct model *model = writer->model;
    const struct bucket *bucket = model->bucket;
    begin(writer, "series", '{');
    COLUMN(writer, "position", MODEL_BUCKETS, bucket[i].position);
#define X(name)                                                                                    \
    if (!model->by_address || strcmp(#name, "held") != 0) {                                        \
        COLUMN(writer, #name "_max", MODEL_BUCKETS, bucket[i].name##_max);                         \
        COLUMN(writer, #name "_min", MODEL_BUCKETS, bucket[i].name##_min);                         \
    }
    MODEL_CURVES(X)
#undef X
    if (!model->by_address) {
        COLUMN(writer, "free", MODEL_BUCKETS, bucket[i].free.bytes);
        COLUMN(writer, "largest_free", MODEL_BUCKETS, bucket[i].free.largest);
    }
    COLUMN(writer, "allocations", MODEL_BUCKETS, bucket[i].allocs);
    COLUMN(writer, "frees", MODEL_BUCKETS, bucket[i].frees);
    end(writer, '}');
}

static void moment_write(struct writer *writer, const struct map_moment *moment)
{
    static const char *const whys[] = {"regular", "peak", "out of memory", "end"};
    bool held = !writer->model->by_address;
    begin(writer, NULL, '{');
    text(writer, "why", whys[moment->why]);
    number(writer, "time_ns", moment->time_ns);
    number(writer, "position", moment->position);
    number(writer, "live_bytes", moment->live_bytes);
    number(writer, "live_blocks", moment->live_count);
    number(writer, "blocks_bytes", moment->blocks_bytes);
    known_number(writer, "held_bytes", held, moment->held_bytes);
    number(writer, "footprint_bytes", moment->footprint_bytes);
    known_number(writer, "free_bytes", held, moment->free.bytes);
    known_number(writer, "largest_free_bytes", held, moment->free.largest);
    known_number(writer, "free_runs", held, moment->free.runs);
    text(writer, "cells", writer->model->map.cells + moment->cells_at);
    end(writer, '}');
}

static uint16_t last_of(const struct map *map, const struct map_item *item)
{
    return item->last == MAP_OPEN ? map->moment_count : item->last;
}

/* Segments are named by their address as text, since a JSON reader's numbers may be too short. */
static void segments_write(struct writer *writer, uint64_t base)
{
    const struct map *map = &writer->model->map;
    const struct map_item *item = map->segment;
    begin(writer, "segments", '{');
    begin(writer, "address", '[');
    for (size_t i = 0; i < map->segment_count; i++) {
        comma(writer);
        fprintf(writer->to, "\"0x%" PRIx64 "\"", item[i].address);
    }
    end(writer, ']');
    COLUMN(writer, "offset", map->segment_count, item[i].address - base);
    COLUMN(writer, "bytes", map->segment_count, item[i].bytes);
    COLUMN(writer, "device", map->segment_count, item[i].device);
    COLUMN(writer, "first", map->segment_count, item[i].first);
    COLUMN(writer, "last", map->segment_count, last_of(map, &item[i]));
    end(writer, '}');
}

static void blocks_write(struct writer *writer, uint64_t base)
{
    const struct map *map = &writer->model->map;
    const struct map_item *item = map->block;
    begin(writer, "blocks", '{');
    COLUMN(writer, "offset", map->block_count, item[i].address - base);
    COLUMN(writer, "bytes", map->block_count, item[i].bytes);
    COLUMN(writer, "born_us", map->block_count, item[i].born_ns / 1000);
    COLUMN(writer, "thread", map->block_count, item[i].thread);
    begin(writer, "caller", '[');
    for (size_t i = 0; i < map->block_count; i++) {
        uint16_t shown = writer->shown[item[i].caller];
        comma(writer);
        if (shown == NOT_SHOWN)
            fputs("null", writer->to);
        else
            fprintf(writer->to, "%u", shown);
    }
    end(writer, ']');
    COLUMN(writer, "first", map->block_count, item[i].first);
    COLUMN(writer, "last", map->block_count, last_of(map, &item[i]));
    end(writer, '}');
}

static void map_write(struct writer *writer)
{
    const struct map *map = &writer->model->map;
    uint64_t base = UINT64_MAX;
    for (size_t i = 0; i < map->segment_count; i++)
        base = map->segment[i].address < base ? map->segment[i].address : base;
    for (size_t i = 0; i < map->block_count; i++)
        base = map->block[i].address < base ? map->block[i].address : base;
    begin(writer, "map", '{');
    text(writer, "by", writer->model->by_address ? "address" : "segment");
    number(writer, "cell_bytes", map->cell_bytes);
    number(writer, "least_block_bytes", map->least_bytes);
    number(writer, "segments_left_out", map->segments_left_out);
    number(writer, "blocks_left_out", writer->model->out_of_ranges);
    begin(writer, "moments", '[');
    for (size_t i = 0; i < map->moment_count; i++)
        moment_write(writer, &map->moment[i]);
    end(writer, ']');
    segments_write(writer, base);
    blocks_write(writer, base);
    end(writer, '}');
}

/* --- callers and sizes -------------------------------------------------------------------------
 */

static const struct caller_figures *sorted_by; /* qsort has no argument to hand it on */

static int by_bytes(const void *left, const void *right)
{
    uint16_t a = *(const uint16_t *)left, b = *(const uint16_t *)right;
    if (sorted_by[a].bytes != sorted_by[b].bytes)
        return sorted_by[a].bytes > sorted_by[b].bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool callers_choose(struct writer *writer)
{
    const struct caller_figures *figures = writer->model->caller;
    writer->shown = malloc(CALLERS * sizeof(*writer->shown));
    writer->by_bytes = malloc(CALLERS * sizeof(*writer->by_bytes));
    if (writer->shown == NULL || writer->by_bytes == NULL)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < CALLERS; i++) {
        writer->shown[i] = NOT_SHOWN;
        if (figures[i].calls > 0)
            writer->by_bytes[count++] = (uint16_t)i;
    }
    sorted_by = figures;
    qsort(writer->by_bytes, count, sizeof(*writer->by_bytes), by_bytes);
    writer->shown_count = count < CALLERS_SHOWN ? count : CALLERS_SHOWN;
    for (size_t i = 0; i < writer->shown_count; i++)
        writer->shown[writer->by_bytes[i]] = (uint16_t)i;
    return true;
}

static void caller_members(struct writer *writer, uint16_t caller)
{
    struct source_place place = source_caller(writer->model->source, caller);
    text(writer, "module", place.module);
    text(writer, "place", place.place);
}

static void figures_members(struct writer *writer, const struct caller_figures *figures)
{
    number(writer, "calls", figures->calls);
    number(writer, "bytes", figures->bytes);
    number(writer, "peak_bytes", figures->peak_bytes);
    number(writer, "end_bytes", figures->end_bytes);
}

static void callers_write(struct writer *writer)
{
    const struct caller_figures *figures = writer->model->caller;
    struct caller_figures others = {0};
    begin(writer, "callers", '[');
    for (size_t i = 0; i < writer->shown_count; i++) {
        begin(writer, NULL, '{');
        caller_members(writer, writer->by_bytes[i]);
        figures_members(writer, &figures[writer->by_bytes[i]]);
        end(writer, '}');
    }
    end(writer, ']');
    for (size_t i = 0; i < CALLERS; i++) {
        if (writer->shown[i] != NOT_SHOWN)
            continue;
        others.calls += figures[i].calls;
        others.bytes += figures[i].bytes;
        others.peak_bytes += figures[i].peak_bytes;
        others.end_bytes += figures[i].end_bytes;
    }
    begin(writer, "other_callers", '{');
    figures_members(writer, &others);
    end(writer, '}');
}

static void sizes_write(struct writer *writer)
{
    begin(writer, "sizes", '[');
    for (unsigned i = 0; i < MODEL_SIZES; i++) {
        const struct size_figures *size = &writer->model->size[i];
        if (size->allocs == 0)
            continue;
        begin(writer, NULL, '{');
        number(writer, "from_bytes", (uint64_t)1 << i);
        number(writer, "allocations", size->allocs);
        number(writer, "bytes", size->bytes);
        number(writer, "live_at_peak", size->at_peak);
        end(writer, '}');
    }
    end(writer, ']');
}

static void holders_write(struct writer *writer, const char *name, const struct holders *holders)
{
    begin(writer, name, '{');
    number(writer, "groups", holders->groups);
    begin(writer, "largest", '[');
    for (size_t i = 0; i < holders->count; i++) {
        const struct holder *holder = &holders->of[i];
        begin(writer, NULL, '{');
        caller_members(writer, holder->caller);
        number(writer, "block_bytes", holder->bytes);
        number(writer, "blocks", holder->count);
        number(writer, "total_bytes", holder->bytes * holder->count);
        number(writer, "oldest_ns", holder->oldest_ns);
        end(writer, '}');
    }
    end(writer, ']');
    end(writer, '}');
}

/* --- failures ----------------------------------------------------------------------------------
 */

struct amount {
    char text[32];
};

static struct amount amount(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    struct amount amount;
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    snprintf(amount.text, sizeof(amount.text), unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s",
             value, units[unit]);
    return amount;
}

enum cause { CAUSE_FRAGMENTATION, CAUSE_SIZE, CAUSE_OTHERS, CAUSE_UNKNOWN };

static enum cause failure_cause(const struct model *model, const struct failure *failure)
{
    bool room = !model->by_address && failure->free.bytes >= failure->bytes;
    if (room && failure->free.largest < failure->bytes)
        return CAUSE_FRAGMENTATION;
    if (failure->card_bytes == 0)
        return CAUSE_UNKNOWN;
    if (failure->bytes > failure->card_bytes ||
        failure->footprint_bytes > failure->card_bytes - failure->bytes)
        return CAUSE_SIZE;
    return CAUSE_OTHERS;
}

static void failure_explain(const struct failure *failure, enum cause cause, char *to, size_t room)
{
    struct amount asked = amount(failure->bytes), card = amount(failure->card_bytes);
    struct amount needed = amount(failure->footprint_bytes), held = amount(failure->held_bytes);
    struct amount idle = amount(failure->free.bytes), run = amount(failure->free.largest);
    if (cause == CAUSE_FRAGMENTATION)
        snprintf(to, room,
                 "%s were asked for. The pool had %s free, but in %" PRIu64
                 " runs of which the longest was %s: fragmentation.",
                 asked.text, idle.text, failure->free.runs, run.text);
    else if (cause == CAUSE_SIZE)
        snprintf(to, room,
                 "%s were asked for. What was live needs %s of the card even as the driver packs "
                 "it, and the card has %s: the program asks for more than there is.",
                 asked.text, needed.text, card.text);
    else if (cause == CAUSE_OTHERS)
        snprintf(to, room,
                 "%s were asked for. What was live needs %s as the driver packs it, of a card of "
                 "%s, and the pool held %s: the rest was the context's, other processes', or a "
                 "limit.",
                 asked.text, needed.text, card.text, held.text);
    else
        snprintf(to, room, "%s were asked for. The trace does not say how large the card is.",
                 asked.text);
}

static void failure_write(struct writer *writer, const struct failure *failure)
{
    static const char *const causes[] = {"fragmentation", "size", "others", "unknown"};
    enum cause cause = failure_cause(writer->model, failure);
    bool held = !writer->model->by_address;
    char why[512];
    failure_explain(failure, cause, why, sizeof(why));
    begin(writer, NULL, '{');
    number(writer, "time_ns", failure->time_ns);
    number(writer, "position", failure->position);
    number(writer, "bytes", failure->bytes);
    number(writer, "thread", failure->thread);
    number(writer, "device", failure->device);
    caller_members(writer, failure->caller);
    number(writer, "live_bytes", failure->live_bytes);
    number(writer, "blocks_bytes", failure->blocks_bytes);
    known_number(writer, "held_bytes", held, failure->held_bytes);
    number(writer, "footprint_bytes", failure->footprint_bytes);
    known_number(writer, "free_bytes", held, failure->free.bytes);
    known_number(writer, "largest_free_bytes", held, failure->free.largest);
    known_number(writer, "card_bytes", failure->card_bytes != 0, failure->card_bytes);
    text(writer, "cause", causes[cause]);
    text(writer, "explanation", why);
    end(writer, '}');
}

static void failures_write(struct writer *writer)
{
    const struct model *model = writer->model;
    begin(writer, "failures", '[');
    for (size_t i = 0; i < MODEL_FAILURES && i < model->failures; i++)
        failure_write(writer, &model->failure[i]);
    end(writer, ']');
}

bool model_json_write(const struct model *model, const char *trace_name, FILE *to)
{
    struct writer writer = {.to = to, .model = model, .first = true};
    bool chosen = callers_choose(&writer);
    if (chosen) {
        begin(&writer, NULL, '{');
        run_write(&writer, trace_name);
        totals_write(&writer);
        series_write(&writer);
        map_write(&writer);
        callers_write(&writer);
        sizes_write(&writer);
        holders_write(&writer, "holders_at_peak", &model->peak_holders);
        holders_write(&writer, "holders_at_end", &model->end_holders);
        failures_write(&writer);
        end(&writer, '}');
        putc('\n', to);
    }
    free(writer.shown);
    free(writer.by_bytes);
    return chosen;
}
