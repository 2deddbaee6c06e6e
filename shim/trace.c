/* trace.c - writes the trace. See trace.h; the file's form is in trace_format.h.
 *
 *     file    | header, items | chunk of thread 0 | chunk of thread 1 | chunk of thread 0 | ...
 *
 * Every thread fills a chunk of its own, which is mapped from the file (MAP_SHARED): a record is 48
 * bytes stored in memory, without a lock or a system call, and what was stored is in the file
 * whatever becomes of the process (SIGKILL as well; not if the machine goes down). A full chunk is
 * unmapped and the next one taken from the file's end by one atomic addition. Its blocks are
 * reserved first (fallocate, or zeroes written where a file system has none), so a full disk is an
 * error here and no SIGBUS later. A thread that ends leaves its chunk to the next thread.
 *
 * An allocation is recorded when it has returned, a free when it begins, and completed in place: in
 * the order of time no address is handed out before it was freed. So records of one chunk are in
 * the order of time.
 *
 * Limit: the first chunk that does not fit ends the trace for all threads at once; from then on
 * events are counted in the header and not kept. A file that others truncate meanwhile ends the
 * program with SIGBUS, as it would with any mapping.
 *
 * What it leaves out: children made by fork (process_serves() is asked before any store, and
 * mappings are not handed on); calls of the program's before the first device is seen, which all
 * fail. Lock: trace_lock for opening, items, callers and spare chunks; a leaf.
 */
#define _GNU_SOURCE
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "devices.h"
#include "latency.h"
#include "log.h"
#include "options.h"
#include "process.h"
#include "report_buffer.h"
#include "text.h"
#include "units.h"

enum { STATE_CLOSED = 0, STATE_OPEN, STATE_FULL };
enum { FIRST_CHUNK_BYTES = TRACE_UNIT_BYTES, CHUNK_BYTES = 4 * TRACE_UNIT_BYTES };
enum { SPARES_MAX = 256, CALLERS_MAX = 1024, CALLER_SLOTS = 2048, MODULES_MAX = 256 };
enum { FD_LEAST = 100, SHOWN_BYTES = 300 };

/* A chunk that is being filled: next <= end; records from next on are zero. */
struct chunk {
    struct trace_chunk *start; /* NULL: none */
    struct trace_record *next, *end;
};

static __thread struct writer {
    struct chunk chunk;
    void *open_chunk;        /* that holds the record of a free which has not ended; NULL: none */
    uint64_t recent_ns;      /* the latest time known; valid inside a call */
    uint32_t calls;          /* of the program's that this thread is in */
    uint32_t number;         /* of the thread, + 1; 0: none yet */
    bool large;              /* its next chunk has CHUNK_BYTES */
    bool waited;             /* recent_ns is the end of a wait in this call */
    uint64_t waits_since_ns; /* the first wait of this call; 0: none yet */
    struct {                 /* the latest caller, of allocations and of frees */
        const void *address;
        uint16_t id;
    } caller[2];
} writer;

bool trace_on = true;

static uint32_t state; /* atomic */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static struct trace_header *header; /* unit 0, mapped; valid from STATE_OPEN on */
static char path[PATH_MAX];
static int file = -1;
static struct stat file_status; /* that `file` must be */
static uint64_t start_ns, limit_bytes;
static uint64_t next_offset;  /* atomic */
static uint32_t threads_seen; /* atomic */
static size_t items_used;
static pthread_key_t thread_key;
static bool thread_key_made;

static struct chunk spares[SPARES_MAX];
static size_t spare_count;

static struct caller {
    const void *address; /* written last; NULL: free */
    uint16_t id;
} callers[CALLER_SLOTS];
static uint16_t caller_count;

static struct module {
    uint64_t base;
    uint32_t id;
    const struct trace_item *item;
} modules[MODULES_MAX];
static uint32_t module_count;

/* --- items ------------------------------------------------------------------------------- */

