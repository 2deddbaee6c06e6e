/* read.c - see read.h. The parser is jansson's; figures are found by the names in
 * pool/stats.def and shim/counters.def. */
#define _GNU_SOURCE
#include "read.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../shim/rank.h"
#include "../../shim/text.h"

#define SCHEMA        "vramalloc-report/2"
#define SCHEMA_FAMILY "vramalloc-report/"
#define START_NS      ((uint64_t)1000000000) /* any moment: those in the file are relative to it */
#define SECONDS_MAX   1e9

enum { FILE_BYTES_MAX = 64 << 20, GPUS_MAX = 1024, WHY_BYTES = 200 };

/* A reader: the first thing that is wrong ends it. */
struct reader {
    bool wrong;
    char why[WHY_BYTES];
};

static void wrong(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void wrong(struct reader *reader, const char *format, ...)
{
    va_list arguments;
    if (reader->wrong)
        return;
    reader->wrong = true;
    va_start(arguments, format);
    vsnprintf(reader->why, sizeof(reader->why), format, arguments);
    va_end(arguments);
}

/* --- members --------------------------------------------------------------------------------- */

static uint64_t integer(struct reader *reader, const json_t *object, const char *name, uint64_t max)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL)
        return 0;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max) {
        wrong(reader, "\"%s\" is no whole number from 0 to %llu", name, (unsigned long long)max);
        return 0;
    }
    return (uint64_t)number;
}

static uint64_t figure(struct reader *reader, const json_t *object, const char *name)
{
    return integer(reader, object, name, INT64_MAX);
}

static double seconds(struct reader *reader, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    double number = json_number_value(value);
    if (value != NULL && (!json_is_number(value) || !(number >= 0 && number <= SECONDS_MAX)))
        wrong(reader, "\"%s\" is no time in seconds", name);
    return reader->wrong ? 0 : number;
}

/* The moment so many seconds after the first CUDA call; 0: not known. */
static uint64_t moment(struct reader *reader, const json_t *object, const char *name)
{
    double at = seconds(reader, object, name);
    return json_object_get(object, name) == NULL ? 0 : START_NS + (uint64_t)(at * 1e9 + 0.5);
}

/* Control characters, and bytes that are no text, become visible. */
static void text(struct reader *reader, const json_t *object, const char *name, char *out,
                 size_t bytes)
{
    const json_t *value = json_object_get(object, name);
    out[0] = '\0';
    if (value != NULL && !json_is_string(value))
        wrong(reader, "\"%s\" is no text", name);
    else if (value != NULL)
        text_visible(json_string_value(value), out, bytes);
}

static const json_t *member(struct reader *reader, const json_t *object, const char *name,
                            json_type type)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL || json_typeof(value) != type) {
        wrong(reader, "it has no \"%s\" of a report", name);
        return NULL;
    }
    return value;
}

/* The elements of a list that may be missing. */
static size_t list(struct reader *reader, const json_t *object, const char *name, size_t max,
                   const json_t **list_out)
{
    *list_out = json_object_get(object, name);
    if (*list_out == NULL)
        return 0;
    if (!json_is_array(*list_out) || json_array_size(*list_out) > max) {
        wrong(reader, "\"%s\" is no list of up to %zu", name, max);
        return 0;
    }
    return json_array_size(*list_out);
}

/* --- a GPU ----------------------------------------------------------------------------------- */

static void buckets_read(struct reader *reader, const json_t *object, struct histogram *sampled,
                         struct histogram *all)
{
    const json_t *rows;
    size_t count = list(reader, object, "buckets", HISTOGRAM_BUCKETS, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        int bucket = histogram_bucket(figure(reader, row, "from_ns"));
        if (sampled != NULL)
            sampled->weight[bucket] += figure(reader, row, "sampled");
        all->weight[bucket] += figure(reader, row, "always_timed");
    }
}

