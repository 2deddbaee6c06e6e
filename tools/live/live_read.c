/* live_read.c - finds and reads shared figures. See live_read.h.
 *
 * A file counts if it is a plain file of this user's own, named after this user, and has the mark.
 * Its owner is gone if no process has its number, or one that was started at another time, or one
 * that does not map the file (exec). That can only be told where process numbers are counted as
 * here (not another container's); else the file is shown, and left alone. Removing is by name: the
 * name could be another process's by then, of the same number, which the comparison just before
 * makes all but impossible; that process would show no figures, and come to no other harm.
 */
#define _GNU_SOURCE
#include "live_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 5, PATH_BYTES = 320 };
#define ATTEMPT_NS 2000000L

const struct live_figure live_figures[] = {
#define TOTAL true
#define LEVEL false
#define LIVE_FIGURE(name, kind, unit, source, meaning)                                             \
    {#name, meaning, kind, LIVE_##unit, offsetof(struct live_row, name)},
#include "../../shim/live.def"
#undef LIVE_FIGURE
#undef TOTAL
#undef LEVEL
};
const size_t live_figure_count = sizeof(live_figures) / sizeof(live_figures[0]);

enum verdict { FILE_GOOD, FILE_FOREIGN, FILE_OTHER_VERSION, FILE_EMPTY, FILE_BROKEN, FILE_LEFT };

/* Whether the process still maps the file. True where that cannot be read. */
static bool is_mapped(uint64_t pid, const char *path)
{
    char name[64], line[PATH_BYTES + 128];
    snprintf(name, sizeof(name), "/proc/%llu/maps", (unsigned long long)pid);
    FILE *maps = fopen(name, "re");
    if (maps == NULL)
        return true;
    bool found = false, any = false;
    while (!found && fgets(line, sizeof(line), maps) != NULL) {
        char *at = strchr(line, '/');
        any = true;
        line[strcspn(line, "\n")] = '\0';
        found = at != NULL && strcmp(at, path) == 0;
    }
    fclose(maps);
    return found || !any;
}

static bool is_left(const struct live_header *header, const char *path)
{
    char state = 0;
    uint64_t space = live_pid_space();
    if (space == 0 || header->pid_space != space)
        return false;
    uint64_t start = live_process_start(header->pid, &state);
    return start == 0 || start != header->start || state == 'Z' || state == 'X' ||
           !is_mapped(header->pid, path);
}

static bool sample_is_good(const struct live_sample *sample)
{
    return sample->number > 0 && sample->row_count <= LIVE_ROWS_MAX &&
           sample->checksum == live_sample_checksum(sample);
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

/* Takes the newer of the two samples and the one before it. False: neither is whole. */
static bool samples_take(const struct live_file *file, struct live_process *process)
{
    const struct live_sample *a = &file->samples[0], *b = &file->samples[1];
    bool a_good = sample_is_good(a), b_good = sample_is_good(b);
    if (!a_good && !b_good)
        return false;
    const struct live_sample *now = !b_good || (a_good && a->number > b->number) ? a : b;
    const struct live_sample *before = now == a ? b : a;
    process->now = *now;
    if (a_good && b_good && before->number + 1 == now->number)
        process->before = *before;
    else
        process->before = (struct live_sample){.time_ns = file->header.begin_ns};
    return true;
}

static void times_fill(struct live_process *process)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    process->seconds = seconds_between(process->header.begin_ns, process->now.time_ns);
    process->age_seconds = seconds_between(process->now.time_ns, now_ns);
}

static void strings_end(struct live_process *process)
{
    struct live_header *header = &process->header;
    header->program[sizeof(header->program) - 1] = '\0';
    header->free_mode[sizeof(header->free_mode) - 1] = '\0';
    header->backing[sizeof(header->backing) - 1] = '\0';
    for (uint64_t i = 0; i < process->now.row_count; i++)
        process->now.rows[i].name[sizeof(process->now.rows[i].name) - 1] = '\0';
}

static bool header_is_ours(const struct live_header *header)
{
    return memcmp(header->magic, LIVE_MAGIC, sizeof(header->magic)) == 0;
}

/* Reads an open file. A sample may be written meanwhile: tries again. */
static enum verdict file_read(int fd, const char *path, struct live_process *process)
{
    static struct live_file file;
    static const struct timespec pause = {.tv_nsec = ATTEMPT_NS};
    for (int i = 0; i < ATTEMPTS; i++) {
        memset(&file, 0, sizeof(file));
        ssize_t bytes = pread(fd, &file, sizeof(file), 0);
        if (bytes == 0 || (bytes > 0 && file.header.magic[0] == '\0'))
            return FILE_EMPTY; /* it is being made */
        if (bytes < (ssize_t)sizeof(file.header) || !header_is_ours(&file.header))
            return FILE_FOREIGN;
        if (is_left(&file.header, path))
            return FILE_LEFT;
        if (file.header.version != LIVE_VERSION || file.header.layout != live_layout())
            return FILE_OTHER_VERSION;
        process->header = file.header;
        if (bytes == (ssize_t)sizeof(file) &&
            file.header.checksum == live_header_checksum(&file.header)) {
            if (file.samples[0].number == 0 && file.samples[1].number == 0)
                return FILE_EMPTY;
            if (samples_take(&file, process))
                return FILE_GOOD;
        }
        nanosleep(&pause, NULL);
    }
    return FILE_BROKEN;
}

static void left_remove(int fd, const char *path)
{
    struct stat opened, named;
    if (fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
        opened.st_ino == named.st_ino)
        unlink(path);
}

static enum verdict path_read(const char *path, struct live_process *process)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? FILE_EMPTY : FILE_FOREIGN;
    enum verdict verdict = FILE_FOREIGN;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())
        verdict = file_read(fd, path, process);
    if (verdict == FILE_LEFT)
        left_remove(fd, path);
    close(fd);
    return verdict;
}

