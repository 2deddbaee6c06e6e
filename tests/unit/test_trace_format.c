/* test_trace_format.c - what the trace reader takes and what it refuses, and the line and reason
 * that it names. Files are written to a folder of their own; a gzip'd one is also cut at every
 * byte, and a plain one damaged at random (prints the seed). */
#include "unit.h"

#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "../../tools/replay/trace.h"

#define HEAD "Thread,Time,Action,Pointer,Size,Stream\n"
#define GOOD "0,0,allocate,0x1000,100,-\n"

static char folder[] = "/tmp/vramalloc-trace-XXXXXX", path[sizeof(folder) + 16];

static int folder_make(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/trace.csv", folder);
    return 0;
}

static int folder_remove(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void file_write(const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void refused_bytes(const void *bytes, size_t count, size_t line, const char *reason)
{
    struct trace trace;
    struct trace_error error = {0};
    file_write(bytes, count);
    assert_false(trace_load(path, &trace, &error));
    assert_null(trace.events);
    assert_string_equal(error.reason, reason);
    assert_int_equal(error.line, line);
}

static void refused(const char *text, size_t line, const char *reason)
{
    refused_bytes(text, strlen(text), line, reason);
}

static void loaded(const char *text, struct trace *trace)
{
    struct trace_error error = {0};
    file_write(text, strlen(text));
    if (!trace_load(path, trace, &error))
        fail_msg("line %zu: %s", error.line, error.reason);
}

static const char columns[] = "expected 6 columns: Thread,Time,Action,Pointer,Size,Stream";

static void malformed_lines(void **state)
{
    (void)state;
    refused(HEAD "0,0,allocate,0x1000\n", 2, columns);
    refused(HEAD "0,0,allocate,0x1000,100,-,\n", 2, columns);
    refused(HEAD GOOD "free\n", 3, columns);
    refused(HEAD GOOD HEAD, 3, "the thread is not a number");
    refused(HEAD "x,0,allocate,0x1000,100,-\n", 2, "the thread is not a number");
    refused(HEAD ",0,allocate,0x1000,100,-\n", 2, "the thread is not a number");
    refused(HEAD "0,soon,allocate,0x1000,100,-\n", 2,
            "the time is neither nanoseconds nor a time of day");
    refused(HEAD "0,10:15,allocate,0x1000,100,-\n", 2,
            "the time is neither nanoseconds nor a time of day");
    refused(HEAD "0,0,grow,0x1000,100,-\n", 2, "the action is neither \"allocate\" nor \"free\"");
    refused(HEAD "0,0,allocate,0xg,100,-\n", 2, "the pointer is not a hexadecimal number");
    refused(HEAD "0,0,allocate,,100,-\n", 2, "the pointer is not a hexadecimal number");
    refused(HEAD "0,0,allocate,0x10000000000000000,100,-\n", 2,
            "the pointer is not a hexadecimal number");
    refused(HEAD "0,0,allocate,0x1000,-1,-\n", 2, "the size is not a number of bytes");
    refused(HEAD "0,0,allocate,0x1000,0x10,-\n", 2, "the size is not a number of bytes");
    refused(HEAD "0,0,allocate,0x1000,18446744073709551616,-\n", 2,
            "the size is not a number of bytes");
    refused(HEAD "0,0,allocate,0x1000,18446744073709551615,-\n", 2,
            "the size is beyond any card's");
    refused(HEAD "0,0,allocate,0x1000,100,main\n", 2, "the stream is neither \"-\" nor a number");
    refused(HEAD "0,0,allocate,0x1000,100,\n", 2, "the stream is neither \"-\" nor a number");
    refused(HEAD GOOD GOOD, 3, "allocates a pointer that is still live");
}

static void whole_files(void **state)
{
    (void)state;
    static const char zero[] = HEAD "0,0,allocate,0x1000,100,-\0junk\n" GOOD;
    char line[3000];
    refused("", 0, "the file has no events");
    refused(HEAD, 0, "the file has no events");
    refused("\n\r\n\n", 0, "the file has no events");
    refused_bytes(zero, sizeof(zero) - 1, 2, "the line holds a zero byte");
    memset(line, '1', sizeof(line));
    refused_bytes(line, sizeof(line), 1, "the line is too long");
    struct trace trace;
    struct trace_error error = {0};
    unlink(path);
    assert_false(trace_load(path, &trace, &error));
    assert_int_equal(error.line, 0);
    assert_string_equal(error.reason, "No such file or directory");
}

#define NOTHING "0,0,allocate,0x1000,0,-\n"
#define FAILURE "0,0,allocate failure,(nil),100,-\n"
#define FOREIGN "0,0,free,0x1000,100,-\n"

/* Where every line was ignored, it is said how many were, and why. */
static void ignored_lines(void **state)
{
    (void)state;
    refused(HEAD NOTHING, 0,
            "the file has no events: 1 line was ignored (1 allocation of nothing)");
    refused(FAILURE "\n" FAILURE, 0,
            "the file has no events: 2 lines were ignored (2 failed allocations)");
    refused(HEAD FOREIGN, 0,
            "the file has no events: 1 line was ignored (1 free of a pointer never allocated)");
    refused(HEAD FOREIGN FAILURE NOTHING FOREIGN "0,0,allocate,(nil),9,-\n0,0,free,(nil),9,-\n", 0,
            "the file has no events: 6 lines were ignored (1 failed allocation, 2 allocations of "
            "nothing, 3 frees of pointers never allocated)");
}

/* A pointer has one block number for each of its lives; sizes of frees come from the allocation. */
static void lives(void **state)
{
    (void)state;
    struct trace trace;
    loaded(HEAD "7,50,allocate,0x1000,100,-\r\n"
                "9,60,allocate,2000,200,0\n"
                "\n"
                "9,70,free,0x1000,0,-\n"
                "7,80,allocate,0x1000,300,-\n"
                "7,90,free,0x9999,5,-\n"
                "7,90,free,0x2000,200,0x10", /* no end of line */
           &trace);
    assert_int_equal(trace.event_count, 5);
    assert_int_equal(trace.block_count, 3);
    assert_int_equal(trace.thread_count, 2);
    assert_int_equal(trace.foreign_frees, 1);
    static const struct trace_event wanted[] = {{100, 0, 0, 0, 0, false},
                                                {200, 1, 10, 1, 1, false},
                                                {100, 0, 20, 0, 1, true},
                                                {300, 0, 30, 2, 0, false},
                                                {200, 17, 40, 1, 0, true}};
    for (size_t i = 0; i < trace.event_count; i++) {
        const struct trace_event *event = &trace.events[i];
        assert_int_equal(event->bytes, wanted[i].bytes);
        assert_int_equal(event->stream, wanted[i].stream);
        assert_int_equal(event->time_ns, wanted[i].time_ns);
        assert_int_equal(event->block, wanted[i].block);
        assert_int_equal(event->thread, wanted[i].thread);
        assert_int_equal(event->is_free, wanted[i].is_free);
    }
    trace_free(&trace);
}

/* As RMM's logging adaptor writes it: with a colon before the microseconds and fmt's pointers, or,
 * newer, with a point and printf's. */
static void rmm_logs(void **state)
{
    (void)state;
    struct trace trace;
    loaded(HEAD "1401,10:15:22:000100,allocate,0x7f0000000000,1000,0x0\n"
                "1401,10:15:22:000200,allocate failure,0x0,99999999999999999999,0x0\n"
                "1401,10:15:23:000000,free,0x7f0000000000,1000,0x2\n",
           &trace);
    assert_int_equal(trace.event_count, 2);
    assert_int_equal(trace.events[1].time_ns, 999900000);
    assert_int_equal(trace.events[0].stream, 1);
    assert_int_equal(trace.events[1].stream, 3);
    trace_free(&trace);
    loaded(HEAD "1401,23:59:59.999999,allocate,(nil),0,0\n"
                "1401,23:59:59.999999,allocate,0x7f0000000000,1000,0\n"
                "1401,23:59:59.999999,allocate failure,(nil),99999999999,0x55d0c8\n"
                "1401,23:59:59.999999,free,0x7f0000000000,1000,0x55d0c8\n",
           &trace);
    assert_int_equal(trace.event_count, 2);
    assert_int_equal(trace.foreign_frees, 0);
    assert_int_equal(trace.events[1].stream, 0x55d0c9);
    trace_free(&trace);
}

enum { GZ_LINES = 400 };

static size_t gz_read(uint8_t *bytes, size_t most)
{
    gzFile gz = gzopen(path, "wb");
    assert_non_null(gz);
    gzputs(gz, HEAD);
    for (int i = 1; i <= GZ_LINES; i++)
        gzprintf(gz, "0,%d,allocate,0x%x000,%d,-\n", i, i, i * 7919 % 1000 + 1);
    assert_int_equal(gzclose(gz), Z_OK);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, most, file);
    fclose(file);
    return count;
}

/* Whatever is missing at the end, the checksum included, the file is refused. */
static void gzip_cut_anywhere(void **state)
{
    (void)state;
    static uint8_t bytes[64 << 10];
    struct trace trace;
    struct trace_error error;
    size_t count = gz_read(bytes, sizeof(bytes));
    assert_true(count > 500 && count < sizeof(bytes));
    assert_true(trace_load(path, &trace, &error));
    assert_int_equal(trace.event_count, GZ_LINES);
    trace_free(&trace);
    for (size_t cut = 0; cut < count; cut++) {
        file_write(bytes, cut);
        if (trace_load(path, &trace, &error))
            fail_msg("taken with %zu of %zu bytes", cut, count);
        if (cut >= 20 && strcmp(error.reason, "the file is damaged or cut short") != 0)
            fail_msg("%zu of %zu bytes: line %zu: %s", cut, count, error.line, error.reason);
    }
    bytes[count / 2] ^= 0x40;
    file_write(bytes, count);
    assert_false(trace_load(path, &trace, &error));
}

/* Damaged text is taken or refused, with a line of the file and a reason. */
static void damaged_anyhow(void **state)
{
    (void)state;
    static const char text[] = HEAD GOOD "1,10:15:22.000100,allocate,0x2000,3000000,0x2\n"
                                         "1,20,free,0x1000,100,-\n0,30,allocate,0x1000,1,0\n";
    unsigned seed = (unsigned)time(NULL);
    printf("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 5000; round++) {
        char bytes[sizeof(text)];
        struct trace trace;
        struct trace_error error = {0};
        memcpy(bytes, text, sizeof(text));
        for (int i = rand() % 4; i >= 0; i--)
            bytes[(size_t)rand() % (sizeof(text) - 1)] =
                rand() % 2 != 0 ? (char)rand() : ",\n-0x:.("[rand() % 8];
        file_write(bytes, sizeof(text) - 1);
        if (trace_load(path, &trace, &error)) {
            for (size_t i = 0; i < trace.event_count; i++)
                assert_true(trace.events[i].block < trace.block_count &&
                            trace.events[i].thread < trace.thread_count);
            trace_free(&trace);
        } else {
            assert_true(error.line <= 20 && error.reason[0] != '\0');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_lines), cmocka_unit_test(whole_files),
        cmocka_unit_test(ignored_lines),   cmocka_unit_test(lives),
        cmocka_unit_test(rmm_logs),        cmocka_unit_test(gzip_cut_anywhere),
        cmocka_unit_test(damaged_anyhow),
    };
    return cmocka_run_group_tests_name("trace_format", tests, folder_make, folder_remove);
}
