/* replay.c - vramalloc-replay: drives the real pool with recorded traces, on a simulated device.
 *
 * For each trace: memory held against what was live and what the driver alone would take, driver
 * calls and their simulated time against the driver's alone (first and later passes), fragmentation
 * at the live peak, and the smallest card on which the whole trace completes, for the pool and for
 * the driver, to 2 MiB. A figure that is not known is null, in the table "-".
 *
 * What it leaves out: traces (trace.c), the device (device.c, card.c), the replay itself (run.c),
 * the search (min_card.c).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../common/command.h"
#include "../../shim/units.h"
#include "../common/json_text.h"
#include "min_card.h"
#include "run.h"

#define MIB ((double)(1 << 20))

struct options {
    struct run_settings settings;
    bool json, compare, min_card;
};

struct row {
    const char *trace, *backing;
    struct run_result pool, driver;
    uint64_t min_card_bytes, driver_min_card_bytes; /* 0: not looked for, or there is none */
    uint64_t foreign_frees;                         /* in the trace, and left out */
    bool timed;                                     /* driver calls were made, and counted */
    bool sampled;                                   /* fragmentation is known */
};

static const struct command command = {
    .name = "replay",
    .help =
        "usage: vramalloc replay [options] TRACE...\n"
        "\n"
        "Replays traces (of VRAMALLOC_TRACE, or RMM's CSV: Thread,Time,Action,Pointer,Size,Stream, "
        "plain or\n"
        "gzip'd) through the pool on a simulated device with the costs of an NVIDIA H200.\n"
        "\n"
        "options:\n"
        "  --backing malloc|vmm   where the pool's memory comes from (malloc)\n"
        "  --free sync|deferred   how cudaFree is replayed (sync)\n"
        "  --gpu-lag MS           how long the GPU works on a block after its free, 0 to 1000000 "
        "ms (0)\n"
        "  --arena-size SIZE      what is taken first; none: nothing ahead (32M)\n"
        "  --arena-limit SIZE     never hold more (none)\n"
        "  --slack PERCENT        idle memory that is kept, 0 to 1000 (80)\n"
        "  --card SIZE            the card's memory, 2M and more; none: without bound (none)\n"
        "  --passes N             how often the trace is replayed, 1 to 1000 (2)\n"
        "  --threads              one host thread for each thread of the trace\n"
        "  --no-min-card          do not look for the smallest card\n"
        "  --compare              rows for the driver alone and a plain power-of-two buddy system\n"
        "  --json                 JSON instead of a table\n"
        "  -h, --help             this text\n"
        "\n"
        "SIZE: bytes as 65536, 512M, 4GiB, or none.\n"};

static void progress(const char *what, const char *trace)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s: %s", trace, what);
}

static void progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

/* --- output ---------------------------------------------------------------------------------- */

static double ratio(double a, double b)
{
    return b != 0 ? a / b : 0;
}

static void table_header(void)
{
    printf("%-26s %-7s %8s %9s %9s %9s %7s %7s %6s %6s %6s %6s %9s %9s %7s\n", "trace", "backing",
           "events", "live MiB", "held MiB", "driver's", "h/live", "h/driv", "first", "later",
           "int.", "ext.", "min card", "driver's", "Mev/s");
}

/* One column of the table. */
static void cell(int width, int decimals, bool known, double value)
{
    if (known)
        printf(" %*.*f", width, decimals, value);
    else
        printf(" %*s", width, "-");
}

static void table_row(const struct row *row, const struct options *options)
{
    const struct run_result *pool = &row->pool, *driver = &row->driver;
    bool later = row->timed && options->settings.passes > 1;
    printf("%-26s %-7s %8llu", row->trace, row->backing, (unsigned long long)driver->events);
    cell(8, 1, true, (double)pool->peak_live_bytes / MIB);
    cell(9, 1, true, (double)pool->peak_backed_bytes / MIB);
    cell(9, 1, true, (double)driver->peak_backed_bytes / MIB);
    cell(7, 3, true, ratio((double)pool->peak_backed_bytes, (double)pool->peak_live_bytes));
    cell(7, 3, true, ratio((double)pool->peak_backed_bytes, (double)driver->peak_backed_bytes));
    cell(6, 3, row->timed, ratio(pool->first_ns, driver->first_ns));
    cell(6, 3, later, ratio(pool->later_ns, driver->later_ns));
    cell(6, 3, row->sampled, pool->internal_fragmentation);
    cell(6, 3, row->sampled, pool->external_fragmentation);
    cell(9, 1, row->min_card_bytes > 0, (double)row->min_card_bytes / MIB);
    cell(9, 1, row->driver_min_card_bytes > 0, (double)row->driver_min_card_bytes / MIB);
    cell(7, 2, pool->seconds > 0, ratio((double)pool->events / 1e6, pool->seconds));
    printf("%s\n", pool->completed ? "" : "  REFUSED");
}

