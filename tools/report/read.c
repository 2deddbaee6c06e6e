/* read.c - see read.h. The parser is jansson's; figures are found by the names in
 * pool/stats.def and shim/counters.def. */
#define _GNU_SOURCE
#include "read_internal.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../../shim/rank.h"
#include "../../shim/text.h"

#define SCHEMA        "vramalloc-report/2"
#define SCHEMA_FAMILY "vramalloc-report/"
#define START_NS      ((uint64_t)1000000000) /* any moment: those in the file are relative to it */
#define SECONDS_MAX   1e9

enum { FILE_BYTES_MAX = 64 << 20, GPUS_MAX = 1024 };

void read_wrong(struct read_state *state, const char *format, ...)
{
    va_list arguments;
    if (state->wrong)
        return;
    state->wrong = true;
    va_start(arguments, format);
    vsnprintf(state->why, sizeof(state->why), format, arguments);
    va_end(arguments);
}

/* --- members --------------------------------------------------------------------------------- */

uint64_t read_integer(struct read_state *state, const json_t *object, const char *name,
                      uint64_t max)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL)
        return 0;
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max) {
        read_wrong(state, "\"%s\" is no whole number from 0 to %llu", name,
                   (unsigned long long)max);
        return 0;
    }
    return (uint64_t)number;
}

uint64_t read_figure(struct read_state *state, const json_t *object, const char *name)
{
    return read_integer(state, object, name, INT64_MAX);
}

static double seconds(struct read_state *state, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    double number = json_number_value(value);
    if (value != NULL && (!json_is_number(value) || !(number >= 0 && number <= SECONDS_MAX)))
        read_wrong(state, "\"%s\" is no time in seconds", name);
    return state->wrong ? 0 : number;
}

/* The moment so many seconds after the first CUDA call; 0: not known. */
static uint64_t moment(struct read_state *state, const json_t *object, const char *name)
{
    double at = seconds(state, object, name);
    return json_object_get(object, name) == NULL ? 0 : START_NS + (uint64_t)(at * 1e9 + 0.5);
}

/* Control characters, and bytes that are no text, become visible. */
void read_text(struct read_state *state, const json_t *object, const char *name, char *out,
               size_t bytes)
{
    const json_t *value = json_object_get(object, name);
    out[0] = '\0';
    if (value != NULL && !json_is_string(value))
        read_wrong(state, "\"%s\" is no text", name);
    else if (value != NULL)
        text_visible(json_string_value(value), out, bytes);
}

static const json_t *member(struct read_state *state, const json_t *object, const char *name,
                            json_type type)
{
    const json_t *value = json_object_get(object, name);
    if (value == NULL || json_typeof(value) != type) {
        read_wrong(state, "it has no \"%s\" of a report", name);
        return NULL;
    }
    return value;
}

/* The elements of a list that may be missing. */
size_t read_list(struct read_state *state, const json_t *object, const char *name, size_t max,
                 const json_t **list_out)
{
    *list_out = json_object_get(object, name);
    if (*list_out == NULL)
        return 0;
    if (!json_is_array(*list_out) || json_array_size(*list_out) > max) {
        read_wrong(state, "\"%s\" is no list of up to %zu", name, max);
        return 0;
    }
    return json_array_size(*list_out);
}

/* --- a GPU ----------------------------------------------------------------------------------- */

static void buckets_read(struct read_state *state, const json_t *object, struct histogram *sampled,
                         struct histogram *all)
{
    const json_t *rows;
    size_t count = read_list(state, object, "buckets", HISTOGRAM_BUCKETS, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        int bucket = histogram_bucket(read_figure(state, row, "from_ns"));
        if (sampled != NULL)
            sampled->weight[bucket] += read_figure(state, row, "sampled");
        all->weight[bucket] += read_figure(state, row, "always_timed");
    }
}