static void verdict_say(enum verdict verdict, const char *path)
{
    static const char *const said[] = {
        [FILE_FOREIGN] = "is no file of shared figures",
        [FILE_OTHER_VERSION] = "is of another version of vramalloc",
        [FILE_BROKEN] = "is cut short or damaged",
    };
    if (verdict < sizeof(said) / sizeof(said[0]) && said[verdict] != NULL)
        fprintf(stderr, "vramalloc: %s %s; it is passed over\n", path, said[verdict]);
}

static int by_pid(const void *a, const void *b)
{
    const struct live_process *one = a, *other = b;
    return (one->header.pid > other->header.pid) - (one->header.pid < other->header.pid);
}

/* One more element at the end of the list; NULL: no memory. */
static struct live_process *list_grow(struct live_process **list, size_t count)
{
    if ((count & (count - 1)) == 0) { /* a power of two: full */
        size_t room = count > 0 ? 2 * count : 1;
        struct live_process *more = reallocarray(*list, room, sizeof(**list));
        if (more == NULL)
            return NULL;
        *list = more;
    }
    return &(*list)[count];
}

bool live_list(uint64_t pid, bool notes, struct live_process **list_out, size_t *count_out)
{
    char prefix[64], path[PATH_BYTES];
    struct dirent *entry;
    DIR *folder = opendir(LIVE_FOLDER);
    *list_out = NULL;
    *count_out = 0;
    if (folder == NULL)
        return false;
    int length = snprintf(prefix, sizeof(prefix), LIVE_PREFIX "%u.", (unsigned)geteuid());
    bool whole = true;
    while (whole && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
            continue;
        struct live_process *next = list_grow(list_out, *count_out);
        whole = next != NULL;
        if (!whole)
            break;
        snprintf(path, sizeof(path), LIVE_FOLDER "/%s", entry->d_name);
        enum verdict verdict = path_read(path, next);
        if (verdict == FILE_GOOD && (pid == 0 || next->header.pid == pid)) {
            strings_end(next);
            times_fill(next);
            (*count_out)++;
        } else if (notes) {
            verdict_say(verdict, path);
        }
    }
    closedir(folder);
    if (*count_out > 1)
        qsort(*list_out, *count_out, sizeof(**list_out), by_pid);
    return whole;
}

/* --- what follows from the figures
 * ---------------------------------------------------------------- */

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : (double)NAN;
}

/* The same GPU one sample earlier; all zero where there is none. */
static struct live_row row_before(const struct live_process *process, const struct live_row *row)
{
    for (uint64_t i = 0; i < process->before.row_count; i++)
        if (process->before.rows[i].ordinal == row->ordinal)
            return process->before.rows[i];
    return (struct live_row){0};
}

static uint64_t grown(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

struct live_rates live_rates_of(const struct live_process *process, const struct live_row *row)
{
    struct live_row before = row_before(process, row);
    double passed = seconds_between(process->before.time_ns, process->now.time_ns);
    uint64_t allocations = grown(before.allocations, row->allocations);
    uint64_t served = grown(before.allocations_served, row->allocations_served);
    struct live_rates rates = {
        .hit_share = allocations > 0 ? share(served, allocations)
                                     : share(row->allocations_served, row->allocations),
        .external_fragmentation =
            share(grown(row->largest_free_bytes, row->free_bytes), row->free_bytes),
    };
    if (passed > 0) {
        rates.allocations = (double)allocations / passed;
        rates.frees = (double)grown(before.frees, row->frees) / passed;
        rates.wait_share = (double)grown(before.free_wait_ns, row->free_wait_ns) / 1e9 / passed;
    }
    return rates;
}