static void json_figure(const char *name, int decimals, bool known, double value)
{
    if (known)
        printf(",\n  \"%s\": %.*f", name, decimals, value);
    else
        printf(",\n  \"%s\": null", name);
}

static void json_row(const struct row *row, const struct options *options, bool first)
{
    const struct run_result *pool = &row->pool, *driver = &row->driver;
    unsigned passes = options->settings.passes;
    bool timed = row->timed, later = timed && passes > 1;
    printf("%s\n {\"trace\": ", first ? "" : ",");
    json_text(stdout, row->trace);
    printf(",\n  \"backing\": \"%s\", \"free\": \"%s\", \"completed\": %s", row->backing,
           options->settings.deferred ? "deferred" : "sync", pool->completed ? "true" : "false");
    json_figure("events", 0, true, (double)driver->events);
    json_figure("foreign_frees", 0, true, (double)row->foreign_frees);
    json_figure("passes", 0, true, passes);
    json_figure("peak_live_bytes", 0, true, (double)pool->peak_live_bytes);
    json_figure("driver_footprint_bytes", 0, true, (double)driver->peak_backed_bytes);
    json_figure("peak_backed_bytes", 0, true, (double)pool->peak_backed_bytes);
    json_figure("backed_over_live", 4, true,
                ratio((double)pool->peak_backed_bytes, (double)pool->peak_live_bytes));
    json_figure("backed_over_driver", 4, true,
                ratio((double)pool->peak_backed_bytes, (double)driver->peak_backed_bytes));
    json_figure("driver_calls", 0, timed, (double)pool->driver_calls);
    json_figure("driver_call_share", 5, timed,
                ratio((double)pool->driver_calls, (double)pool->events));
    json_figure("simulated_driver_ns", 0, timed, pool->first_ns + pool->later_ns * (passes - 1));
    json_figure("native_driver_ns", 0, true, driver->first_ns * passes);
    json_figure("time_share_first", 4, timed, ratio(pool->first_ns, driver->first_ns));
    json_figure("time_share_later", 4, later, ratio(pool->later_ns, driver->later_ns));
    json_figure("internal_fragmentation", 4, row->sampled, pool->internal_fragmentation);
    json_figure("external_fragmentation_at_peak", 4, row->sampled, pool->external_fragmentation);
    json_figure("min_card_bytes", 0, row->min_card_bytes > 0, (double)row->min_card_bytes);
    json_figure("driver_min_card_bytes", 0, row->driver_min_card_bytes > 0,
                (double)row->driver_min_card_bytes);
    json_figure("events_per_second", 0, pool->seconds > 0,
                ratio((double)pool->events, pool->seconds));
    putchar('}');
}

/* --- settings ------------------------------------------------------------------------------- */

/* none: what the word stands for. */
static bool bytes_parse(const char *text, uint64_t none, uint64_t *out)
{
    *out = none;
    return strcasecmp(text, "none") == 0 || unit_bytes_parse(text, out);
}

static bool number_parse(const char *text, double low, double high, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text != '\0' && *end == '\0' && *out >= low && *out <= high;
}

static bool setting_parse(struct options *options, const char *name, const char *text)
{
    struct run_settings *settings = &options->settings;
    double number;
    if (strcmp(name, "backing") == 0) {
        settings->vmm = strcmp(text, "vmm") == 0;
        return settings->vmm || strcmp(text, "malloc") == 0;
    }
    if (strcmp(name, "free") == 0) {
        settings->deferred = strcmp(text, "deferred") == 0;
        return settings->deferred || strcmp(text, "sync") == 0;
    }
    if (strcmp(name, "arena-size") == 0)
        return bytes_parse(text, 1, &settings->arena_bytes) && settings->arena_bytes > 0;
    if (strcmp(name, "arena-limit") == 0)
        return bytes_parse(text, UINT64_MAX, &settings->limit_bytes) && settings->limit_bytes > 0;
    if (strcmp(name, "card") == 0)
        return bytes_parse(text, UINT64_MAX, &settings->card_bytes);
    bool lag = strcmp(name, "gpu-lag") == 0, slack = strcmp(name, "slack") == 0;
    if (!number_parse(text, lag || slack ? 0 : 1, lag ? 1e6 : 1000, &number))
        return false;
    if (lag)
        settings->lag_ns = (uint64_t)(number * 1e6);
    else if (slack)
        settings->slack_percent = (uint32_t)number;
    else
        settings->passes = (unsigned)number;
    return true;
}

