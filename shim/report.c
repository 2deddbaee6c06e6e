/* report.c - makes the report and writes it where the settings say. See report.h.
 */
#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "options.h"
#include "report_buffer.h"
#include "text.h"

enum { SHOWN_BYTES = 300 };

static struct report_buffer buffer;

double report_mean_ns(const struct report *report, const struct pool_history *history)
{
    double run_ns = report->seconds * 1e9, seen_ns = (double)(history->last_ns - history->first_ns);
    run_ns = run_ns > seen_ns ? run_ns : seen_ns;
    return run_ns > 1 ? run_ns : 1;
}

void report_print(struct report_buffer *to, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof(to->text) - to->used;
    va_start(arguments, format);
    int length = vsnprintf(to->text + to->used, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room)
        to->used += (size_t)length;
    else
        to->cut = true;
    to->text[to->used] = '\0';
}

/* The descriptor of the file that a pattern names; stderr, with a line that says why, if it cannot
 * be made. */
static int file_open(const char *pattern, const struct report *report)
{
    static char path[PATH_MAX], shown[SHOWN_BYTES]; /* the stack may be small */
    int error = ENAMETOOLONG;
    int fd = -1;
    if (report_path_expand(pattern, report, path, sizeof(path)))
        fd = report_path_open(path, &error);
    if (fd >= 0)
        return fd;
    log_line("the report cannot be written to \"%s\" (%s); it follows here",
             text_visible(pattern, shown, sizeof(shown)), strerror(error));
    return STDERR_FILENO;
}

static void write_failure_say(void)
{
    static char shown[SHOWN_BYTES];
    int error = errno;
    log_line("the report could not be written whole to \"%s\" (%s); it follows here",
             text_visible(options.report, shown, sizeof(shown)), strerror(error));
}

void report_write(const struct report *report)
{
    int saved_errno = errno;
    if (strcmp(options.report, "off") == 0)
        return;
    buffer.used = 0;
    buffer.cut = false;
    if (strcmp(options.report_format, "json") == 0)
        report_json_make(&buffer, report);
    else
        report_text_make(&buffer, report);
    if (buffer.cut)
        log_line("the report is longer than %d bytes and was cut", REPORT_BUFFER_BYTES);
    int fd =
        strcmp(options.report, "stderr") == 0 ? STDERR_FILENO : file_open(options.report, report);
    bool whole = log_write(fd, buffer.text, buffer.used);
    if (!whole && fd != STDERR_FILENO) {
        write_failure_say();
        log_write(STDERR_FILENO, buffer.text, buffer.used);
    }
    if (fd != STDERR_FILENO)
        close(fd);
    errno = saved_errno;
}
