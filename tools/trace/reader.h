/* reader.h - reads a trace file (shim/trace_format.h), event by event in the order of time.
 *
 * Takes any bytes: what is no trace, is cut short or does not add up is refused with a reason in
 * one line. A trace whose process was killed, or still runs, is read up to its last record.
 *
 * What it leaves out: what the events mean together, other forms. Lock: none; a reader is
 * one thread's. Host memory: 16 KiB for each thread of the trace that is active at a time.
 */
#ifndef VRAMALLOC_TRACE_READER_H
#define VRAMALLOC_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../shim/trace_format.h"

enum { READER_REASON_BYTES = 256 };

/* Fields as in struct trace_record. */
struct reader_event {
    uint64_t time_ns;
    uint64_t duration_ns;
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint32_t thread; /* its number in the trace */
    int32_t tid;     /* the kernel's number of it */
    uint16_t result;
    uint16_t caller;
    uint16_t context;
    uint8_t flags;
    enum trace_kind kind; /* never TRACE_NOTHING or TRACE_THREAD */
};

/* A setting, device, module or caller; fields as in struct trace_item. */
struct reader_item {
    enum trace_item_type type;
    uint32_t id;
    uint32_t other;
    uint64_t value;
    const char *text; /* ends with a zero */
};

struct reader_info {
    const struct trace_header *header; /* its texts end with a zero */
    const struct reader_item *items;
    size_t item_count;
    uint64_t file_bytes;
    size_t chunk_count;
};

enum reader_status {
    READER_EVENT,  /* *event is set */
    READER_END,    /* no more */
    READER_DAMAGED /* reader_reason() says where; no more will come */
};

struct reader;

/* True if a file's first bytes say that it is a trace of this form, readable or not. */
bool reader_recognises(const char *path);

/* Opens a trace. NULL: `reason` says why in one line without a newline. */
struct reader *reader_open(const char *path, char reason[READER_REASON_BYTES]);
void reader_close(struct reader *reader);

/* Valid until reader_close(). */
const struct reader_info *reader_info(const struct reader *reader);

/* The item of this type and number; NULL: there is none. Cost: a scan. */
const struct reader_item *reader_item(const struct reader *reader, enum trace_item_type type,
                                      uint32_t id);

/* The next event. Cost: O(log threads). */
enum reader_status reader_next(struct reader *reader, struct reader_event *event);
const char *reader_reason(const struct reader *reader);

/* Back to the first event. */
void reader_rewind(struct reader *reader);

/* "alloc", "free" ...; "?" for what is no kind. */
const char *reader_kind_name(enum trace_kind kind);

/* True for a call of the program that gives memory, or takes it back, and did so. */
bool reader_is_alloc(const struct reader_event *event);
bool reader_is_free(const struct reader_event *event);

#endif