static bool options_parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"backing", 1, NULL, 's'},     {"free", 1, NULL, 's'},
        {"gpu-lag", 1, NULL, 's'},     {"arena-size", 1, NULL, 's'},
        {"arena-limit", 1, NULL, 's'}, {"slack", 1, NULL, 's'},
        {"card", 1, NULL, 's'},        {"passes", 1, NULL, 's'},
        {"threads", 0, NULL, 't'},     {"no-min-card", 0, NULL, 'm'},
        {"compare", 0, NULL, 'c'},     {"json", 0, NULL, 'j'},
        {"help", 0, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int what, index = 0;
    *options = (struct options){
        .settings = {.slack_percent = 80, .card_bytes = UINT64_MAX, .passes = 2}, .min_card = true};
    while ((what = command_option(&command, argc, argv, "", names, &index)) !=
           COMMAND_OPTIONS_END) {
        if (what == COMMAND_OPTION_WRONG)
            return false;
        if (what == 's' && !setting_parse(options, names[index].name, optarg))
            return command_refuse(&command, "--%s cannot be \"%s\"", names[index].name, optarg);
        options->settings.threads |= what == 't';
        options->min_card &= what != 'm';
        options->compare |= what == 'c';
        options->json |= what == 'j';
    }
    if (options->settings.card_bytes < MIN_CARD_STEP_BYTES)
        return command_refuse(&command, "a card of less than 2 MiB holds no block");
    return optind < argc || command_refuse(&command, "no file is named");
}

/* --- rows ------------------------------------------------------------------------------------ */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool row_make(const struct trace *trace, const struct options *options, struct row *row)
{
    const struct run_settings *settings = &options->settings;
    row->backing = settings->vmm ? "vmm" : "malloc";
    row->timed = true;
    row->sampled = !settings->threads;
    row->foreign_frees = trace->foreign_frees;
    progress("replaying", row->trace);
    if (!run_driver(trace, UINT64_MAX, &row->driver) || !run_pool(trace, settings, &row->pool))
        return false;
    if (options->min_card) {
        progress("looking for the smallest card", row->trace);
        uint64_t live_bytes = row->driver.peak_live_bytes;
        row->min_card_bytes = min_card_pool(trace, settings, live_bytes);
        row->driver_min_card_bytes = min_card_driver(trace, live_bytes);
    }
    return true;
}

static void row_print(const struct row *row, const struct options *options, int *printed)
{
    progress_end();
    if (options->json) {
        json_row(row, options, *printed == 0);
    } else {
        if (*printed == 0)
            table_header();
        table_row(row, options);
    }
    fflush(stdout);
    ++*printed;
}

/* The same trace by the driver alone, and in a plain buddy system. */
static bool compared_rows(const struct trace *trace, const struct row *row,
                          const struct options *options, int *printed)
{
    struct row driver = *row, plain = *row;
    driver.backing = "driver";
    driver.pool = row->driver;
    driver.pool.events *= options->settings.passes;
    driver.pool.driver_calls *= options->settings.passes;
    driver.min_card_bytes = row->driver_min_card_bytes;
    driver.sampled = false;
    row_print(&driver, options, printed);
    plain.backing = "buddy";
    plain.timed = false;
    plain.sampled = true;
    plain.min_card_bytes = 0;
    if (!run_plain_buddy(trace, &plain.pool))
        return false;
    row_print(&plain, options, printed);
    return true;
}

static int trace_rows(const char *path, const struct options *options, int *printed)
{
    struct trace trace;
    struct trace_error error;
    struct row row = {.trace = name_of(path)};
    if (!command_input_check(&command, path))
        return COMMAND_BAD_INPUT;
    if (!trace_load(path, &trace, &error))
        return command_bad_input(&command, path, error.line, error.reason);
    bool made = row_make(&trace, options, &row);
    if (made)
        row_print(&row, options, printed);
    made = made && (!options->compare || compared_rows(&trace, &row, options, printed));
    trace_free(&trace);
    if (!made)
        command_say(&command, "%s: the host has no memory", path);
    return made ? COMMAND_DONE : COMMAND_FAILED;
}

int main(int argc, char **argv)
{
    struct options options;
    int worst = COMMAND_DONE, printed = 0;
    if (!options_parse(argc, argv, &options))
        return COMMAND_BAD_INPUT;
    if (options.json)
        putchar('[');
    for (int i = optind; i < argc; i++) {
        int code = trace_rows(argv[i], &options, &printed);
        worst = code > worst ? code : worst;
    }
    if (options.json)
        printf("\n]\n");
    return command_end(&command, worst);
}
