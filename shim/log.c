/* log.c - one line on stderr. See log.h. */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };
static const char prefix[] = "vramalloc: ";

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (size_t)written;
    }
    return true;
}

/* Takes back a signal that our own write raised; one that was pending before stays. */
static void signal_take_back(int number, const sigset_t *before)
{
    static const struct timespec at_once = {0, 0};
    sigset_t one;
    if (sigismember(before, number) == 1)
        return;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigtimedwait(&one, NULL, &at_once);
}

/* A reader that is gone and a limit on the size of files are errors here, never the process's end.
 */
bool log_write(int fd, const char *text, size_t bytes)
{
    sigset_t blocked, saved, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGPIPE);
    sigaddset(&blocked, SIGXFSZ);
    sigpending(&before);
    pthread_sigmask(SIG_BLOCK, &blocked, &saved);
    bool whole = write_all(fd, text, bytes);
    int saved_errno = errno;
    if (!whole) {
        signal_take_back(SIGPIPE, &before);
        signal_take_back(SIGXFSZ, &before);
    }
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    errno = saved_errno;
    return whole;
}

void log_line(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    int saved_errno = errno;
    size_t used = sizeof(prefix) - 1;
    memcpy(line, prefix, used);
    va_start(arguments, format);
    int length = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
    va_end(arguments);
    if (length > 0)
        used += strlen(line + used);
    line[used++] = '\n';
    log_write(STDERR_FILENO, line, used);
    errno = saved_errno;
}
