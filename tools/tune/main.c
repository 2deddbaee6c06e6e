/* main.c - vramalloc-tune: which settings suit a trace.
 *
 * Replays the trace once for each of 24 settings, through the real pool on a simulated device with
 * the costs of an NVIDIA H200, in several processes. Prints what each holds at most, its predicted
 * time in driver calls and in waits of frees, and for those on the Pareto front of the two, the
 * defaults and what is recommended the smallest card on which the trace completes, to 0.5 %.
 * Recommends one, and says what it could not predict.
 *
 * Waits of frees are taken from the trace, where it was recorded with VRAMALLOC_FREE=sync; with
 * deferred frees there are none. How far the GPU is behind a deferred free is estimated by the
 * waits: nine in ten were no longer.
 *
 * Where the recording ends with a request that was refused, that is replayed as if it had been
 * granted, on a card of the recorded one's size: settings with which that one is too small are out.
 *
 * What it leaves out: replaying itself (tools/replay), choosing (plan.c).
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/command.h"
#include "../replay/min_card.h"
#include "jobs.h"
#include "measured.h"
#include "plan.h"

enum { JOBS_MAX = 256 };
#define MIB            ((double)(1 << 20))
#define CARD_PRECISION 200 /* a two-hundredth: 0.5 % */

struct options {
    const char *path;
    enum plan_preference preference;
    bool json, cards_none, cards_all, lag_given;
    uint64_t lag_ns;
    size_t jobs;
};

struct tune {
    const struct options *options;
    struct trace trace;
    bool refusal_added; /* the request that ended the program is replayed as well */
    struct measured measured;
    struct plan_base base;
    uint64_t lag_ns;
    size_t count;
    struct plan_row *rows;       /* shared by the processes */
    size_t order[PLAN_ROWS_MAX]; /* in which they are replayed */
    size_t chosen[PLAN_ROWS_MAX];
    size_t chosen_count; /* rows whose smallest card is looked for */
};

static const struct command command = {
    .name = "tune",
    .help =
        "usage: vramalloc tune [options] TRACE\n"
        "\n"
        "Replays a trace (of VRAMALLOC_TRACE, or RMM's CSV) with 24 settings, and recommends one.\n"
        "\n"
        "options:\n"
        "  --prefer both|memory|time   what the recommended one should spare (both)\n"
        "  --cards front|all|none      whose smallest card is looked for (front, and the "
        "defaults')\n"
        "  --gpu-lag MS                how far the GPU is behind a deferred free, 0 to 1000000 "
        "ms (from\n"
        "                              the trace's waits)\n"
        "  --jobs N                    processes, 1 to 256 (one a core)\n"
        "  --json                      JSON instead of a table\n"
        "  -h, --help                  this text\n"};

/* --- the command line -------------------------------------------------------------------- */

static bool number_parse(const char *text, double low, double high, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text != '\0' && *end == '\0' && *out >= low && *out <= high;
}

static bool option_take(struct options *options, int what, const char *text)
{
    double number;
    switch (what) {
    case 'p':
        options->preference = strcmp(text, "memory") == 0 ? PLAN_MEMORY
                              : strcmp(text, "time") == 0 ? PLAN_TIME
                                                          : PLAN_BOTH;
        return options->preference != PLAN_BOTH || strcmp(text, "both") == 0 ||
               command_refuse(&command, "--prefer is both, memory or time, and not %s", text);
    case 'c':
        options->cards_none = strcmp(text, "none") == 0;
        options->cards_all = strcmp(text, "all") == 0;
        return options->cards_none || options->cards_all || strcmp(text, "front") == 0 ||
               command_refuse(&command, "--cards is front, all or none, and not %s", text);
    case 'l':
        if (!number_parse(text, 0, 1e6, &number))
            return command_refuse(&command, "--gpu-lag is 0 to 1000000 (ms), and not %s", text);
        options->lag_ns = (uint64_t)(number * 1e6);
        options->lag_given = true;
        return true;
    case 'n':
        if (!number_parse(text, 1, JOBS_MAX, &number))
            return command_refuse(&command, "--jobs is 1 to 256, and not %s", text);
        options->jobs = (size_t)number;
        return true;
    default:
        options->json |= what == 'j';
        return what == 'j';
    }
}