/* NULL: there is no more room. */
static const struct trace_item *item_add_locked(enum trace_item_type type, uint32_t id,
                                                uint32_t other, uint64_t value, const char *text)
{
    size_t bytes = strlen(text);
    size_t whole = (sizeof(struct trace_item) + bytes + 7) / 8 * 8;
    if (whole > TRACE_UNIT_BYTES - items_used)
        return NULL;
    char *at = (char *)header + items_used;
    struct trace_item *item = (struct trace_item *)(void *)at;
    item->text_bytes = (uint16_t)bytes;
    item->id = id;
    item->other = other;
    item->value = value;
    memcpy(item + 1, text, bytes);
    __atomic_store_n(&item->type, (uint16_t)type, __ATOMIC_RELEASE);
    items_used += whole;
    return item;
}

static void settings_add_locked(void)
{
    const char *name;
    char text[64 + PATH_MAX];
    for (int i = 0; (name = options_setting_name(i)) != NULL; i++) {
        int used = snprintf(text, sizeof(text), "%s=", name);
        options_setting_text(i, text + used, sizeof(text) - (size_t)used);
        item_add_locked(TRACE_ITEM_SETTING, (uint32_t)i, 0, 0, text);
    }
}

/* --- the file ---------------------------------------------------------------------------- */

/* Inside, no signal of the file's size limit ends the process, and the thread is not cancelled. */
struct quiet {
    sigset_t saved, before;
    int cancellable, saved_errno;
};

static void quiet_begin(struct quiet *quiet)
{
    sigset_t blocked;
    quiet->saved_errno = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet->cancellable);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    sigpending(&quiet->before);
    pthread_sigmask(SIG_BLOCK, &blocked, &quiet->saved);
}

