/* test_trace_file.c - shim/trace.c writes a trace in a process of its own, tools/trace/reader.c
 * reads it: several threads, a process that was killed, limits, files that are no traces, and
 * random damage. The damage is seeded; the seed is printed, and VRAMALLOC_TEST_SEED sets it. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../shim/latency.h"
#include "../../shim/options.h"
#include "../../shim/trace.h"
#include "../../tools/trace/reader.h"

enum { THREADS = 4, PAIRS = 8000, KILLED_PAIRS = 3000, SHORT_THREADS = 300, DAMAGES = 3000 };
enum { LONG_PAIR = 777, LONG_EVENTS = 12000, EVENTS = 2 * PAIRS + PAIRS / 10 + LONG_EVENTS };

/* --- what trace.c asks of the library ---------------------------------------------------- */

static const bool serves = true;
const bool *process_is_served = &serves;

__thread struct latency_thread latency_thread;

uint16_t context_number_latest(void)
{
    return 7;
}

/* --- writing, in a child ----------------------------------------------------------------- */

static char folder[] = "/tmp/vramalloc-trace-XXXXXX", path[64];

static void trace_open(const char *limit)
{
    setenv("VRAMALLOC_TRACE", path, 1);
    if (limit != NULL)
        setenv("VRAMALLOC_TRACE_LIMIT", limit, 1);
    options_load();
    trace_settle();
    trace_device(3, 80 * GIB, "a card");
}

static uint64_t address_of(uint64_t thread, uint64_t i)
{
    return (thread + 1) << 40 | i << 9;
}

/* What happens during a free; in one of them more than a chunk holds. */
static unsigned events_within(uint64_t i)
{
    return i == LONG_PAIR ? LONG_EVENTS : i % 10 == 0;
}

/* One allocation and its free. */
static void pair_write(uint64_t thread, uint64_t i)
{
    const void *caller = (const void *)(uintptr_t)&options_load; /* any code of this program */
    struct trace_call call = trace_alloc_begin(caller);
    trace_alloc_end(&call, i % 2 != 0 ? TRACE_ALLOC_ASYNC : TRACE_ALLOC, 0, address_of(thread, i),
                    1000 + i, i % 2, true);
    call = trace_free_begin((const char *)caller + 1, TRACE_FREE, address_of(thread, i), 0, true);
    for (unsigned k = 0; k < events_within(i); k++)
        trace_event(TRACE_SHRINK, trace_clock(), i, 4096, 0, 7);
    trace_free_end(&call, 0);
}

static void *pairs_write(void *arg)
{
    for (uint64_t i = 0; i < PAIRS; i++)
        pair_write((uint64_t)(uintptr_t)arg, i);
    return NULL;
}

