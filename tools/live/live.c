/* live.c - vramalloc-live: what `vramalloc top` and `vramalloc metrics` run.
 *
 * Exit 0; 1: the process that was asked for shares no figures, or nothing can be read; 2: wrong
 * use.
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

#include "live_print.h"
#include "screen.h"

enum { REFRESH_MS = 1000, TEXT_COLUMNS = 80 };

struct request {
    bool metrics, once, json;
    uint64_t pid; /* 0: all */
};

static const char top_help[] = "usage: vramalloc top [--once] [--json] [PID]\n"
                               "\n"
                               "Shows what processes that run with VRAMALLOC_LIVE=1 hold and do, "
                               "those of this user or one of them,\n"
                               "brought up to date each second; q or ^C ends it.\n"
                               "\n"
                               "  --once   print it and end; also where the output is no terminal\n"
                               "  --json   the same as JSON, with every figure\n"
                               "\n"
                               "A row a process and GPU. LIVE: bytes that the program asked for; "
                               "HELD: taken from the driver;\n"
                               "FRAG: free memory outside the longest free run; ALLOC/s: "
                               "allocation calls; HIT: of these, served\n"
                               "from the pool; WAITS: time that frees waited for the GPU, of the "
                               "time that passed (more than 100%\n"
                               "with several threads). On 108 columns and more also FREE/s, PEAK "
                               "HELD, and OOM: allocations that\n"
                               "ran out of memory.\n";

static const char metrics_help[] =
    "usage: vramalloc metrics [PID]\n"
    "\n"
    "Prints the figures of processes that run with VRAMALLOC_LIVE=1, those of this user or one of "
    "them,\n"
    "in Prometheus' text format, as its node exporter reads it from files.\n";

static int refuse(const char *what, const char *text)
{
    fprintf(stderr, "vramalloc: %s%s\n", what, text);
    return 2;
}

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

/* Returns an exit code, or -1: go on. */
static int arguments_parse(int count, char **arguments, struct request *request)
{
    if (count < 2 || (strcmp(arguments[1], "top") != 0 && strcmp(arguments[1], "metrics") != 0))
        return refuse("usage: vramalloc-live top|metrics ...", "");
    request->metrics = strcmp(arguments[1], "metrics") == 0;
    for (int i = 2; i < count; i++) {
        const char *argument = arguments[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            return fputs(request->metrics ? metrics_help : top_help, stdout) < 0;
        if (!request->metrics && strcmp(argument, "--once") == 0)
            request->once = true;
        else if (!request->metrics && strcmp(argument, "--json") == 0)
            request->json = true;
        else if (argument[0] == '-')
            return refuse("unknown option ", argument);
        else if (request->pid != 0)
            return refuse("more than one process: ", argument);
        else if (!pid_parse(argument, &request->pid))
            return refuse("not the number of a process: ", argument);
    }
    return -1;
}

static int nothing_say(const struct request *request)
{
    if (request->pid != 0) {
        fprintf(stderr,
                "vramalloc: process %llu shares no figures; it does if started with "
                "VRAMALLOC_LIVE=1, once it asks for device memory\n",
                (unsigned long long)request->pid);
        return 1;
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
        fprintf(stderr, "vramalloc: %s cannot be read (%s)\n", LIVE_FOLDER, strerror(errno));
        return 1;
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
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "vramalloc: the output cannot be written (%s)\n", strerror(errno));
        code = 1;
    }
    return code;
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
    struct request request = {0};
    int code = arguments_parse(count, arguments, &request);
    if (code >= 0)
        return code;
    if (request.metrics || request.once || request.json || !screen_possible())
        return print_once(&request);
    return watch(&request);
}