static bool options_parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"prefer", 1, NULL, 'p'},  {"cards", 1, NULL, 'c'},
                                          {"gpu-lag", 1, NULL, 'l'}, {"jobs", 1, NULL, 'n'},
                                          {"json", 0, NULL, 'j'},    {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int what;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *options = (struct options){.jobs = cores > 0 ? (size_t)cores : 1};
    while ((what = command_option(&command, argc, argv, "", names, NULL)) != COMMAND_OPTIONS_END)
        if (!option_take(options, what, optarg))
            return false;
    if (optind == argc)
        return command_refuse(&command, "no file is named");
    if (optind + 1 < argc)
        return command_refuse(&command, "one file at a time, and not also %s", argv[optind + 1]);
    options->path = argv[optind];
    return true;
}

/* --- replays ----------------------------------------------------------------------------- */

/* Rows without slack take ten times as long as others: they come first, so that no process is left
 * with one at the end. */
static void order_make(struct tune *tune)
{
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < tune->count; i++)
            if ((tune->rows[i].settings.slack_percent == 0) == (pass == 0))
                tune->order[count++] = i;
}

static bool row_replay(void *arg, size_t job)
{
    struct tune *tune = arg;
    struct plan_row *row = &tune->rows[tune->order[job]];
    return run_pool(&tune->trace, &row->settings, &row->result);
}

static bool completes(const struct tune *tune, const struct plan_row *row, uint64_t card_bytes)
{
    struct run_settings settings = row->settings;
    struct run_result result;
    settings.card_bytes = card_bytes;
    return run_pool(&tune->trace, &settings, &result) && result.completed;
}

static uint64_t step_up(uint64_t bytes)
{
    return (bytes + MIN_CARD_STEP_BYTES - 1) / MIN_CARD_STEP_BYTES * MIN_CARD_STEP_BYTES;
}

/* Between what lives at most, which is too little or just enough, and what a card without bound
 * gave. */