static void kind_read(struct reader *reader, const json_t *latency, const char *name,
                      struct histogram *sampled, struct histogram *all)
{
    const json_t *object = json_object_get(latency, name);
    uint64_t timed = figure(reader, object, "timed");
    all->count = figure(reader, object, "always_timed");
    if (all->count > timed)
        wrong(reader, "more %s are always timed than are timed", name);
    sampled->count = timed - all->count;
    sampled->max_ns = all->max_ns = figure(reader, object, "max_ns");
    buckets_read(reader, object, sampled, all);
}

static void latency_read(struct reader *reader, const json_t *gpu, struct latency *latency)
{
    const json_t *object = json_object_get(gpu, "latency");
    const json_t *growth = json_object_get(object, "growth");
    kind_read(reader, object, "allocations", &latency->sampled[LATENCY_ALLOC],
              &latency->slow[LATENCY_ALLOC]);
    kind_read(reader, object, "frees", &latency->sampled[LATENCY_FREE],
              &latency->slow[LATENCY_FREE]);
    latency->growth.count = figure(reader, growth, "calls");
    latency->growth.sum_ns = figure(reader, growth, "total_ns");
    latency->growth.max_ns = figure(reader, growth, "max_ns");
    buckets_read(reader, growth, NULL, &latency->growth);
}

static void worst_read(struct reader *reader, const json_t *gpu, struct pool_worst *worst)
{
    const json_t *object = json_object_get(gpu, "worst_fragmentation");
    worst->at_ns = moment(reader, object, "seconds");
    worst->asked_bytes = figure(reader, object, "asked_bytes");
    worst->free_bytes = figure(reader, object, "run_free_bytes");
    worst->largest_bytes = figure(reader, object, "largest_free_run_bytes");
    worst->pinned_segments = figure(reader, object, "pinned_segments");
    worst->pin_size_bytes = figure(reader, object, "pin_size_bytes");
    worst->pin_blocks = figure(reader, object, "pin_blocks");
    worst->pin_bytes = figure(reader, object, "pin_bytes");
    if (worst->largest_bytes > worst->free_bytes)
        wrong(reader, "a free run is longer than all of them");
}

/* Means become sums over the run again; half a byte more than the mean, which was cut. */
static void history_read(struct reader *reader, const json_t *gpu, const struct report *report,
                         struct pool_history *history)
{
    const json_t *object = json_object_get(gpu, "history");
    double run_ns = report->seconds > 0 ? report->seconds * 1e9 : 1;
    uint64_t live_bytes = figure(reader, object, "mean_live_block_bytes");
    uint64_t held_bytes = figure(reader, object, "mean_backed_bytes");
    history->first_ns = START_NS;
    history->last_ns = START_NS + (uint64_t)run_ns;
    history->live_byte_ns = live_bytes > 0 ? ((double)live_bytes + 0.5) * run_ns : 0;
    history->held_byte_ns = held_bytes > 0 ? ((double)held_bytes + 0.5) * run_ns : 0;
    history->peak_live_ns = moment(reader, object, "peak_live_block_seconds");
    history->peak_backed_ns = moment(reader, object, "peak_backed_seconds");
    worst_read(reader, gpu, &history->worst);
}

static void classes_read(struct reader *reader, const json_t *gpu, struct pool_stats *pool)
{
    const json_t *rows;
    size_t count = list(reader, gpu, "slab_classes", POOL_STATS_CLASSES_MAX, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        struct pool_class_stats *c = &pool->classes[i];
        c->slot_bytes = integer(reader, row, "slot_bytes", UINT32_MAX);
        c->slabs = integer(reader, row, "slabs", UINT32_MAX);
        c->slots_total = integer(reader, row, "slots_total", UINT32_MAX);
        c->slots_live = integer(reader, row, "slots_live", c->slots_total);
        c->slots_limbo = integer(reader, row, "slots_limbo", c->slots_total);
        c->requested_bytes =
            integer(reader, row, "requested_bytes", c->slots_total * c->slot_bytes);
        c->allocations = figure(reader, row, "allocations");
    }
}

