/* trace_format.h - the trace file, as the library writes it and the tools read it.
 *
 *     unit 0    struct trace_header, then items: settings, devices, modules, callers
 *     unit 1..  chunks: struct trace_chunk, then records, in the order of time
 *
 * A unit is TRACE_UNIT_BYTES. A chunk is one or more units, is filled by one thread at a time, and
 * starts at a unit; a unit that starts with zeroes was never filled and is passed over. Records,
 * items and chunks are written with what makes them valid last (kind, type, magic), so a file whose
 * writer was killed is right up to its last record: what follows is zero.
 *
 * All numbers are of the byte order of the machine that wrote them; `byte_order` tells. Times are
 * nanoseconds since header.start_ns.
 *
 * What it leaves out: writing (trace.c) and reading (tools/trace/reader.c).
 */
#ifndef VRAMALLOC_SHIM_TRACE_FORMAT_H
#define VRAMALLOC_SHIM_TRACE_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define TRACE_MAGIC           "vratrace"
#define TRACE_CHUNK_MAGIC     0x6b6e6843u
#define TRACE_VERSION         1u
#define TRACE_BYTE_ORDER      0x01020304u
#define TRACE_UNIT_BYTES      65536u
#define TRACE_CHUNK_MAX_BYTES (16 * TRACE_UNIT_BYTES)

/* What a record is. X(NAME, "name")
 *
 * Calls of the program. time_ns: of an allocation its end, of a free its beginning, so that in the
 * order of time no address is handed out before it was freed. duration_ns: of an allocation from
 * where it turned slow (the driver answers, memory comes or goes, a wait), of a free that turned
 * slow all of it, of one that waits for the GPU until that wait or the latest event behind it has
 * ended; 0: the pool had the answer at hand, and it was not timed.
 *   alloc, alloc_pitch, alloc_async   address, bytes asked for (of pitched memory with its
 * padding), stream free, free_async                  address, stream; bytes is 0 passed memory that
 * the library only counts: bytes; address is 0 Events of the pool. grow, shrink memory from the
 * driver, and back to it: address, bytes fence                             a mark in the GPU's
 * work: stream, or 0 for all of the context wait                              the host waited for
 * the GPU: duration_ns. Those of a free that took less than TRACE_WAIT_LEAST_NS are left out
 *   out_of_memory                     a request of `bytes` that neither pool nor driver could meet
 *   context_begin, context_end        address: the context's handle; bytes: its device's number
 * For the reader alone.
 *   thread                            the chunk is another thread's from here on: address is its
 *                                     number, bytes the kernel's */
#define TRACE_KINDS(X)                                                                             \
    X(ALLOC, "alloc")                                                                              \
    X(ALLOC_PITCH, "alloc_pitch")                                                                  \
    X(ALLOC_ASYNC, "alloc_async")                                                                  \
    X(FREE, "free")                                                                                \
    X(FREE_ASYNC, "free_async")                                                                    \
    X(PASSED, "passed")                                                                            \
    X(GROW, "grow")                                                                                \
    X(SHRINK, "shrink")                                                                            \
    X(FENCE, "fence")                                                                              \
    X(WAIT, "wait")                                                                                \
    X(OUT_OF_MEMORY, "out_of_memory")                                                              \
    X(CONTEXT_BEGIN, "context_begin")                                                              \
    X(CONTEXT_END, "context_end")                                                                  \
    X(THREAD, "thread")

enum trace_kind {
    TRACE_NOTHING = 0,
#define X(NAME, name) TRACE_##NAME,
    TRACE_KINDS(X)
#undef X
        TRACE_KIND_COUNT
};

#define TRACE_WAIT_LEAST_NS 1000u

enum trace_flag {
    TRACE_SERVED = 1 /* of a call: the address is the pool's, not the driver's */
};

/* record.result of a call that had not returned when the trace ended. */
#define TRACE_PENDING 0xffffu

/* record.stream. Other values are a stream's handle. */
enum { TRACE_STREAM_NONE = 0, TRACE_STREAM_LEGACY = 1, TRACE_STREAM_PER_THREAD = 2 };

struct trace_record {
    uint64_t time_ns;
    uint64_t duration_ns;
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    uint16_t result;  /* the driver's code that the program was given */
    uint16_t caller;  /* number of a caller item; 0: not known */
    uint16_t context; /* from 1, as context_begin has it; 0: not known */
    uint8_t flags;
    uint8_t kind; /* written last; 0: no record, nor any behind it in this chunk */
};

struct trace_chunk {
    uint32_t magic;    /* written last */
    uint32_t bytes;    /* of the whole chunk, a multiple of TRACE_UNIT_BYTES */
    uint64_t first_ns; /* no record is earlier */
    uint32_t thread;   /* its number in the trace, from 0 */
    int32_t tid;       /* the kernel's number */
    char name[16];     /* the thread's, as the kernel has it */
    uint64_t reserved;
};

/* Why a trace holds less than happened. */
enum trace_stop {
    TRACE_WHOLE = 0,
    TRACE_LIMIT, /* the file reached limit_bytes */
    TRACE_ERROR  /* stop_errno: the file could not grow */
};

struct trace_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint32_t record_bytes;
    uint32_t unit_bytes;
    uint64_t start_ns;      /* of CLOCK_MONOTONIC */
    uint64_t start_unix_ns; /* the same moment since 1970 */
    uint64_t limit_bytes;   /* 0: none */
    uint64_t end_bytes;     /* the file is at least this long */
    uint64_t lost_events;   /* that were not recorded */
    uint64_t lost_from_ns;  /* all earlier ones were; valid when stop is not TRACE_WHOLE */
    uint32_t stop;          /* enum trace_stop */
    int32_t stop_errno;
    int32_t pid;
    uint32_t ended; /* 1: the process ended in order; 0: it runs still, or was killed */
    char program[64];
    char host[64];
    uint8_t reserved[264];
};

enum trace_item_type {
    TRACE_ITEM_NONE = 0,
    TRACE_ITEM_SETTING, /* text: NAME=value */
    TRACE_ITEM_DEVICE,  /* id: its number; value: bytes of the card; text: its name */
    TRACE_ITEM_MODULE,  /* id; value: the lowest address of the file in memory; text: its path */
    TRACE_ITEM_CALLER,  /* id; value: return address less the module's lowest; other: module's id,
                           0 where it lies in none */
    TRACE_ITEM_TYPES
};

/* Followed by text, without a zero. The next one follows at a multiple of 8. */
struct trace_item {
    uint16_t type; /* written last; 0: no more */
    uint16_t text_bytes;
    uint32_t id;
    uint32_t other;
    uint32_t reserved;
    uint64_t value;
};

static_assert(sizeof(struct trace_record) == 48, "records are as the format says");
static_assert(sizeof(struct trace_chunk) == sizeof(struct trace_record), "a chunk is 48-byte rows");
static_assert(sizeof(struct trace_header) == 480, "the header is as the format says");
static_assert(sizeof(struct trace_item) == 24, "items are as the format says");

#endif
