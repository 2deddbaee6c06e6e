/* live.h - the figures that a process shares while it runs (VRAMALLOC_LIVE=1): layout and writer.
 *
 * A file /dev/shm/vramalloc.UID.PID, of the user's own (0600). One of its two samples is written
 * each second, the older one, by one thread of the process and with write(2): nothing is stored on
 * any path of the program's, and a file that somebody cuts short costs the process no SIGBUS. A
 * reader takes the newer of the two whose checksum is right; what changed from the other one gives
 * the rates.
 *
 *     header | sample 0: head, rows | sample 1: head, rows        one row a GPU
 *
 * The process also maps the file's first page and never touches it: a mapping goes with the
 * process, and with the program when it calls exec, and so tells readers (/proc/PID/maps) whether
 * the file's owner is still there. It is not the child's after a fork. Who started when tells a
 * number that is used again from the process that had it before; and the number counts in one space
 * of numbers only (a container's), whose own number is kept beside it.
 *
 * What it leaves out: reading (tools/live/). Lock: none; one thread writes, and removes as it ends.
 */
#ifndef VRAMALLOC_SHIM_LIVE_H
#define VRAMALLOC_SHIM_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_FOLDER "/dev/shm"
#define LIVE_PREFIX "vramalloc."
#define LIVE_MAGIC  "vramlive"

enum {
    LIVE_VERSION = 1,
    LIVE_ROWS_MAX = 64,
    LIVE_NAMES_MAX = 8, /* PID, PID.1 ...: where files of several spaces of numbers meet */
    LIVE_PERIOD_MS = 1000
};

struct live_row {
    int64_t ordinal; /* as the program numbers its devices */
    char name[96];   /* ends with a zero */
#define LIVE_FIGURE(name, kind, unit, source, meaning) uint64_t name;
#include "live.def"
#undef LIVE_FIGURE
};

struct live_sample {
    uint64_t checksum; /* of all that follows, up to the last row that counts */
    uint64_t number;   /* 1, 2, ...; 0: never written. Sample number % 2 of the file */
    uint64_t time_ns;  /* of CLOCK_MONOTONIC */
    uint64_t row_count;
    struct live_row rows[LIVE_ROWS_MAX];
};

/* The first five fields stay where they are in all versions. */
struct live_header {
    char magic[8];
    uint64_t version;
    uint64_t pid;
    uint64_t pid_space; /* inode of /proc/self/ns/pid; 0: not known */
    uint64_t start;     /* of the process, as field 22 of /proc/PID/stat; 0: not known */
    uint64_t checksum;  /* of all that follows */
    uint64_t layout;    /* live_layout() */
    uint64_t begin_ns;  /* CLOCK_MONOTONIC at the first CUDA call seen */
    int64_t rank;       /* RANK_UNKNOWN: none */
    char program[256];  /* strings end with a zero */
    char free_mode[16];
    char backing[16];
};

struct live_file {
    struct live_header header;
    struct live_sample samples[2];
};

struct report_device;

/* Writes the next sample; makes the file first where there is none. A file that cannot be made
 * costs one line on stderr, once. Called by one thread. */
void live_write(const struct report_device *devices, size_t count, uint64_t begin_ns);

/* Removes the file, if there is one. From the thread that writes, or when that has ended. */
void live_remove(void);

/* live_format.c, for both sides: FNV-1a. */
uint64_t live_checksum(const void *bytes, size_t count);
uint64_t live_layout(void); /* of the list in live.def */
uint64_t live_sample_checksum(const struct live_sample *sample);
uint64_t live_header_checksum(const struct live_header *header);

/* When a process was started (field 22 of /proc/PID/stat), and its state ('Z' ...). 0: not known.
 */
uint64_t live_process_start(uint64_t pid, char *state_out);

/* The space that this process's number counts in; 0: not known. */
uint64_t live_pid_space(void);

#endif
