/* log.h - one line on stderr, from a stack buffer by write(2).
 *
 * What it leaves out: levels, files, stdout, malloc. Lock: none; one write(2) a line. errno is
 * kept.
 */
#ifndef VRAMALLOC_SHIM_LOG_H
#define VRAMALLOC_SHIM_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "vramalloc: " + the formatted text + newline to stderr. Longer than 1000 bytes is cut. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* log_line(), the first time that this place in the sources is reached. */
#define log_once(...)                                                                              \
    do {                                                                                           \
        static bool said;                                                                          \
        if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))                                   \
            log_line(__VA_ARGS__);                                                                 \
    } while (0)

/* Writes bytes to a descriptor; one that does not block and is full is waited for, 1 s at most.
 * Nothing is written to stderr where the process was started without, or opened another file under
 * its number that an exec closes. False: not all could be
 * written, and errno says why. */
bool log_write(int fd, const char *text, size_t bytes);

#endif
