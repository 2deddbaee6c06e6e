/* report_path.c - where a report file goes: patterns, and files that harm nobody.
 *
 * A report is a new file of mode 0600, made with O_EXCL and O_NOFOLLOW: no existing file is
 * truncated and no symbolic link is followed, whoever planted it. If the name is taken, the next
 * free number is appended, and that is said, once for a path: a process may make many reports, of
 * which each begins to look behind the number of the one before. A character device (/dev/null, a
 * terminal) or a FIFO is written to as it stands, and so is an open descriptor: /dev/stdout,
 * /dev/fd/3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "rank.h"
#include "report_buffer.h"
#include "text.h"

enum { NUMBER_MAX = 99999, SHOWN_BYTES = 300 };

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
        path_put_value(path, rank_text() != NULL ? rank_text() : "0");
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

static bool takes_text(mode_t mode)
{
    return S_ISCHR(mode) || S_ISFIFO(mode);
}

/* Opens what is there already, if it is nothing that a report could harm. It must not block: a FIFO
 * may have no reader. -1: it is no such thing, and errno is EEXIST; or errno says why it cannot be
 * opened. */
static int existing_open(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0 || !(takes_text(status.st_mode) || S_ISDIR(status.st_mode))) {
        errno = EEXIST;
        return -1;
    }
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &status) != 0 || !takes_text(status.st_mode))) {
        close(fd);
        errno = EEXIST;
        return -1;
    }
    return fd;
}

/* The descriptor that a path names; -1: it names none. */
static int descriptor_named(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        size_t start = strlen(folders[i]);
        if (strncmp(path, folders[i], start) != 0 || path[start] == '\0' ||
            path[start + strspn(path + start, "0123456789")] != '\0')
            continue;
        unsigned long number = strtoul(path + start, NULL, 10);
        return number < INT_MAX ? (int)number : INT_MAX;
    }
    return -1;
}

/* A copy of an open descriptor, or stderr itself; -1 if it cannot be written to. */
static int descriptor_open(int number)
{
    int flags = fcntl(number, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    return number == STDERR_FILENO ? number : fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static void taken_say(const char *what, const char *numbered, const char *path)
{
    static char shown[2][SHOWN_BYTES];
    log_line("the %s is in \"%s\", since \"%s\" exists", what,
             text_visible(numbered, shown[0], SHOWN_BYTES),
             text_visible(path, shown[1], SHOWN_BYTES));
}

/* existing: opens what has the name already, or says EEXIST. */
static int numbered_open(const char *path, int access, const char *what,
                         int (*existing)(const char *path), int *errno_out)
{
    static char numbered[PATH_MAX + 8];
    static struct { /* where the last file of a number went */
        char path[PATH_MAX];
        int number;
    } last;
    bool again = strcmp(path, last.path) == 0;
    for (int number = 0; number <= NUMBER_MAX; number++) {
        if (number == 0)
            snprintf(numbered, sizeof(numbered), "%s", path);
        else
            snprintf(numbered, sizeof(numbered), "%s.%d", path, number);
        int fd = open(numbered, access | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno == EEXIST && number == 0)
            fd = existing(numbered);
        *errno_out = errno;
        if (fd >= 0 && number > 0 && !again)
            taken_say(what, numbered, path);
        if (fd >= 0 && number > 0) {
            snprintf(last.path, sizeof(last.path), "%s", path);
            last.number = number;
        }
        if (fd >= 0 || *errno_out != EEXIST)
            return fd;
        if (number == 0 && again)
            number = last.number;
    }
    return -1;
}

int report_path_open(const char *path, int *errno_out)
{
    int named = descriptor_named(path);
    if (named < 0)
        return numbered_open(path, O_WRONLY, "report", existing_open, errno_out);
    int fd = descriptor_open(named);
    *errno_out = errno;
    return fd;
}

/* Devices, folders and the like: nothing beside them is meant either. */
static int existing_refuse(const char *path)
{
    struct stat status;
    errno = EEXIST;
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        errno = S_ISDIR(status.st_mode) ? EISDIR : EOPNOTSUPP;
    return -1;
}

int report_path_open_new(const char *path, const char *what, int *errno_out)
{
    if (descriptor_named(path) >= 0) {
        *errno_out = EOPNOTSUPP;
        return -1;
    }
    return numbered_open(path, O_RDWR, what, existing_refuse, errno_out);
}
