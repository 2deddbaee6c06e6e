/* live.c - vramalloc-live: what `vramalloc top` and `vramalloc metrics` run.
 *
 * Exit 0; 1: the process that was asked for shares no figures, nothing can be read, or the output
 * cannot be written; 2: wrong use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/command.h"
#include "live_print.h"
#include "screen.h"

enum { REFRESH_MS = 1000, TEXT_COLUMNS = 80 };

struct request {
    bool metrics, once, json;
    uint64_t pid; /* 0: all */
};

static const struct command top = {
    .name = "top",
    .help =
        "usage: vramalloc top [--once] [--json] [PID]\n"
        "\n"
        "Shows what processes that run with VRAMALLOC_LIVE=1 hold and do, those of this user or "
        "one "
        "of them,\n"
        "brought up to date each second; q or ^C ends it.\n"
        "\n"
        "options:\n"
        "  --once       print it and end; also where the output is no terminal\n"
        "  --json       the same as JSON, with every figure\n"
        "  -h, --help   this text\n"
        "\n"
        "A row a process and GPU. LIVE: bytes that the program asked for; HELD: taken from the "
        "driver;\n"
        "FRAG: free memory outside the longest free run; ALLOC/s: allocation calls; HIT: of these, "
        "served\n"
        "from the pool; WAITS: time that frees waited for the GPU, of the time that passed (more "
        "than 100%\n"
        "with several threads). On 108 columns and more also FREE/s, PEAK HELD, and OOM: "
        "allocations that\n"
        "ran out of memory.\n"};

static const struct command metrics = {
    .name = "metrics",
    .help =
        "usage: vramalloc metrics [PID]\n"
        "\n"
        "Prints the figures of processes that run with VRAMALLOC_LIVE=1, those of this user or one "
        "of them,\n"
        "in Prometheus' text format, as its node exporter reads it from files.\n"
        "\n"
        "options:\n"
        "  -h, --help   this text\n"};

static const struct command *command = &top;

/* False: no number of a process. */
static bool pid_parse(const char *text, uint64_t *pid_out)
{
    uint64_t pid = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 10 || text[digits] != '\0')
        return false;
    pid = strtoull(text, NULL, 10);
    *pid_out = pid;
    return pid > 0 && pid <= INT_MAX;
}

static bool arguments_parse(int count, char **arguments, struct request *request)
{
    static const struct option names[] = {
        {"help", 0, NULL, 'h'}, {"once", 0, NULL, 'o'}, {"json", 0, NULL, 'j'}, {NULL, 0, NULL, 0}};
    struct option known[4] = {names[0]}; /* metrics has no other */
    int what;
    if (!request->metrics)
        memcpy(known, names, sizeof(known));
    while ((what = command_option(command, count, arguments, "", known, NULL)) !=
           COMMAND_OPTIONS_END) {
        if (what == COMMAND_OPTION_WRONG)
            return false;
        request->once |= what == 'o';
        request->json |= what == 'j';
    }
    if (optind + 1 < count)
        return command_refuse(command, "one process at a time, and not also %s",
                              arguments[optind + 1]);
    if (optind < count && !pid_parse(arguments[optind], &request->pid))
        return command_refuse(command, "not the number of a process: %s", arguments[optind]);
    return true;
}

static int nothing_say(const struct request *request)
{
    if (request->pid != 0) {
        command_say(command,
                    "process %llu shares no figures; it does if started with VRAMALLOC_LIVE=1, "
                    "once it asks for device memory",
                    (unsigned long long)request->pid);
        return COMMAND_FAILED;
    }
    if (!request->metrics && !request->json)
        puts("No process of this user runs with VRAMALLOC_LIVE=1 and holds device memory.");
    return 0;
}

static int print_once(const struct request *request)
{
    struct live_process *list;
    size_t count;
    int code = 0;
    if (!live_list(request->pid, true, &list, &count)) {
        command_say(command, "%s cannot be read (%s)", LIVE_FOLDER, strerror(errno));
        return COMMAND_FAILED;
    }
    if (count == 0)
        code = nothing_say(request);
    if (request->metrics && count > 0)
        live_metrics_print(stdout, list, count);
    else if (request->json && code == 0)
        live_json_print(stdout, list, count);
    else if (!request->metrics && count > 0)
        live_table_print(stdout, list, count, TEXT_COLUMNS, INT_MAX, "\n");
    free(list);
    return command_end(command, code);
}

/* One picture, over the last. */
static void draw(const struct live_process *list, size_t count)
{
    static const char line_end[] = "\x1b[K\r\n";
    char clock[16] = "";
    int columns, lines;
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) != NULL)
        strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    screen_size(&columns, &lines);
    printf("\x1b[Hvramalloc top  %s  (q ends)  ", clock);
    live_table_print(stdout, list, count, columns, lines, line_end);
    fputs("\x1b[J", stdout);
    fflush(stdout);
}

static int watch(const struct request *request)
{
    struct live_process *list;
    size_t count;
    bool gone = false, going_on = true;
    screen_begin();
    while (going_on && !gone) {
        if (!live_list(request->pid, false, &list, &count))
            count = 0;
        gone = request->pid != 0 && count == 0;
        if (!gone)
            draw(list, count);
        free(list);
        going_on = !gone && screen_wait(REFRESH_MS);
    }
    screen_end();
    if (gone)
        return nothing_say(request);
    if (screen_signal() != 0 && screen_signal() != SIGINT) {
        signal(screen_signal(), SIG_DFL);
        raise(screen_signal());
    }
    return 0;
}

int main(int count, char **arguments)
{
    struct request request = {.metrics = count > 1 && strcmp(arguments[1], "metrics") == 0};
    if (count < 2 || (!request.metrics && strcmp(arguments[1], "top") != 0)) {
        fprintf(stderr, "vramalloc-live: the first word is top or metrics\n");
        return COMMAND_BAD_INPUT;
    }
    command = request.metrics ? &metrics : &top;
    if (!arguments_parse(count - 1, arguments + 1, &request))
        return COMMAND_BAD_INPUT;
    if (request.metrics || request.once || request.json || !screen_possible())
        return print_once(&request);
    return watch(&request);
}