static void quiet_end(const struct quiet *quiet)
{
    static const struct timespec at_once = {0, 0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    if (sigismember(&quiet->before, SIGXFSZ) != 1)
        sigtimedwait(&one, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &quiet->saved, NULL);
    pthread_setcancelstate(quiet->cancellable, NULL);
    errno = quiet->saved_errno;
}

static bool zeroes_write(uint64_t offset, size_t bytes)
{
    static const char zeroes[4096];
    for (size_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof(zeroes) ? bytes - done : sizeof(zeroes);
        ssize_t written = pwrite(file, zeroes, part, (off_t)(offset + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        done += (size_t)written;
    }
    return true;
}

/* Makes sure that the disk has these bytes: a store to them is no SIGBUS. False: errno. */
static bool file_reserve(uint64_t offset, size_t bytes)
{
    int code;
    do
        code = fallocate(file, 0, (off_t)offset, (off_t)bytes);
    while (code != 0 && errno == EINTR);
    if (code == 0)
        return true;
    return (errno == EOPNOTSUPP || errno == ENOSYS) && zeroes_write(offset, bytes);
}

/* A program may close descriptors that are not its own, and open others under their numbers. */
static bool file_is_ours(void)
{
    struct stat now;
    if (fstat(file, &now) == 0 && now.st_dev == file_status.st_dev &&
        now.st_ino == file_status.st_ino)
        return true;
    errno = EBADF;
    return false;
}

/* Part of the file, all zeroes. NULL: errno. */
static void *file_map(uint64_t offset, size_t bytes)
{
    if (!file_is_ours() || !file_reserve(offset, bytes))
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

/* Nothing more is recorded. Only the first reason counts. */
static void stop(enum trace_stop why, int code)
{
    uint32_t open = STATE_OPEN;
    if (!__atomic_compare_exchange_n(&state, &open, STATE_FULL, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    header->lost_from_ns = clock_ns() - start_ns;
    header->stop_errno = code;
    __atomic_store_n(&header->stop, (uint32_t)why, __ATOMIC_RELEASE);
    if (why == TRACE_LIMIT)
        log_line("the trace is full at VRAMALLOC_TRACE_LIMIT (%s): further events are only counted",
                 unit_bytes(limit_bytes).text);
    else
        log_line("the trace cannot grow (%s): further events are only counted", strerror(code));
}

static void end_raise(uint64_t end)
{
    uint64_t seen = __atomic_load_n(&header->end_bytes, __ATOMIC_RELAXED);
    while (end > seen && !__atomic_compare_exchange_n(&header->end_bytes, &seen, end, true,
                                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* A new chunk at the file's end. False: the trace has ended. */
static bool chunk_make(uint32_t bytes, struct chunk *chunk)
{
    uint64_t offset = __atomic_fetch_add(&next_offset, bytes, __ATOMIC_RELAXED);
    if (limit_bytes != 0 && offset + bytes > limit_bytes) {
        stop(TRACE_LIMIT, 0);
        return false;
    }
    struct trace_chunk *start = file_map(offset, bytes);
    if (start == NULL) {
        stop(TRACE_ERROR, errno);
        return false;
    }
    end_raise(offset + bytes);
    start->bytes = bytes;
    start->first_ns = clock_ns() - start_ns;
    start->thread = writer.number - 1;
    start->tid = (int32_t)syscall(SYS_gettid);
    prctl(PR_GET_NAME, start->name);
    __atomic_store_n(&start->magic, TRACE_CHUNK_MAGIC, __ATOMIC_RELEASE);
    struct trace_record *rows = (struct trace_record *)(void *)start;
    *chunk = (struct chunk){start, rows + 1, rows + bytes / sizeof(*rows)};
    return true;
}

/* --- a thread's chunk -------------------------------------------------------------------- */

/* The end of a thread: another one may go on where it stopped. */
static void thread_end(void *arg)
{
    (void)arg;
    struct chunk left = writer.chunk;
    writer.chunk = (struct chunk){0};
    if (left.start == NULL || !process_serves())
        return;
    pthread_mutex_lock(&trace_lock);
    bool kept = left.next < left.end && left.start != writer.open_chunk && spare_count < SPARES_MAX;
    if (kept)
        spares[spare_count++] = left;
    pthread_mutex_unlock(&trace_lock);
    if (!kept && left.start != writer.open_chunk)
        munmap(left.start, left.start->bytes);
}

/* Goes on in a chunk that an ended thread left. */
static bool spare_take(struct chunk *chunk)
{
    pthread_mutex_lock(&trace_lock);
    bool taken = spare_count > 0;
    if (taken)
        *chunk = spares[--spare_count];
    pthread_mutex_unlock(&trace_lock);
    if (!taken)
        return false;
    struct trace_record *record = chunk->next++;
    record->time_ns = clock_ns() - start_ns;
    record->address = writer.number - 1;
    record->bytes = (uint64_t)syscall(SYS_gettid);
    __atomic_store_n(&record->kind, TRACE_THREAD, __ATOMIC_RELEASE);
    return true;
}

/* The thread has a chunk with room for one record at least. False: the trace has ended. */
static bool chunk_renew(void)
{
    struct trace_chunk *full = writer.chunk.start;
    if (writer.number == 0)
        writer.number = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    if (full != NULL && full != writer.open_chunk) /* else the free's end unmaps it */
        munmap(full, full->bytes);
    writer.chunk = (struct chunk){0};
    if (full == NULL && thread_key_made)
        pthread_setspecific(thread_key, &writer);
    if (full == NULL && spare_take(&writer.chunk) && writer.chunk.next < writer.chunk.end)
        return true;
    if (writer.chunk.start != NULL)
        munmap(writer.chunk.start, writer.chunk.start->bytes);
    uint32_t bytes = writer.large ? CHUNK_BYTES : FIRST_CHUNK_BYTES;
    writer.large = true;
    return chunk_make(bytes, &writer.chunk);
}

static __attribute__((noinline, cold)) bool chunk_renew_quietly(void)
{
    struct quiet quiet;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_OPEN)
        return false;
    quiet_begin(&quiet);
    bool renewed = chunk_renew();
    if (!renewed)
        writer.chunk = (struct chunk){0};
    writer.recent_ns = clock_ns(); /* no record of this chunk is earlier than the chunk */
    quiet_end(&quiet);
    return renewed;
}

/* Room for a record, all zero. NULL: none is to be made, and if events are lost it is counted. */
static inline struct trace_record *record_take(void)
{
    if (!process_serves())
        return NULL;
    uint32_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (__builtin_expect(now == STATE_OPEN, 1)) {
        if (__builtin_expect(writer.chunk.next < writer.chunk.end, 1) || chunk_renew_quietly())
            return writer.chunk.next++;
        now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    }
    if (now == STATE_FULL)
        __atomic_fetch_add(&header->lost_events, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* --- callers ----------------------------------------------------------------------------- */

/* What /proc/self/maps says of an address. */
struct mapping {
    uint64_t base; /* the lowest address of the file that it lies in; 0: in none */
    char path[PATH_MAX];
};

static bool hex_parse(const char **text, uint64_t *value)
{
    const char *start = *text;
    *value = 0;
    for (;; ++*text) {
        int digit = **text >= '0' && **text <= '9'   ? **text - '0'
                    : **text >= 'a' && **text <= 'f' ? **text - 'a' + 10
                                                     : -1;
        if (digit < 0)
            return *text != start;
        *value = *value << 4 | (unsigned)digit;
    }
}

/* One line: start-end perms offset dev inode path. True: the address lies in it. */
static bool mapping_line(const char *line, uint64_t address, struct mapping *mapping)
{
    uint64_t start, end;
    if (!hex_parse(&line, &start) || *line++ != '-' || !hex_parse(&line, &end))
        return false;
    const char *name = strchr(line, '/');
    if (name != NULL && strcmp(name, mapping->path) != 0) {
        snprintf(mapping->path, sizeof(mapping->path), "%s", name);
        mapping->base = start;
    }
    if (address < start || address >= end)
        return false;
    if (name == NULL)
        *mapping = (struct mapping){0};
    return true;
}

/* Reads the list line by line. No dladdr: it takes the loader's lock, which another thread may hold
 * in a constructor that waits for this one. */
static bool mapping_find(uint64_t address, struct mapping *mapping)
{
    static char buffer[2 * PATH_MAX]; /* under trace_lock */
    size_t used = 0;
    bool found = false;
    ssize_t got;
    *mapping = (struct mapping){0};
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        return false;
    while (!found && (got = read(maps, buffer + used, sizeof(buffer) - 1 - used)) > 0) {
        char *line = buffer, *end;
        used += (size_t)got;
        buffer[used] = '\0';
        while (!found && (end = strchr(line, '\n')) != NULL) {
            *end = '\0';
            found = mapping_line(line, address, mapping);
            line = end + 1;
        }
        used -= (size_t)(line - buffer);
        memmove(buffer, line, used);
        if (used == sizeof(buffer) - 1) /* longer than any line */
            break;
    }
    close(maps);
    return found && mapping->base != 0;
}

/* The number of a module; 0: there is no room for it. */
static uint32_t module_id_locked(const struct mapping *mapping)
{
    size_t length = strlen(mapping->path);
    for (uint32_t i = 0; i < module_count; i++)
        if (modules[i].base == mapping->base && modules[i].item->text_bytes == length &&
            memcmp(modules[i].item + 1, mapping->path, length) == 0)
            return modules[i].id;
    if (module_count == MODULES_MAX)
        return 0;
    uint32_t id = module_count + 1;
    const struct trace_item *item =
        item_add_locked(TRACE_ITEM_MODULE, id, 0, mapping->base, mapping->path);
    if (item == NULL)
        return 0;
    modules[module_count++] = (struct module){mapping->base, id, item};
    return id;
}

static uint16_t caller_add_locked(const void *address, struct caller *slot)
{
    static struct mapping mapping; /* large for a small stack */
    uint64_t value = (uint64_t)(uintptr_t)address;
    if (caller_count == CALLERS_MAX)
        return 0;
    uint32_t module = mapping_find(value, &mapping) ? module_id_locked(&mapping) : 0;
    uint64_t offset = module != 0 ? value - mapping.base : value;
    uint16_t id = (uint16_t)(caller_count + 1);
    if (item_add_locked(TRACE_ITEM_CALLER, id, module, offset, "") == NULL) {
        caller_count = CALLERS_MAX; /* do not look for others either */
        return 0;
    }
    caller_count = id;
    slot->id = id;
    __atomic_store_n(&slot->address, address, __ATOMIC_RELEASE);
    return id;
}

/* The slot that has this address, or the free one for it. */
static struct caller *caller_slot(const void *address)
{
    size_t i = (size_t)(((uint64_t)(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
    for (;; i++) {
        struct caller *slot = &callers[i % CALLER_SLOTS];
        const void *there = __atomic_load_n(&slot->address, __ATOMIC_ACQUIRE);
        if (there == address || there == NULL)
            return slot;
    }
}

static __attribute__((noinline)) uint16_t caller_look_up(const void *address, bool is_free)
{
    struct caller *slot = caller_slot(address);
    uint16_t id = 0;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != STATE_OPEN)
        return 0;
    if (__atomic_load_n(&slot->address, __ATOMIC_ACQUIRE) != NULL) {
        id = slot->id;
    } else {
        struct quiet quiet;
        quiet_begin(&quiet);
        pthread_mutex_lock(&trace_lock);
        slot = caller_slot(address);
        id = slot->address != NULL ? slot->id : caller_add_locked(address, slot);
        pthread_mutex_unlock(&trace_lock);
        quiet_end(&quiet);
    }
    writer.caller[is_free].address = address;
    writer.caller[is_free].id = id;
    return id;
}

static inline uint16_t caller_id(const void *address, bool is_free)
{
    return __builtin_expect(writer.caller[is_free].address == address, 1)
               ? writer.caller[is_free].id
               : caller_look_up(address, is_free);
}

/* --- opening and ending ------------------------------------------------------------------ */

static void header_fill(uint64_t unix_ns)
{
    header->version = TRACE_VERSION;
    header->byte_order = TRACE_BYTE_ORDER;
    header->record_bytes = sizeof(struct trace_record);
    header->unit_bytes = TRACE_UNIT_BYTES;
    header->start_ns = start_ns;
    header->start_unix_ns = unix_ns;
    header->limit_bytes = limit_bytes;
    header->end_bytes = TRACE_UNIT_BYTES;
    header->pid = getpid();
    snprintf(header->program, sizeof(header->program), "%s", program_invocation_short_name);
    gethostname(header->host, sizeof(header->host) - 1);
}

/* The file that the pattern names, under a number that programs seldom have. False: errno. */
static bool file_open(void)
{
    static struct report report; /* for the pattern; large for a small stack */
    int code = ENAMETOOLONG;
    report.pid = getpid();
    strncpy(report.program, program_invocation_short_name, sizeof(report.program) - 1);
    int fd = report_path_expand(options.trace, &report, path, sizeof(path))
                 ? report_path_open_new(path, "trace", &code)
                 : -1;
    if (fd >= 0) {
        file = fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);
        if (file < 0) /* few are allowed */
            file = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        code = errno;
        close(fd);
    }
    errno = code;
    return file >= 0 && fstat(file, &file_status) == 0;
}

/* False: errno says why there is no trace. */
static bool open_locked(uint64_t total_bytes)
{
    uint64_t magic;
    limit_bytes = options_size_resolve(&options.trace_limit, total_bytes);
    if (!file_open())
        return false;
    header = file_map(0, TRACE_UNIT_BYTES);
    if (header == NULL)
        return false;
    next_offset = TRACE_UNIT_BYTES;
    items_used = sizeof(*header);
    start_ns = clock_ns();
    header_fill(clock_read_ns(CLOCK_REALTIME));
    settings_add_locked();
    thread_key_made = pthread_key_create(&thread_key, thread_end) == 0;
    memcpy(&magic, TRACE_MAGIC, sizeof(magic));
    __atomic_store_n((uint64_t *)(void *)header->magic, magic, __ATOMIC_RELEASE);
    return true;
}

static void refuse_locked(int code)
{
    char shown[SHOWN_BYTES];
    __atomic_store_n(&trace_on, false, __ATOMIC_RELAXED);
    if (file >= 0)
        close(file);
    file = -1;
    log_line("the trace cannot be made in \"%s\" (%s): there will be none",
             text_visible(options.trace, shown, sizeof(shown)), strerror(code));
}

void trace_settle(void)
{
    if (strcmp(options.trace, "off") == 0)
        __atomic_store_n(&trace_on, false, __ATOMIC_RELAXED);
}

void trace_device(int ordinal, uint64_t total_bytes, const char *name)
{
    struct quiet quiet;
    if (!trace_wanted() || !process_serves())
        return;
    quiet_begin(&quiet);
    pthread_mutex_lock(&trace_lock);
    if (state == STATE_CLOSED && trace_on) {
        if (open_locked(total_bytes))
            __atomic_store_n(&state, STATE_OPEN, __ATOMIC_RELEASE);
        else
            refuse_locked(errno);
    }
    if (state != STATE_CLOSED)
        item_add_locked(TRACE_ITEM_DEVICE, (uint32_t)ordinal, 0, total_bytes, name);
    pthread_mutex_unlock(&trace_lock);
    quiet_end(&quiet);
}

void trace_end(void)
{
    char shown[SHOWN_BYTES];
    if (!trace_wanted() || !process_serves() ||
        __atomic_load_n(&state, __ATOMIC_ACQUIRE) == STATE_CLOSED)
        return;
    uint64_t lost = __atomic_load_n(&header->lost_events, __ATOMIC_RELAXED);
    __atomic_store_n(&header->ended, 1, __ATOMIC_RELEASE);
    if (lost > 0)
        log_line("%s event%s left out of the trace \"%s\"", unit_count(lost).text,
                 lost == 1 ? " was" : "s were", text_visible(path, shown, sizeof(shown)));
}

/* --- records ----------------------------------------------------------------------------- */

static inline uint64_t now_note(void)
{
    writer.recent_ns = clock_ns();
    return writer.recent_ns;
}

static inline void call_begin(uint64_t now_ns)
{
    writer.calls++;
    writer.recent_ns = now_ns;
    writer.waited = false;
    writer.waits_since_ns = 0;
    latency_slow_not_yet();
}

/* When the call turned slow or first waited; 0: neither. */
static inline uint64_t slow_since(void)
{
    uint64_t slow_ns = latency_slow_since(), waits_ns = writer.waits_since_ns;
    return waits_ns == 0 || (slow_ns != 0 && slow_ns < waits_ns) ? slow_ns : waits_ns;
}

struct trace_call trace_alloc_begin(const void *caller)
{
    call_begin(0);
    return (struct trace_call){.caller = caller};
}

void trace_alloc_end(const struct trace_call *call, enum trace_kind kind, int result,
                     uint64_t address, uint64_t bytes, uint64_t stream, bool served)
{
    writer.calls--;
    struct trace_record *record = record_take();
    if (record == NULL)
        return;
    uint64_t end_ns = now_note(), slow_ns = slow_since();
    record->time_ns = end_ns - start_ns;
    record->duration_ns = slow_ns != 0 ? end_ns - slow_ns : 0;
    record->address = address;
    record->bytes = bytes;
    record->stream = stream;
    record->result = (uint16_t)result;
    record->caller = caller_id(call->caller, false); /* not before: the file may be new */
    record->context = context_number_latest();
    record->flags = served ? TRACE_SERVED : 0;
    __atomic_store_n(&record->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}

struct trace_call trace_free_begin(const void *caller, enum trace_kind kind, uint64_t address,
                                   uint64_t stream, bool served)
{
    struct trace_call call = {.outer_chunk = writer.open_chunk};
    uint16_t known = caller_id(caller, true);
    struct trace_record *record = record_take();
    call.begin_ns = clock_ns();
    call_begin(call.begin_ns);
    call.record = record;
    if (record == NULL)
        return call;
    call.chunk = writer.open_chunk = writer.chunk.start;
    record->time_ns = call.begin_ns - start_ns;
    record->address = address;
    record->stream = stream;
    record->result = TRACE_PENDING;
    record->caller = known;
    record->flags = served ? TRACE_SERVED : 0;
    __atomic_store_n(&record->kind, (uint8_t)kind, __ATOMIC_RELEASE);
    return call;
}

void trace_free_end(const struct trace_call *call, int result)
{
    writer.calls--;
    if (call->record == NULL)
        return;
    if (writer.waited)
        call->record->duration_ns = writer.recent_ns - call->begin_ns;
    else if (slow_since() != 0)
        call->record->duration_ns = clock_ns() - call->begin_ns;
    call->record->context = context_number_latest();
    __atomic_store_n(&call->record->result, (uint16_t)result, __ATOMIC_RELEASE);
    writer.open_chunk = call->outer_chunk;
    if (call->chunk != writer.chunk.start && call->chunk != call->outer_chunk)
        munmap(call->chunk, ((struct trace_chunk *)call->chunk)->bytes);
}

void trace_passed(const void *caller, uint64_t bytes)
{
    struct trace_call call = trace_alloc_begin(caller);
    trace_alloc_end(&call, TRACE_PASSED, 0, 0, bytes, TRACE_STREAM_NONE, false);
}

uint64_t trace_recent_ns(void)
{
    return writer.calls > 0 && writer.recent_ns != 0 ? writer.recent_ns : now_note();
}

/* Lasted from begin_ns to end_ns. A record that begins a chunk is not earlier than the chunk. */
static void event_write(enum trace_kind kind, uint64_t begin_ns, uint64_t end_ns,
                        const struct trace_record *what)
{
    struct trace_record *record = record_take();
    if (record == NULL)
        return;
    record->time_ns = (end_ns > writer.recent_ns ? end_ns : writer.recent_ns) - start_ns;
    record->duration_ns = end_ns - begin_ns;
    record->address = what->address;
    record->bytes = what->bytes;
    record->stream = what->stream;
    record->result = what->result;
    record->context = what->context;
    __atomic_store_n(&record->kind, (uint8_t)kind, __ATOMIC_RELEASE);
}

void trace_event(enum trace_kind kind, uint64_t begin_ns, uint64_t address, uint64_t bytes,
                 int result, uint16_t context)
{
    struct trace_record what = {
        .address = address, .bytes = bytes, .result = (uint16_t)result, .context = context};
    if (begin_ns != 0 && trace_wanted())
        event_write(kind, begin_ns, now_note(), &what);
}

void trace_fence(uint64_t stream, uint16_t context)
{
    struct trace_record what = {.stream = stream, .context = context};
    uint64_t now_ns = trace_recent_ns();
    event_write(TRACE_FENCE, now_ns, now_ns, &what);
}

void trace_wait(uint64_t begin_ns, int result, uint16_t context)
{
    struct trace_record what = {.result = (uint16_t)result, .context = context};
    uint64_t now_ns = now_note();
    writer.waited = true;
    if (writer.waits_since_ns == 0)
        writer.waits_since_ns = begin_ns;
    if (now_ns >= begin_ns + TRACE_WAIT_LEAST_NS)
        event_write(TRACE_WAIT, begin_ns, now_ns, &what);
}