static void kind_read(struct read_state *state, const json_t *latency, const char *name,
                      struct histogram *sampled, struct histogram *all)
{
    const json_t *object = json_object_get(latency, name);
    uint64_t timed = read_figure(state, object, "timed");
    all->count = read_figure(state, object, "always_timed");
    if (all->count > timed)
        read_wrong(state, "more %s are always timed than are timed", name);
    sampled->count = timed - all->count;
    sampled->max_ns = all->max_ns = read_figure(state, object, "max_ns");
    buckets_read(state, object, sampled, all);
}

static void latency_read(struct read_state *state, const json_t *gpu, struct latency *latency)
{
    const json_t *object = json_object_get(gpu, "latency");
    const json_t *growth = json_object_get(object, "growth");
    kind_read(state, object, "allocations", &latency->sampled[LATENCY_ALLOC],
              &latency->slow[LATENCY_ALLOC]);
    kind_read(state, object, "frees", &latency->sampled[LATENCY_FREE],
              &latency->slow[LATENCY_FREE]);
    latency->growth.count = read_figure(state, growth, "calls");
    latency->growth.sum_ns = read_figure(state, growth, "total_ns");
    latency->growth.max_ns = read_figure(state, growth, "max_ns");
    buckets_read(state, growth, NULL, &latency->growth);
}

static void worst_read(struct read_state *state, const json_t *gpu, struct pool_worst *worst)
{
    const json_t *object = json_object_get(gpu, "worst_fragmentation");
    worst->at_ns = moment(state, object, "seconds");
    worst->asked_bytes = read_figure(state, object, "asked_bytes");
    worst->free_bytes = read_figure(state, object, "run_free_bytes");
    worst->largest_bytes = read_figure(state, object, "largest_free_run_bytes");
    worst->pinned_segments = read_figure(state, object, "pinned_segments");
    worst->pin_size_bytes = read_figure(state, object, "pin_size_bytes");
    worst->pin_blocks = read_figure(state, object, "pin_blocks");
    worst->pin_bytes = read_figure(state, object, "pin_bytes");
    if (worst->largest_bytes > worst->free_bytes)
        read_wrong(state, "a free run is longer than all of them");
}

/* Means become sums over the run again; half a byte more than the mean, which was cut. */
static void history_read(struct read_state *state, const json_t *gpu, const struct report *report,
                         struct pool_history *history)
{
    const json_t *object = json_object_get(gpu, "history");
    double run_ns = report->seconds > 0 ? report->seconds * 1e9 : 1;
    uint64_t live_bytes = read_figure(state, object, "mean_live_block_bytes");
    uint64_t held_bytes = read_figure(state, object, "mean_backed_bytes");
    history->first_ns = START_NS;
    history->last_ns = START_NS + (uint64_t)run_ns;
    history->live_byte_ns = live_bytes > 0 ? ((double)live_bytes + 0.5) * run_ns : 0;
    history->held_byte_ns = held_bytes > 0 ? ((double)held_bytes + 0.5) * run_ns : 0;
    history->peak_live_ns = moment(state, object, "peak_live_block_seconds");
    history->peak_backed_ns = moment(state, object, "peak_backed_seconds");
    worst_read(state, gpu, &history->worst);
}

static void classes_read(struct read_state *state, const json_t *gpu, struct pool_stats *pool)
{
    const json_t *rows;
    size_t count = read_list(state, gpu, "slab_classes", POOL_STATS_CLASSES_MAX, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        struct pool_class_stats *c = &pool->classes[i];
        c->slot_bytes = read_integer(state, row, "slot_bytes", UINT32_MAX);
        c->slabs = read_integer(state, row, "slabs", UINT32_MAX);
        c->slots_total = read_integer(state, row, "slots_total", UINT32_MAX);
        c->slots_live = read_integer(state, row, "slots_live", c->slots_total);
        c->slots_limbo = read_integer(state, row, "slots_limbo", c->slots_total);
        c->requested_bytes =
            read_integer(state, row, "requested_bytes", c->slots_total * c->slot_bytes);
        c->allocations = read_figure(state, row, "allocations");
    }
}

