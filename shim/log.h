/* log.h - one line on stderr, from a stack buffer by write(2).
 *
 * What it leaves out: levels, files, stdout, malloc. Lock: none; one write(2) a line. errno is kept.
 */
#ifndef VRAMALLOC_SHIM_LOG_H
#define VRAMALLOC_SHIM_LOG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Writes "vramalloc: " + the formatted text + newline to stderr. Longer than 1000 bytes is cut.
 * Async-signal-unsafe (vsnprintf). */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
