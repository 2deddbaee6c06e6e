/* report_path.c - where a report file goes: patterns, and files that harm nobody.
 *
 * A report is a new file of mode 0600, made with O_EXCL and O_NOFOLLOW: no existing file is
 * truncated and no symbolic link is followed, whoever planted it. If the name is taken, the next
 * free number is appended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report_buffer.h"

enum { NUMBER_MAX = 999 };

/* The variables by which launchers tell a process its rank, most specific first. */
static const char *const rank_variables[] = {
    "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
    "SLURM_PROCID",         "RANK",      "JOB_COMPLETION_INDEX"};

struct path {
    char *text;
    size_t room;
    size_t used;
    bool too_long;
};

static void path_put(struct path *path, char c)
{
    if (path->used + 1 < path->room) {
        path->text[path->used++] = c;
        path->text[path->used] = '\0';
    } else {
        path->too_long = true;
    }
}

/* A value must not add folders to the path. */
static void path_put_value(struct path *path, const char *value)
{
    for (; *value != '\0'; value++)
        path_put(path, *value == '/' ? '_' : *value);
}

static const char *rank_text(void)
{
    for (size_t i = 0; i < sizeof(rank_variables) / sizeof(rank_variables[0]); i++) {
        const char *value = getenv(rank_variables[i]);
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return "0";
}

static void path_put_host(struct path *path)
{
    char host[256] = "localhost";
    gethostname(host, sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    path_put_value(path, host);
}

static void path_put_letter(struct path *path, char letter, const struct report *report)
{
    char number[16];
    switch (letter) {
    case 'p':
        snprintf(number, sizeof(number), "%d", report->pid);
        path_put_value(path, number);
        break;
    case 'h':
        path_put_host(path);
        break;
    case 'r':
        path_put_value(path, rank_text());
        break;
    case 'e':
        path_put_value(path, report->program);
        break;
    case '%':
        path_put(path, '%');
        break;
    default: /* not ours: kept as it stands */
        path_put(path, '%');
        path_put(path, letter);
    }
}

bool report_path_expand(const char *pattern, const struct report *report, char *text,
                        size_t text_bytes)
{
    struct path path = {.text = text, .room = text_bytes};
    text[0] = '\0';
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '%' && pattern[1] != '\0')
            path_put_letter(&path, *++pattern, report);
        else
            path_put(&path, *pattern);
    }
    return !path.too_long;
}

int report_path_open(const char *path, int *errno_out)
{
    char numbered[PATH_MAX + 8];
    for (int number = 0; number <= NUMBER_MAX; number++) {
        if (number == 0)
            snprintf(numbered, sizeof(numbered), "%s", path);
        else
            snprintf(numbered, sizeof(numbered), "%s.%d", path, number);
        int fd = open(numbered, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        *errno_out = errno;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}