static void four_threads(void)
{
    pthread_t thread[THREADS];
    trace_open(NULL);
    for (uint64_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, pairs_write, (void *)(uintptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    trace_end();
}

static void *ten_pairs_write(void *arg)
{
    for (uint64_t i = 0; i < 10; i++)
        pair_write((uint64_t)(uintptr_t)arg, i);
    return NULL;
}

static void short_threads(void)
{
    trace_open(NULL);
    for (uint64_t i = 0; i < SHORT_THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, ten_pairs_write, (void *)(uintptr_t)i);
        pthread_join(thread, NULL);
    }
    trace_end();
}

/* What the library does where a call turns slow. */
static void turn_slow(void)
{
    latency_thread.slow_since_ns = clock_ns();
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Allocations and frees by turns: at hand, slow, with a wait, at hand again. */
static void some_slow(void)
{
    const void *caller = (const void *)(uintptr_t)&options_load;
    trace_open(NULL);
    for (int how = 0; how < 4; how++)
        for (int frees = 0; frees < 2; frees++) {
            struct trace_call call = frees ? trace_free_begin(caller, TRACE_FREE, 512, 0, true)
                                           : trace_alloc_begin(caller);
            if (how == 1) {
                turn_slow();
            } else if (how == 2) {
                uint64_t begin_ns = trace_recent();
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
                trace_wait(begin_ns, 0, 7);
            }
            if (frees)
                trace_free_end(&call, 0);
            else
                trace_alloc_end(&call, TRACE_ALLOC, 0, 512, 8, 0, true);
        }
    trace_end();
}

static void killed(void)
{
    trace_open(NULL);
    for (uint64_t i = 0; i < KILLED_PAIRS; i++)
        pair_write(0, i);
    trace_free_begin(NULL, TRACE_FREE, 512, 0, true);
    raise(SIGKILL);
}

static void limited(void)
{
    trace_open("512K");
    pairs_write(NULL);
    trace_end();
}

static void file_size_limited(void)
{
    struct rlimit limit = {300 << 10, 300 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    trace_open(NULL);
    pairs_write(NULL);
    trace_end();
}

/* As programs do that close all they did not open, and open files of their own. */
static void descriptors_closed(void)
{
    trace_open(NULL);
    pair_write(0, 0);
    for (int fd = 3; fd < 1000; fd++)
        close(fd);
    for (int fd = 3; fd < 200; fd++)
        open("/dev/null", O_RDWR);
    pairs_write(NULL);
    trace_end();
}

/* Runs `write` in a child. Returns what it left on stderr; *code_out: its wait status. */
static const char *child_run(void (*write)(void), int *code_out)
{
    static char said[4096];
    int ends[2];
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* else cmocka would go on with the next test here */
        signal(SIGBUS, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        write();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + used, sizeof(said) - 1 - used)) > 0)
        used += (size_t)got;
    close(ends[0]);
    said[used] = '\0';
    assert_int_equal(waitpid(pid, code_out, 0), pid);
    return said;
}

/* --- reading ----------------------------------------------------------------------------- */

struct counts {
    uint64_t allocs, frees, shrinks, pending, others;
    uint64_t next[SHORT_THREADS]; /* each thread's next pair */
    uint32_t numbers;             /* of threads seen, as the trace has them: bits */
    uint64_t latest_ns;
};

static struct reader *reader_must(const char *name)
{
    char reason[READER_REASON_BYTES];
    struct reader *reader = reader_open(name, reason);
    if (reader == NULL)
        fail_msg("%s: %s", name, reason);
    return reader;
}

static void event_check(struct counts *counts, const struct reader_event *event)
{
    assert_true(event->time_ns >= counts->latest_ns);
    counts->latest_ns = event->time_ns;
    assert_int_equal(event->context, event->result == TRACE_PENDING ? 0 : 7);
    if (event->kind == TRACE_SHRINK) {
        counts->shrinks++;
        assert_int_equal(event->bytes, 4096);
        return;
    }
    assert_int_equal(event->flags, TRACE_SERVED);
    counts->numbers |= 1u << event->thread % 32;
    counts->pending += event->result == TRACE_PENDING;
    if (event->result == TRACE_PENDING)
        return;
    uint64_t thread = (event->address >> 40) - 1,
             i = (event->address & (((uint64_t)1 << 40) - 1)) >> 9;
    assert_in_range(thread, 0, SHORT_THREADS - 1);
    assert_int_equal(i, counts->next[thread]);
    assert_int_not_equal(event->caller, 0);
    if (reader_is_alloc(event)) {
        counts->allocs++;
        assert_int_equal(event->bytes, 1000 + i);
        assert_int_equal(event->stream, i % 2);
        assert_int_equal(event->kind, i % 2 != 0 ? TRACE_ALLOC_ASYNC : TRACE_ALLOC);
    } else {
        assert_true(reader_is_free(event));
        counts->frees++;
        counts->next[thread]++;
    }
}

static struct counts all_read(struct reader *reader)
{
    struct counts counts = {0};
    struct reader_event event;
    enum reader_status status;
    while ((status = reader_next(reader, &event)) == READER_EVENT)
        event_check(&counts, &event);
    if (status != READER_END)
        fail_msg("%s", reader_reason(reader));
    return counts;
}

static void written_by_threads(void **state)
{
    (void)state;
    int code;
    const char *said = child_run(four_threads, &code);
    assert_string_equal(said, "");
    assert_int_equal(code, 0);
    struct reader *reader = reader_must(path);
    for (int round = 0; round < 2; round++) {
        struct counts counts = all_read(reader);
        assert_int_equal(counts.allocs, THREADS * PAIRS);
        assert_int_equal(counts.frees, THREADS * PAIRS);
        assert_int_equal(counts.allocs + counts.frees + counts.shrinks, THREADS * EVENTS);
        assert_int_equal(counts.numbers, (1u << THREADS) - 1);
        reader_rewind(reader);
    }
    const struct reader_info *info = reader_info(reader);
    assert_int_equal(info->header->ended, 1);
    assert_int_equal(info->header->stop, TRACE_WHOLE);
    assert_int_equal(info->header->lost_events, 0);
    const struct reader_item *device = reader_item(reader, TRACE_ITEM_DEVICE, 3);
    assert_non_null(device);
    assert_string_equal(device->text, "a card");
    assert_int_equal(device->value, 80 * GIB);
    for (uint32_t i = 1; i <= 2; i++) { /* of an allocation, of a free */
        const struct reader_item *caller = reader_item(reader, TRACE_ITEM_CALLER, i);
        assert_non_null(caller);
        const struct reader_item *module = reader_item(reader, TRACE_ITEM_MODULE, caller->other);
        assert_non_null(module);
        assert_non_null(strstr(module->text, "test_trace_file"));
    }
    assert_null(reader_item(reader, TRACE_ITEM_MODULE, 2));
    bool limit_told = false;
    for (size_t i = 0; i < info->item_count; i++)
        limit_told |= strcmp(info->items[i].text, "VRAMALLOC_TRACE_LIMIT=4294967296 bytes") == 0;
    assert_true(limit_told);
    reader_close(reader);
}

/* A call is timed where it turned slow or waited, and no call has another's time. */
static void slow_calls_are_timed(void **state)
{
    (void)state;
    int code, calls = 0, waits = 0;
    struct reader_event event;
    assert_string_equal(child_run(some_slow, &code), "");
    struct reader *reader = reader_must(path);
    while (reader_next(reader, &event) == READER_EVENT) {
        bool slow = event.kind == TRACE_WAIT || calls / 2 == 1 || calls / 2 == 2;
        waits += event.kind == TRACE_WAIT;
        calls += event.kind != TRACE_WAIT;
        if (slow)
            assert_in_range(event.duration_ns, 2000000, 2000000000);
        else
            assert_int_equal(event.duration_ns, 0);
    }
    assert_int_equal(calls, 8);
    assert_int_equal(waits, 2);
    reader_close(reader);
}

static void left_to_the_next_thread(void **state)
{
    (void)state;
    int code;
    assert_string_equal(child_run(short_threads, &code), "");
    struct reader *reader = reader_must(path);
    struct counts counts = all_read(reader);
    assert_int_equal(counts.allocs, SHORT_THREADS * 10);
    assert_int_equal(counts.numbers, UINT32_MAX);
    /* 22 records a thread, of 1365 a chunk */
    assert_in_range(reader_info(reader)->chunk_count, 2, SHORT_THREADS * 22 / 1300 + 1);
    reader_close(reader);
}

static void read_after_kill(void **state)
{
    (void)state;
    int code;
    child_run(killed, &code);
    assert_true(WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL);
    struct reader *reader = reader_must(path);
    struct counts counts = all_read(reader);
    assert_int_equal(counts.allocs, KILLED_PAIRS);
    assert_int_equal(counts.frees, KILLED_PAIRS);
    assert_int_equal(counts.pending, 1);
    assert_int_equal(reader_info(reader)->header->ended, 0);
    reader_close(reader);
}

/* What is recorded and what is told to be lost are all there was. */
static const struct trace_header *cut_check(struct reader *reader, uint64_t events)
{
    struct counts counts = all_read(reader);
    const struct trace_header *header = reader_info(reader)->header;
    assert_true(counts.allocs > 0 && counts.allocs < PAIRS);
    assert_int_equal(counts.allocs + counts.frees + counts.shrinks + header->lost_events, events);
    assert_true(header->lost_from_ns >= counts.latest_ns);
    return header;
}

static void cut_at_limit(void **state)
{
    (void)state;
    int code;
    const char *said = child_run(limited, &code);
    assert_non_null(strstr(said, "the trace is full at VRAMALLOC_TRACE_LIMIT (512 KiB)"));
    assert_non_null(strstr(said, "events were left out of the trace"));
    struct reader *reader = reader_must(path);
    const struct trace_header *header = cut_check(reader, EVENTS);
    assert_int_equal(header->stop, TRACE_LIMIT);
    assert_int_equal(header->limit_bytes, 512 << 10);
    assert_true(reader_info(reader)->file_bytes <= 512 << 10);
    reader_close(reader);
}

static void cut_by_the_system(void **state)
{
    (void)state;
    int code;
    const char *said = child_run(file_size_limited, &code);
    assert_int_equal(code, 0);
    assert_non_null(strstr(said, "the trace cannot grow (File too large)"));
    struct reader *reader = reader_must(path);
    const struct trace_header *header = cut_check(reader, EVENTS);
    assert_int_equal(header->stop, TRACE_ERROR);
    assert_int_equal(header->stop_errno, EFBIG);
    reader_close(reader);
}

static void cut_by_the_program(void **state)
{
    (void)state;
    int code;
    child_run(descriptors_closed, &code);
    assert_int_equal(code, 0);
    struct reader *reader = reader_must(path);
    struct reader_event event;
    assert_int_equal(reader_next(reader, &event), READER_EVENT);
    assert_int_equal(reader_info(reader)->header->stop_errno, EBADF);
    reader_close(reader);
}

static void existing_file_kept(void **state)
{
    (void)state;
    int code;
    char second[80];
    struct stat before, after;
    child_run(killed, &code);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_mode & 0777, 0600);
    const char *said = child_run(killed, &code);
    snprintf(second, sizeof(second), "%s.1", path);
    assert_non_null(strstr(said, "the trace is in \""));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    reader_close(reader_must(second));
    unlink(second);
}

