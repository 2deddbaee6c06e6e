/* log.c - one line on stderr. See log.h.
 *
 * A process that was started with stderr closed may get the number 2 for a file of its own: nothing
 * is ever written there. One that closes stderr later may as well: no exec can have left a
 * descriptor behind that is closed by one, and dup2 makes none, so where the number has that mark
 * and is another file than at the start it was opened under it, and nothing is written. A file
 * opened without the mark looks just as a stderr that was redirected by dup2, and is taken for one.
 */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024, PATIENCE_MS = 1000 };
static const char prefix[] = "vramalloc: ";
static bool stderr_missing;
static struct stat stderr_at_start;

__attribute__((constructor)) static void stderr_look(void)
{
    int saved_errno = errno;
    stderr_missing = fstat(STDERR_FILENO, &stderr_at_start) < 0 && errno == EBADF;
    errno = saved_errno;
}

/* The number 2 is a file of the program's own. */
static bool stderr_gone(void)
{
    struct stat now;
    int saved_errno = errno;
    int flags = stderr_missing ? 0 : fcntl(STDERR_FILENO, F_GETFD);
    bool opened = flags > 0 && (flags & FD_CLOEXEC) != 0 && fstat(STDERR_FILENO, &now) == 0 &&
                  (now.st_dev != stderr_at_start.st_dev || now.st_ino != stderr_at_start.st_ino);
    errno = saved_errno;
    return stderr_missing || opened;
}

/* A descriptor that does not block is full. False: nobody reads it. */
static bool room_wait(int fd)
{
    struct pollfd full = {.fd = fd, .events = POLLOUT};
    bool room = poll(&full, 1, PATIENCE_MS) > 0;
    if (!room)
        errno = EAGAIN;
    return room;
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, text, bytes);
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && room_wait(fd))))
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

/* A reader that is gone and a limit on the size of files are errors here, never the process's end;
 * nor is a thread cancelled here that may hold a lock: the program's call was no such point. */
bool log_write(int fd, const char *text, size_t bytes)
{
    sigset_t blocked, saved, before;
    int cancellable;
    if (fd == STDERR_FILENO && stderr_gone())
        return true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
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
    pthread_setcancelstate(cancellable, NULL);
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