static void orders_read(struct read_state *state, const json_t *gpu, struct pool_stats *pool)
{
    const json_t *rows;
    size_t count = read_list(state, gpu, "free_runs_by_order", POOL_STATS_ORDERS, &rows);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        uint64_t order = read_integer(state, row, "order", POOL_STATS_ORDERS - 1);
        pool->free_runs_by_order[order] = read_figure(state, row, "runs");
        pool->free_bytes_by_order[order] = read_figure(state, row, "bytes");
    }
}

static void refused_read(struct read_state *state, const json_t *gpu, struct report_device *device)
{
    const json_t *rows;
    device->refused_count = read_list(state, gpu, "invalid_frees", REFUSED_FREES_MAX, &rows);
    for (size_t i = 0; i < device->refused_count; i++) {
        const json_t *row = json_array_get(rows, i);
        device->refused_frees[i].address = read_figure(state, row, "address");
        device->refused_frees[i].block_address = read_figure(state, row, "block_address");
        device->refused_frees[i].block_bytes = read_figure(state, row, "block_bytes");
    }
}

static void figures_read(struct read_state *state, const json_t *gpu, struct report_device *device)
{
    const json_t *calls = member(state, gpu, "calls", JSON_OBJECT);
    const json_t *pool = member(state, gpu, "pool", JSON_OBJECT);
#define COUNTER(name, unit, meaning) device->counters.name = read_figure(state, calls, #name);
#include "../../shim/counters.def"
#undef COUNTER
#define STAT(name, unit, kind, meaning) device->pool.name = read_figure(state, pool, #name);
#include "../../pool/stats.def"
#undef STAT
    if (device->pool.largest_free_run_bytes > device->pool.run_free_bytes)
        read_wrong(state, "a free run is longer than all of them");
}

static void device_read(struct read_state *state, const json_t *gpu, const struct report *report,
                        struct report_device *device)
{
    device->ordinal = (int)read_integer(state, gpu, "ordinal", INT_MAX);
    read_text(state, gpu, "name", device->name, sizeof(device->name));
    device->total_bytes = read_figure(state, gpu, "total_bytes");
    device->contexts = read_figure(state, gpu, "contexts");
    device->peers = read_integer(state, gpu, "peers", 1) != 0;
    figures_read(state, gpu, device);
    latency_read(state, gpu, &device->latency);
    history_read(state, gpu, report, &device->history);
    classes_read(state, gpu, &device->pool);
    orders_read(state, gpu, &device->pool);
    refused_read(state, gpu, device);
}

/* --- a report -------------------------------------------------------------------------------- */

static bool schema_check(struct read_state *state, const json_t *root)
{
    const json_t *schema = json_object_get(root, "schema");
    const char *name = json_is_string(schema) ? json_string_value(schema) : "";
    char shown[READ_TEXT_BYTES];
    if (strcmp(name, SCHEMA) == 0)
        return true;
    text_visible(name, shown, sizeof(shown));
    if (strncmp(name, SCHEMA_FAMILY, strlen(SCHEMA_FAMILY)) == 0)
        read_wrong(state, "a report of another version (%s; this command reads %s)", shown, SCHEMA);
    else
        read_wrong(state, "this is no report of vramalloc");
    return false;
}

static int rank_read(struct read_state *state, const json_t *root, const char *name)
{
    return json_object_get(root, name) == NULL ? RANK_UNKNOWN
                                               : (int)read_integer(state, root, name, INT_MAX);
}

