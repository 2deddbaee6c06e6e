/* live.c - shares the figures of this process. See live.h.
 *
 * The file is opened anew for each sample and compared with the one that was made: a descriptor
 * that stays open could be closed by the program, and its number be given to a file of the
 * program's.
 */
#define _GNU_SOURCE
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "options.h"
#include "rank.h"
#include "report.h"

static struct {
    char path[64];
    dev_t device;
    ino_t inode;
    bool made;
    bool impossible; /* it was said */
    uint64_t number;
    struct live_header header;
    struct live_sample sample;
} live;

static void header_fill(uint64_t begin_ns)
{
    struct live_header *header = &live.header;
    char state;
    memset(header, 0, sizeof(*header));
    memcpy(header->magic, LIVE_MAGIC, sizeof(header->magic));
    header->version = LIVE_VERSION;
    header->pid = (uint64_t)getpid();
    header->pid_space = live_pid_space();
    header->start = live_process_start(header->pid, &state);
    header->layout = live_layout();
    header->begin_ns = begin_ns;
    header->rank = rank_number();
    snprintf(header->program, sizeof(header->program), "%s", program_invocation_short_name);
    snprintf(header->free_mode, sizeof(header->free_mode), "%s", options.free_mode);
    snprintf(header->backing, sizeof(header->backing), "%s", options.backing);
    header->checksum = live_header_checksum(header);
}

/* A file of our own number and space of numbers has lost its owner: the number is ours now. */
static void predecessor_remove(void)
{
    struct live_header header;
    struct stat status;
    int fd = open(live.path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        read(fd, &header, sizeof(header)) == (ssize_t)sizeof(header) &&
        memcmp(header.magic, LIVE_MAGIC, sizeof(header.magic)) == 0 &&
        header.pid == live.header.pid && header.pid_space == live.header.pid_space)
        unlink(live.path);
    close(fd);
}

static int file_create(void)
{
    return open(live.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Opens a new file under the first name that is free. -1: errno says why not. */
static int name_take(void)
{
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < LIVE_NAMES_MAX && fd < 0 && errno == EEXIST; i++) {
        int length = snprintf(live.path, sizeof(live.path), LIVE_FOLDER "/" LIVE_PREFIX "%u.%llu",
                              (unsigned)geteuid(), (unsigned long long)live.header.pid);
        if (i > 0)
            snprintf(live.path + length, sizeof(live.path) - (size_t)length, ".%d", i);
        fd = file_create();
        if (fd < 0 && errno == EEXIST) {
            predecessor_remove();
            fd = file_create();
        }
    }
    return fd;
}

/* The mark of life that /proc/PID/maps shows. */
static void mark_map(int fd)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *mark = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mark != MAP_FAILED)
        madvise(mark, bytes, MADV_DONTFORK);
}

static bool file_make(uint64_t begin_ns)
{
    struct stat status;
    header_fill(begin_ns);
    int fd = name_take();
    bool sized = fd >= 0 && fchmod(fd, 0600) == 0 && ftruncate(fd, sizeof(struct live_file)) == 0;
    if (sized)
        mark_map(
            fd); /* before the header: a reader takes a file with one and no mark for left behind */
    bool made = sized && fstat(fd, &status) == 0 &&
                pwrite(fd, &live.header, sizeof(live.header), 0) == (ssize_t)sizeof(live.header);
    if (made) {
        live.device = status.st_dev;
        live.inode = status.st_ino;
    } else {
        log_line("VRAMALLOC_LIVE: the figures cannot be shared in \"%s\" (%s)", live.path,
                 strerror(errno));
        if (fd >= 0)
            unlink(live.path);
        live.impossible = true;
    }
    if (fd >= 0)
        close(fd);
    return made;
}

static void row_fill(struct live_row *row, const struct report_device *device)
{
    row->ordinal = device->ordinal;
    memcpy(row->name, device->name, sizeof(row->name));
    row->name[sizeof(row->name) - 1] = '\0';
#define LIVE_FIGURE(name, kind, unit, source, meaning) row->name = device->source;
#include "live.def"
#undef LIVE_FIGURE
}

/* Whether the name still leads to the file that we made. */
static bool is_ours(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == live.device && status.st_ino == live.inode;
}

static void sample_write(void)
{
    size_t bytes =
        offsetof(struct live_sample, rows) + live.sample.row_count * sizeof(struct live_row);
    off_t offset = (off_t)(offsetof(struct live_file, samples) +
                           (live.sample.number % 2) * sizeof(struct live_sample));
    int fd = open(live.path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (is_ours(fd) && pwrite(fd, &live.sample, bytes, offset) == (ssize_t)bytes)
        live.number = live.sample.number;
    close(fd);
}

void live_write(const struct report_device *devices, size_t count, uint64_t begin_ns)
{
    _Static_assert(sizeof(live.sample.rows[0].name) == sizeof(devices[0].name), "names fit");
    if (live.impossible || (!live.made && !file_make(begin_ns)))
        return;
    live.made = true;
    live.sample.number = live.number + 1;
    live.sample.time_ns = clock_ns();
    live.sample.row_count = count < LIVE_ROWS_MAX ? count : LIVE_ROWS_MAX;
    for (size_t i = 0; i < live.sample.row_count; i++)
        row_fill(&live.sample.rows[i], &devices[i]);
    live.sample.checksum = live_sample_checksum(&live.sample);
    sample_write();
}

void live_remove(void)
{
    struct stat status;
    if (live.made && lstat(live.path, &status) == 0 && status.st_dev == live.device &&
        status.st_ino == live.inode)
        unlink(live.path);
    live.made = false;
    live.impossible = true;
}
