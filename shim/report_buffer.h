/* report_buffer.h - text that grows in a fixed buffer and is written at once.
 *
 * What it leaves out: malloc. What does not fit is cut at a line's end, and said.
 * Lock: none; one report is made at a time.
 */
#ifndef VRAMALLOC_SHIM_REPORT_BUFFER_H
#define VRAMALLOC_SHIM_REPORT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "report.h"

enum { REPORT_BUFFER_BYTES = 512 << 10 };

struct report_buffer {
    char text[REPORT_BUFFER_BYTES];
    size_t used;
    bool cut;
};

/* Appends formatted text; all of it or, when it does not fit, nothing. */
void report_print(struct report_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* report_text.c and report_json.c */
void report_text_make(struct report_buffer *buffer, const struct report *report);
void report_json_make(struct report_buffer *buffer, const struct report *report);

/* report_latency.c: a device's part about how long calls took. */
void report_latency_text(struct report_buffer *buffer, const struct report_device *device);
void report_latency_json(struct report_buffer *buffer, const struct report_device *device);

/* report_json.c: a string as JSON: escaped; a byte that is no part of a UTF-8 character becomes
 * U+FFFD. */
void report_json_string(struct report_buffer *buffer, const char *text);

/* report_origins.c: who allocated, and whose the live blocks are. */
void report_callers_text(struct report_buffer *buffer, const struct report *report);
void report_callers_json(struct report_buffer *buffer, const struct report *report);
void report_live_text(struct report_buffer *buffer, const struct report *report,
                      const struct report_device *device);
void report_live_json(struct report_buffer *buffer, const struct report *report,
                      const struct report_device *device);

/* report_path.c: expands %p pid, %h host, %r rank, %e program, %% in a pattern. False: too long. */
bool report_path_expand(const char *pattern, const struct report *report, char *path,
                        size_t path_bytes);

/* report_path.c: opens a new file for writing; an existing one is left alone, the next free name of
 * PATH, PATH.1 ... PATH.99999 is taken and one line says so, the first time for a path. Character
 * devices and FIFOs are opened as they stand, without blocking; an open descriptor that PATH names
 * is copied, but for stderr. -1: *errno_out says why. */
int report_path_open(const char *path, int *errno_out);

/* The same for data that is mapped: for reading and writing, and nothing but a new regular file
 * will do. what: "trace" ..., for the line about another name. */
int report_path_open_new(const char *path, const char *what, int *errno_out);

/* What means are over: the run, or what the pool looked at where that is longer: its clock goes in
 * steps of some ms. Above 0. */
double report_mean_ns(const struct report *report, const struct pool_history *history);

#endif
