/* log.c - one line on stderr. See log.h. */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };
static const char prefix[] = "vramalloc: ";

bool log_write(int fd, const char *text, size_t bytes)
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