static void orders_read(struct reader *reader, const json_t *gpu, struct pool_stats *pool)
{
    const json_t *rows;
    size_t count = list(reader, gpu, "free_runs_by_order", POOL_STATS_ORDERS, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        uint64_t order = integer(reader, row, "order", POOL_STATS_ORDERS - 1);
        pool->free_runs_by_order[order] = figure(reader, row, "runs");
        pool->free_bytes_by_order[order] = figure(reader, row, "bytes");
    }
}

static void refused_read(struct reader *reader, const json_t *gpu, struct report_device *device)
{
    const json_t *rows;
    device->refused_count = list(reader, gpu, "invalid_frees", REFUSED_FREES_MAX, &rows);
    for (size_t i = 0; i < device->refused_count; i++) {
        const json_t *row = json_array_get(rows, i);
        device->refused_frees[i].address = figure(reader, row, "address");
        device->refused_frees[i].block_address = figure(reader, row, "block_address");
        device->refused_frees[i].block_bytes = figure(reader, row, "block_bytes");
    }
}

static void figures_read(struct reader *reader, const json_t *gpu, struct report_device *device)
{
    const json_t *calls = member(reader, gpu, "calls", JSON_OBJECT);
    const json_t *pool = member(reader, gpu, "pool", JSON_OBJECT);
#define COUNTER(name, unit, meaning) device->counters.name = figure(reader, calls, #name);
#include "../../shim/counters.def"
#undef COUNTER
#define STAT(name, unit, kind, meaning) device->pool.name = figure(reader, pool, #name);
#include "../../pool/stats.def"
#undef STAT
    if (device->pool.largest_free_run_bytes > device->pool.run_free_bytes)
        wrong(reader, "a free run is longer than all of them");
}

static void device_read(struct reader *reader, const json_t *gpu, const struct report *report,
                        struct report_device *device)
{
    device->ordinal = (int)integer(reader, gpu, "ordinal", INT_MAX);
    text(reader, gpu, "name", device->name, sizeof(device->name));
    device->total_bytes = figure(reader, gpu, "total_bytes");
    device->contexts = figure(reader, gpu, "contexts");
    device->peers = integer(reader, gpu, "peers", 1) != 0;
    figures_read(reader, gpu, device);
    latency_read(reader, gpu, &device->latency);
    history_read(reader, gpu, report, &device->history);
    classes_read(reader, gpu, &device->pool);
    orders_read(reader, gpu, &device->pool);
    refused_read(reader, gpu, device);
}

/* --- a report -------------------------------------------------------------------------------- */

static bool schema_check(struct reader *reader, const json_t *root)
{
    const json_t *schema = json_object_get(root, "schema");
    const char *name = json_is_string(schema) ? json_string_value(schema) : "";
    char shown[READ_TEXT_BYTES];
    if (strcmp(name, SCHEMA) == 0)
        return true;
    text_visible(name, shown, sizeof(shown));
    if (strncmp(name, SCHEMA_FAMILY, strlen(SCHEMA_FAMILY)) == 0)
        wrong(reader, "a report of another version (%s; this command reads %s)", shown, SCHEMA);
    else
        wrong(reader, "this is no report of vramalloc");
    return false;
}

static int rank_read(struct reader *reader, const json_t *root, const char *name)
{
    return json_object_get(root, name) == NULL ? RANK_UNKNOWN
                                               : (int)integer(reader, root, name, INT_MAX);
}