static int64_t time_read(struct read_state *state, const json_t *root)
{
    char written[READ_TEXT_BYTES];
    struct tm tm = {0};
    read_text(state, root, "time", written, sizeof(written));
    const char *end = written[0] != '\0' ? strptime(written, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;
    if (written[0] != '\0' && (end == NULL || *end != '\0'))
        read_wrong(state, "\"time\" is no time");
    return end != NULL && timegm(&tm) > 0 ? timegm(&tm) : 0;
}

static void settings_read(struct read_state *state, const json_t *root, struct loaded *loaded)
{
    char leaks[READ_TEXT_BYTES];
    const json_t *settings = json_object_get(root, "settings");
    read_text(state, settings, "free", loaded->free_mode, sizeof(loaded->free_mode));
    read_text(state, settings, "backing", loaded->backing, sizeof(loaded->backing));
    read_text(state, settings, "leaks", leaks, sizeof(leaks));
    loaded->report.slack = (uint32_t)read_integer(state, settings, "slack", UINT32_MAX);
    loaded->report.count_leaks = strcmp(leaks, "off") != 0;
}

static void head_read(struct read_state *state, const json_t *root, struct loaded *loaded)
{
    struct report *report = &loaded->report;
    read_text(state, root, "program", report->program, sizeof(report->program));
    report->pid = (int)read_integer(state, root, "pid", INT_MAX);
    report->seconds = seconds(state, root, "seconds");
    report->start_ns = START_NS;
    report->number =
        json_object_get(root, "number") != NULL ? read_figure(state, root, "number") : 1;
    read_text(state, root, "reason", loaded->reason, sizeof(loaded->reason));
    report->at_exit = loaded->reason[0] == '\0' || strcmp(loaded->reason, "exit") == 0;
    report->time = time_read(state, root);
    read_text(state, root, "host", loaded->host, sizeof(loaded->host));
    loaded->rank = rank_read(state, root, "rank");
    loaded->ranks = rank_read(state, root, "ranks");
    settings_read(state, root, loaded);
    read_callers(state, root, report);
}

static void devices_read(struct read_state *state, const json_t *gpus, struct loaded *loaded)
{
    struct report_group *groups = loaded->groups;
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const json_t *gpu = json_array_get(gpus, i);
        device_read(state, gpu, &loaded->report, &loaded->devices[i]);
        read_live(state, gpu, &loaded->devices[i].live, groups);
        groups += loaded->devices[i].live.count;
    }
}

static void root_read(struct read_state *state, const json_t *root, struct loaded *loaded)
{
    if (!schema_check(state, root))
        return;
    head_read(state, root, loaded);
    const json_t *gpus = member(state, root, "gpus", JSON_ARRAY);
    size_t count = json_array_size(gpus);
    if (count == 0 || count > GPUS_MAX)
        read_wrong(state, "it has %zu GPUs", count);
    if (state->wrong)
        return;
    size_t groups = 1; /* none is no size to ask for */
    for (size_t i = 0; i < count; i++)
        groups += read_groups_count(state, json_array_get(gpus, i));
    loaded->devices = calloc(count, sizeof(*loaded->devices));
    loaded->groups = calloc(groups, sizeof(*loaded->groups));
    if (loaded->devices == NULL || loaded->groups == NULL) {
        read_wrong(state, "no memory");
        return;
    }
    devices_read(state, gpus, loaded);
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
    free(loaded->groups);
    loaded->devices = NULL;
    loaded->groups = NULL;
}

bool report_read(const struct command *command, const char *path, struct loaded *loaded)
{
    struct read_state state = {0};
    struct stat status;
    json_error_t error;
    memset(loaded, 0, sizeof(*loaded));
    if (!command_input_check(command, path))
        return false;
    if (stat(path, &status) != 0 || status.st_size > FILE_BYTES_MAX) {
        command_bad_input(command, path, 0, "it is too long for a report");
        return false;
    }
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        snprintf(state.why, sizeof(state.why), "no JSON: %s", error.text);
        command_bad_input(command, path, error.line > 0 ? (size_t)error.line : 0, state.why);
        return false;
    }
    root_read(&state, root, loaded);
    report_settle(loaded);
    json_decref(root);
    if (state.wrong) {
        report_free(loaded);
        command_bad_input(command, path, 0, state.why);
    }
    return !state.wrong;
}