/* --- files that are no traces ------------------------------------------------------------ */

/* A FIFO, as devices are. */
static void devices_refused(void **state)
{
    (void)state;
    int code;
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *said = child_run(four_threads, &code);
    assert_int_equal(code, 0);
    assert_non_null(strstr(said, "the trace cannot be made in \""));
    assert_non_null(strstr(said, "(Operation not supported): there will be none\n"));
    assert_ptr_equal(strchr(said, '\n'), strrchr(said, '\n'));
}

static void file_write(const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

static void refused(const char *name, const char *why)
{
    char reason[READER_REASON_BYTES] = "";
    assert_null(reader_open(name, reason));
    if (strstr(reason, why) == NULL)
        fail_msg("%s: \"%s\" and not \"%s\"", name, reason, why);
}

static void no_traces(void **state)
{
    (void)state;
    static char zeroes[TRACE_UNIT_BYTES];
    int code;
    refused("/nonexistent", "No such file");
    refused("/tmp", "no regular file");
    refused("/dev/null", "no regular file");
    file_write("", 0);
    refused(path, "empty");
    file_write("Thread,Time\n", 12);
    refused(path, "no trace of vramalloc");
    assert_false(reader_recognises(path));
    file_write(TRACE_MAGIC, 8);
    refused(path, "cut short");
    assert_true(reader_recognises(path));
    file_write(zeroes, sizeof(zeroes));
    refused(path, "never begun");
    unlink(path);
    child_run(killed, &code);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    for (off_t bytes = status.st_size - 1; bytes > 0; bytes -= bytes > 70000 ? 4096 * 7 : 4096) {
        assert_int_equal(truncate(path, bytes), 0);
        refused(path, "cut short");
    }
}

/* One random change of a file of `bytes`; *at_out and *old_out: what was there. */
static size_t damage(int fd, off_t bytes, off_t *at_out, unsigned char old[8])
{
    static const off_t starts[] = {0, sizeof(struct trace_header), TRACE_UNIT_BYTES};
    unsigned char changed[8];
    size_t count = 1 + (size_t)rand() % 8;
    off_t start = starts[rand() % 3];
    *at_out = rand() % 4 == 0 ? rand() % (bytes - 8) : start + rand() % 200;
    assert_int_equal(pread(fd, old, count, *at_out), (ssize_t)count);
    for (size_t i = 0; i < count; i++)
        changed[i] = rand() % 3 == 0 ? 0xff : (unsigned char)rand();
    assert_int_equal(pwrite(fd, changed, count, *at_out), (ssize_t)count);
    return count;
}

static void damaged_files(void **state)
{
    (void)state;
    int code;
    struct stat status;
    char reason[READER_REASON_BYTES];
    uint64_t opened = 0, failed = 0;
    child_run(killed, &code);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &status) == 0);
    for (int i = 0; i < DAMAGES; i++) {
        unsigned char old[3][8];
        off_t at[3];
        size_t count[3];
        for (int k = 0; k < 3; k++)
            count[k] = damage(fd, status.st_size, &at[k], old[k]);
        struct reader *reader = reader_open(path, reason);
        if (reader != NULL) {
            struct reader_event event;
            uint64_t events = 0;
            enum reader_status last;
            while ((last = reader_next(reader, &event)) == READER_EVENT)
                assert_true(++events <= (uint64_t)status.st_size / sizeof(struct trace_record));
            opened++;
            failed += last == READER_DAMAGED;
            reader_close(reader);
        } else {
            assert_null(strchr(reason, '\n'));
        }
        for (int k = 2; k >= 0; k--)
            assert_int_equal(pwrite(fd, old[k], count[k], at[k]), (ssize_t)count[k]);
    }
    close(fd);
    assert_true(opened > 0 && failed > 0 && opened < DAMAGES);
    reader_close(reader_must(path));
}

/* --- set-up ------------------------------------------------------------------------------ */

static int no_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static int folder_make(void **state)
{
    (void)state;
    const char *wanted = getenv("VRAMALLOC_TEST_SEED");
    unsigned seed = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 0) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    srand(seed);
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/trace", folder);
    return 0;
}

static int folder_remove(void **state)
{
    no_file(state);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(written_by_threads, no_file),
        cmocka_unit_test_setup(slow_calls_are_timed, no_file),
        cmocka_unit_test_setup(left_to_the_next_thread, no_file),
        cmocka_unit_test_setup(read_after_kill, no_file),
        cmocka_unit_test_setup(cut_at_limit, no_file),
        cmocka_unit_test_setup(cut_by_the_system, no_file),
        cmocka_unit_test_setup(cut_by_the_program, no_file),
        cmocka_unit_test_setup(existing_file_kept, no_file),
        cmocka_unit_test_setup(devices_refused, no_file),
        cmocka_unit_test_setup(no_traces, no_file),
        cmocka_unit_test_setup(damaged_files, no_file),
    };
    return cmocka_run_group_tests_name("trace file", tests, folder_make, folder_remove);
}