static int64_t time_read(struct reader *reader, const json_t *root)
{
    char written[READ_TEXT_BYTES];
    struct tm tm = {0};
    text(reader, root, "time", written, sizeof(written));
    const char *end = written[0] != '\0' ? strptime(written, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;
    if (written[0] != '\0' && (end == NULL || *end != '\0'))
        wrong(reader, "\"time\" is no time");
    return end != NULL && timegm(&tm) > 0 ? timegm(&tm) : 0;
}

static void settings_read(struct reader *reader, const json_t *root, struct loaded *loaded)
{
    char leaks[READ_TEXT_BYTES];
    const json_t *settings = json_object_get(root, "settings");
    text(reader, settings, "free", loaded->free_mode, sizeof(loaded->free_mode));
    text(reader, settings, "backing", loaded->backing, sizeof(loaded->backing));
    text(reader, settings, "leaks", leaks, sizeof(leaks));
    loaded->report.slack = (uint32_t)integer(reader, settings, "slack", UINT32_MAX);
    loaded->report.count_leaks = strcmp(leaks, "off") != 0;
}

static void head_read(struct reader *reader, const json_t *root, struct loaded *loaded)
{
    struct report *report = &loaded->report;
    text(reader, root, "program", report->program, sizeof(report->program));
    report->pid = (int)integer(reader, root, "pid", INT_MAX);
    report->seconds = seconds(reader, root, "seconds");
    report->start_ns = START_NS;
    report->number = json_object_get(root, "number") != NULL ? figure(reader, root, "number") : 1;
    text(reader, root, "reason", loaded->reason, sizeof(loaded->reason));
    report->at_exit = loaded->reason[0] == '\0' || strcmp(loaded->reason, "exit") == 0;
    report->time = time_read(reader, root);
    text(reader, root, "host", loaded->host, sizeof(loaded->host));
    loaded->rank = rank_read(reader, root, "rank");
    loaded->ranks = rank_read(reader, root, "ranks");
    settings_read(reader, root, loaded);
}

static void root_read(struct reader *reader, const json_t *root, struct loaded *loaded)
{
    if (!schema_check(reader, root))
        return;
    head_read(reader, root, loaded);
    const json_t *gpus = member(reader, root, "gpus", JSON_ARRAY);
    size_t count = json_array_size(gpus);
    if (count == 0 || count > GPUS_MAX)
        wrong(reader, "it has %zu GPUs", count);
    if (reader->wrong)
        return;
    loaded->devices = calloc(count, sizeof(*loaded->devices));
    if (loaded->devices == NULL) {
        wrong(reader, "no memory");
        return;
    }
    for (size_t i = 0; i < count; i++)
        device_read(reader, json_array_get(gpus, i), &loaded->report, &loaded->devices[i]);
    loaded->report.devices = loaded->devices;
    loaded->report.device_count = count;
}

void report_settle(struct loaded *loaded)
{
    loaded->report.free_mode = loaded->free_mode;
    loaded->report.backing = loaded->backing;
    loaded->report.reason = loaded->reason;
}

void report_free(struct loaded *loaded)
{
    free(loaded->devices);
    loaded->devices = NULL;
}

/* The whole file; NULL: *why_out says why not. */
static char *file_load(const char *path, size_t *bytes_out, const char **why_out)
{
    FILE *file = fopen(path, "rb");
    long bytes = file != NULL && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *data = NULL;
    *why_out = "it cannot be read";
    if (bytes > FILE_BYTES_MAX)
        *why_out = "it is too long for a report";
    else if (bytes >= 0 && (data = malloc((size_t)bytes + 1)) != NULL) {
        rewind(file);
        *bytes_out = fread(data, 1, (size_t)bytes, file);
    }
    if (file != NULL)
        fclose(file);
    return data;
}

bool report_read(const struct command *command, const char *path, struct loaded *loaded)
{
    struct reader reader = {0};
    json_error_t error;
    size_t bytes = 0;
    const char *why;
    memset(loaded, 0, sizeof(*loaded));
    if (!command_input_check(command, path))
        return false;
    char *data = file_load(path, &bytes, &why);
    if (data == NULL) {
        command_bad_input(command, path, 0, why);
        return false;
    }
    json_t *root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    free(data);
    if (root == NULL) {
        char shown[WHY_BYTES];
        snprintf(reader.why, sizeof(reader.why), "no JSON: %s", error.text);
        command_bad_input(command, path, error.line > 0 ? (size_t)error.line : 0,
                          text_visible(reader.why, shown, sizeof(shown)));
        return false;
    }
    root_read(&reader, root, loaded);
    report_settle(loaded);
    json_decref(root);
    if (reader.wrong) {
        report_free(loaded);
        command_bad_input(command, path, 0, reader.why);
    }
    return !reader.wrong;
}