static uint64_t card_find(const struct tune *tune, const struct plan_row *row)
{
    uint64_t low = step_up(tune->base.live_bytes), high = step_up(row->result.peak_backed_bytes);
    if (completes(tune, row, low))
        return low;
    if (high < low + MIN_CARD_STEP_BYTES)
        high = low + MIN_CARD_STEP_BYTES;
    while (!completes(tune, row, high)) {
        low = high;
        if (high > MIN_CARD_MAX_BYTES / 2)
            return 0;
        high = step_up(high + high / 8);
    }
    while (high - low > MIN_CARD_STEP_BYTES && high - low > low / CARD_PRECISION) {
        uint64_t middle = step_up(low + (high - low) / 2);
        if (middle >= high)
            break;
        if (completes(tune, row, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static bool card_job(void *arg, size_t job)
{
    struct tune *tune = arg;
    struct plan_row *row = &tune->rows[tune->chosen[job]];
    row->card_bytes = card_find(tune, row);
    return true;
}

/* Besides the front the defaults, for comparison, and what is recommended. */
static bool card_wanted(const struct tune *tune, size_t i)
{
    const struct plan_row *row = &tune->rows[i];
    return row->result.completed &&
           (tune->options->cards_all || row->front || i == 0 ||
            row == plan_best(tune->rows, tune->count, tune->options->preference));
}

static bool cards_look(struct tune *tune)
{
    for (size_t i = 0; i < tune->count; i++)
        if (card_wanted(tune, i))
            tune->chosen[tune->chosen_count++] = i;
    return tune->options->cards_none ||
           jobs_run(tune->chosen_count, tune->options->jobs, "smallest cards", card_job, tune);
}

/* Whether the card could have held what was refused beside what lived then. */
static bool refusal_avoidable(const struct trace *trace)
{
    uint64_t live_bytes = trace->refused_bytes;
    for (size_t i = 0; i < trace->refused_at; i++)
        live_bytes +=
            trace->events[i].is_free ? 0 - trace->events[i].bytes : trace->events[i].bytes;
    return trace->card_bytes == 0 || live_bytes <= trace->card_bytes;
}

/* Of the card on which the program was refused memory; else without bound. */
static uint64_t card_bytes(const struct tune *tune)
{
    return tune->refusal_added && tune->trace.card_bytes > 0 ? tune->trace.card_bytes : UINT64_MAX;
}

static bool base_take(struct tune *tune)
{
    struct run_result driver;
    const struct trace *trace = &tune->trace;
    const struct measured *measured = &tune->measured;
    if (!run_driver(trace, UINT64_MAX, &driver))
        return false;
    tune->base = (struct plan_base){
        .card_bytes = card_bytes(tune),
        .live_bytes = driver.peak_live_bytes,
        .driver_bytes = driver.peak_backed_bytes,
        .driver_ns = driver.first_ns,
        .span_ns = (double)trace->events[trace->event_count - 1].time_ns,
        .recorded_ns = measured->known ? measured->driver_ns + measured->wait_ns : driver.first_ns,
        .wait_ns = measured->wait_ns,
        .wait_known = measured->sync};
    tune->lag_ns = tune->options->lag_given ? tune->options->lag_ns : measured->lag_ns;
    return true;
}

/* False: the host has no memory. */
static bool tune_run(struct tune *tune)
{
    tune->rows = jobs_memory(PLAN_ROWS_MAX * sizeof(*tune->rows));
    tune->refusal_added = tune->trace.refused_bytes > 0 && refusal_avoidable(&tune->trace);
    if (tune->refusal_added && !trace_refused_add(&tune->trace))
        return false;
    if (tune->rows == NULL || !base_take(tune))
        return false;
    tune->count = plan_make(&tune->base, tune->lag_ns, tune->rows);
    order_make(tune);
    if (!jobs_run(tune->count, tune->options->jobs, "replaying", row_replay, tune))
        return false;
    plan_judge(&tune->base, tune->rows, tune->count);
    return cards_look(tune);
}

/* --- output: the table ------------------------------------------------------------------- */

static void card_cell(uint64_t bytes)
{
    if (bytes > 0)
        printf(" %10.0f", (double)bytes / MIB);
    else
        printf(" %10s", "-");
}

static void row_print(const struct plan_row *row, const struct plan_row *best)
{
    char size[32], limit[32];
    const struct run_settings *settings = &row->settings;
    plan_size_text(settings->arena_bytes, "32M", size, sizeof(size));
    plan_size_text(settings->limit_bytes, "none", limit, sizeof(limit));
    printf("%c %-8s %-7s %5u %8s %8s %10.0f",
           row == best  ? '>'
           : row->front ? '*'
                        : ' ',
           settings->deferred ? "deferred" : "sync", settings->vmm ? "vmm" : "malloc",
           settings->slack_percent, size, limit, (double)row->result.peak_backed_bytes / MIB);
    card_cell(row->card_bytes);
    printf(" %10.1f %10.1f%s\n", row->result.first_ns / 1e6,
           (row->time_ns - row->result.first_ns) / 1e6, row->result.completed ? "" : "  REFUSED");
}

static void refusal_print(const struct tune *tune)
{
    const struct trace *trace = &tune->trace;
    if (trace->refused_bytes == 0)
        return;
    printf("It ends with %.1f MiB that were refused", (double)trace->refused_bytes / MIB);
    if (!tune->refusal_added)
        printf(", too much for a card of %.0f MiB with any setting: they are left out.\n",
               (double)trace->card_bytes / MIB);
    else if (trace->card_bytes > 0)
        printf(". They are replayed as if granted, on the same card of %.0f MiB.\n",
               (double)trace->card_bytes / MIB);
    else
        printf(". They are replayed as if granted.\n");
}

static void table_print(const struct tune *tune, const struct plan_row *best)
{
    const struct plan_base *base = &tune->base;
    printf("%zu events in %.3f s; at most %.0f MiB live\n", tune->trace.event_count,
           base->span_ns / 1e9, (double)base->live_bytes / MIB);
    refusal_print(tune);
    putchar('\n');
    printf("  %-8s %-7s %5s %8s %8s %10s %10s %10s %10s\n", "free", "backing", "slack", "arena",
           "limit", "held MiB", "card MiB", "driver ms", "waits ms");
    printf("  %-40s %10.0f", "(the driver alone)", (double)base->driver_bytes / MIB);
    card_cell(base->driver_bytes); /* nothing fragments there (card.h) */
    printf(" %10.1f %10.1f%s\n", base->driver_ns / 1e6, base->wait_known ? base->wait_ns / 1e6 : 0,
           base->driver_bytes > base->card_bytes ? "  REFUSED" : "");
    for (size_t i = 0; i < tune->count; i++)
        row_print(&tune->rows[i], best);
    printf("\n* no other row holds less and takes less time (driver and waits); > recommended\n\n");
}

static double percent(double value, double of)
{
    return of > 0 ? 100 * (value / of - 1) : 0;
}

/* What the recommended row is compared with: the defaults, the driver. */
static void compared_print(const char *who, bool completed, uint64_t held_bytes, double ns,
                           const struct plan_row *best)
{
    if (completed)
        printf("           %-17s %8.0f MiB (%+.1f %%), %.1f ms\n", who, (double)held_bytes / MIB,
               percent((double)held_bytes, (double)best->result.peak_backed_bytes), ns / 1e6);
    else
        printf("           %-17s the card is too small\n", who);
}

static void effect_print(const struct tune *tune, const struct plan_row *best)
{
    const struct plan_row *plain = &tune->rows[0];
    const struct plan_base *base = &tune->base;
    printf("predicted: %-17s %8.0f MiB at most, %.1f ms in driver calls and waits\n", "it holds",
           (double)best->result.peak_backed_bytes / MIB, best->time_ns / 1e6);
    compared_print("the defaults", plain->result.completed, plain->result.peak_backed_bytes,
                   plain->time_ns, best);
    compared_print("the driver alone", base->driver_bytes <= base->card_bytes, base->driver_bytes,
                   base->driver_ns + (base->wait_known ? base->wait_ns : 0), best);
}

static void checks_print(const struct plan_row *best)
{
    if (best->settings.deferred)
        printf(
            "check first: the program must not rely on cudaFree as a point of synchronisation\n");
    if (best->settings.vmm)
        printf("check first: the program must not share memory with other processes (CUDA IPC)\n");
}

/* What the figures do not hold. */
static void limits_print(const struct tune *tune)
{
    const struct measured *measured = &tune->measured;
    printf("\nnot predicted:\n");
    printf("  other cards than an H200, whose costs are used; memory beside the pool (contexts, "
           "kernels, libraries)\n");
    printf("  how the program's own work shifts when its calls take another time; its threads were "
           "replayed as one\n");
    if (!measured->known)
        printf("  waits for the GPU: the trace has none (only those of VRAMALLOC_TRACE have)\n");
    else if (!measured->sync)
        printf("  waits of sync frees: the trace was recorded with deferred ones\n");
    if (!tune->options->lag_given && measured->lag_ns > 0)
        printf("  how far the GPU is behind deferred frees: %.3f ms is assumed, which nine of ten "
               "waits did not exceed\n",
               (double)measured->lag_ns / 1e6);
    if (!tune->options->lag_given && measured->lag_ns == 0)
        printf("  how far the GPU is behind deferred frees: not at all is assumed; --gpu-lag MS\n");
    if (tune->trace.lost_events > 0)
        printf("  the end of the run: the trace was cut, and %zu events are missing\n",
               tune->trace.lost_events);
    if (tune->trace.other_gpus > 0)
        printf("  other GPUs: %zu allocations there were left out\n", tune->trace.other_gpus);
    if (tune->trace.foreign_frees > 0)
        printf("  %zu frees of what the trace never allocated were left out\n",
               tune->trace.foreign_frees);
}

static void report_print(const struct tune *tune, const struct plan_row *best)
{
    char environment[PLAN_ENVIRONMENT_BYTES];
    table_print(tune, best);
    plan_environment(&best->settings, environment);
    printf("recommended: %s\n",
           environment[0] != '\0' ? environment : "the defaults; nothing needs to be set");
    effect_print(tune, best);
    checks_print(best);
    limits_print(tune);
}

/* --- output: JSON ------------------------------------------------------------------------ */

static void row_json(const struct plan_row *row, const struct plan_row *best, bool first)
{
    char size[32], limit[32], environment[PLAN_ENVIRONMENT_BYTES];
    plan_size_text(row->settings.arena_bytes, "32M", size, sizeof(size));
    plan_size_text(row->settings.limit_bytes, "none", limit, sizeof(limit));
    plan_environment(&row->settings, environment);
    printf("%s\n  {\"free\": \"%s\", \"backing\": \"%s\", \"slack\": %u, \"arena_size\": \"%s\", "
           "\"arena_limit\": \"%s\",\n   \"environment\": \"%s\", \"completed\": %s, ",
           first ? "" : ",", row->settings.deferred ? "deferred" : "sync",
           row->settings.vmm ? "vmm" : "malloc", row->settings.slack_percent, size, limit,
           environment, row->result.completed ? "true" : "false");
    printf("\"held_bytes\": %" PRIu64
           ", \"driver_ns\": %.0f, \"time_ns\": %.0f, \"run_ns\": %.0f, ",
           row->result.peak_backed_bytes, row->result.first_ns, row->time_ns, row->run_ns);
    if (row->card_bytes > 0)
        printf("\"smallest_card_bytes\": %" PRIu64 ", ", row->card_bytes);
    else
        printf("\"smallest_card_bytes\": null, ");
    printf("\"front\": %s, \"recommended\": %s}", row->front ? "true" : "false",
           row == best ? "true" : "false");
}

static void json_print(const struct tune *tune, const struct plan_row *best)
{
    const struct plan_base *base = &tune->base;
    printf("{\"events\": %zu, \"span_ns\": %.0f, \"live_bytes\": %" PRIu64
           ", \"driver_held_bytes\": %" PRIu64 ", \"driver_alone_ns\": %.0f,\n",
           tune->trace.event_count, base->span_ns, base->live_bytes, base->driver_bytes,
           base->driver_ns);
    if (base->wait_known)
        printf(" \"wait_ns\": %.0f,", base->wait_ns);
    else
        printf(" \"wait_ns\": null,");
    if (tune->trace.refused_bytes > 0)
        printf(" \"refused_bytes\": %" PRIu64 ", \"card_bytes\": %" PRIu64 ",",
               tune->trace.refused_bytes, tune->trace.card_bytes);
    printf(" \"gpu_lag_ns\": %" PRIu64 ", \"lost_events\": %zu, \"other_gpus\": %zu,\n"
           " \"settings\": [",
           tune->lag_ns, tune->trace.lost_events, tune->trace.other_gpus);
    for (size_t i = 0; i < tune->count; i++)
        row_json(&tune->rows[i], best, i == 0);
    printf("\n ]}\n");
}

/* --- the command ------------------------------------------------------------------------- */

static bool trace_take(struct tune *tune, const char *path)
{
    struct trace_error error;
    if (trace_load(path, &tune->trace, &error)) {
        if (measured_take(path, &tune->measured))
            return true;
        trace_free(&tune->trace);
        error = (struct trace_error){.reason = "the trace cannot be read"};
    }
    command_bad_input(&command, path, error.line, error.reason);
    return false;
}

static int failed(const struct options *options, const char *why)
{
    command_say(&command, "%s: %s", options->path, why);
    return COMMAND_FAILED;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_parse(argc, argv, &options) || !command_input_check(&command, options.path))
        return COMMAND_BAD_INPUT;
    struct tune tune = {.options = &options};
    if (!trace_take(&tune, options.path))
        return COMMAND_BAD_INPUT;
    if (!tune_run(&tune))
        return failed(&options, "the host has no memory for it");
    const struct plan_row *best = plan_best(tune.rows, tune.count, options.preference);
    if (best == NULL)
        return failed(&options, "the trace completes with no setting on its card");
    if (options.json)
        json_print(&tune, best);
    else
        report_print(&tune, best);
    trace_free(&tune.trace);
    return command_end(&command, COMMAND_DONE);
}
