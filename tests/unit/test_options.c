/* test_options.c - every setting, good and bad values, and the exact line that a bad one costs. */
#include "unit.h"

#include <unistd.h>

#include <signal.h>

#include "../../shim/options.h"
#include "../../shim/signal_name.h"

static char said[8192];

/* What is written to stderr between begin and end is kept in `said`. */
static int kept_stderr, said_from;

static void listen_begin(void)
{
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    kept_stderr = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
    said_from = pipe_ends[0];
}

static void listen_end(void)
{
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    ssize_t length = read(said_from, said, sizeof(said) - 1);
    said[length > 0 ? length : 0] = '\0';
    close(said_from);
}

/* Loads the settings with one variable set, and keeps what was written to stderr. */
static void load(const char *name, const char *value)
{
    setenv(name, value, 1);
    listen_begin();
    options_load();
    options_complain(0);
    listen_end();
    unsetenv(name);
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"1", 1},
                {"65536", 65536},
                {"4K", 4 * KIB},
                {"4k", 4 * KIB},
                {"512M", 512 * MIB},
                {"512MiB", 512 * MIB},
                {"3GB", 3 * GIB},
                {"2T", 2048 * GIB},
                {"100B", 100},
                {"4kB", 4 * KIB},
                {"4kiB", 4 * KIB},
                {"2m", 2 * MIB},
                {"2gB", 2 * GIB},
                {"1tiB", 1024 * GIB},
                {"4096T", UINT64_C(1) << 52},
                {"007K", 7 * KIB},
                {"4b", 4},
                {"4kb", 4 * KIB},
                {"4KIB", 4 * KIB},
                {"4Kib", 4 * KIB}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        load("VRAMALLOC_ARENA_SIZE", good[i].text);
        assert_string_equal(said, "");
        assert_int_equal(options_size_resolve(&options.arena_size, 100 * GIB), good[i].bytes);
    }
    load("VRAMALLOC_ARENA_LIMIT", "25%");
    assert_string_equal(said, "");
    assert_int_equal(options_size_resolve(&options.arena_limit, 100 * GIB), 25 * GIB);
    load("VRAMALLOC_ARENA_LIMIT", "none");
    assert_int_equal(options_size_resolve(&options.arena_limit, 100 * GIB), 0);
}

static void bad_sizes_cost_one_line_and_the_default(void **state)
{
    (void)state;
    static const char *const bad[] = {"1 ",
                                      " ",
                                      "4 K",
                                      "",
                                      "0",
                                      "-1",
                                      "4X",
                                      "4G4",
                                      "G",
                                      "101%",
                                      "0%",
                                      " 4G",
                                      "4 G",
                                      "1e9",
                                      "0x10",
                                      "4Gi",
                                      "99999999999999999999",
                                      "99999999T",
                                      "4KI",
                                      "4bk",
                                      "4097T",
                                      "4P",
                                      "1.5G",
                                      "+4",
                                      "2K%",
                                      "none "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char expected[512];
        load("VRAMALLOC_ARENA_SIZE", bad[i]);
        snprintf(
            expected, sizeof(expected),
            "vramalloc: VRAMALLOC_ARENA_SIZE=\"%s\" is not valid: accepted is bytes (65536, 512M, "
            "4G; at most 4096T), 1%% to 100%% of the card, or none; using the default, 32M\n",
            bad[i]);
        assert_string_equal(said, expected);
        assert_int_equal(options.arena_size.bytes, 32 * MIB);
    }
}

/* Whatever a value or a name holds, it costs one line that no terminal obeys. */
static void what_is_said_is_one_line(void **state)
{
    (void)state;
    static const char *const values[][2] = {{"a\nb\r\tc", "a\\nb\\r\\tc"},
                                            {"\x1b[2J\x7f\x01", "\\x1b[2J\\x7f\\x01"},
                                            {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
                                            {"\xc2\x9b"
                                             "2J",
                                             "\\xc2\\x9b2J"},
                                            {"\x9b"
                                             "2J\xff",
                                             "\\x9b2J\\xff"},
                                            {"%s%n\\", "%s%n\\"}};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char name[64], expected[512];
        load("VRAMALLOC_SLACK", values[i][0]);
        snprintf(expected, sizeof(expected),
                 "vramalloc: VRAMALLOC_SLACK=\"%s\" is not valid: accepted is 0 to 1000 (percent); "
                 "using the default, 80\n",
                 values[i][1]);
        assert_string_equal(said, expected);
        snprintf(name, sizeof(name), "VRAMALLOC_%s", values[i][0]);
        load(name, "1");
        snprintf(expected, sizeof(expected),
                 "vramalloc: VRAMALLOC_%s is not a setting; it is ignored\n", values[i][1]);
        assert_string_equal(said, expected);
    }
}

/* 200 bytes are shown; a character or an escape is shown whole or not at all. */
static void what_is_long_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *shown;
        int times;
    } values[] = {{"x", "x", 200},
                  {"\n", "\\n", 100},
                  {"\x1b", "\\x1b", 50},
                  {"\xe2\x82\xac", "\xe2\x82\xac", 66}};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        char value[1024] = "", shown[512] = "", expected[1024];
        for (int n = 0; n < values[i].times; n++) {
            strcat(value, values[i].piece);
            strcat(shown, values[i].shown);
        }
        for (int more = 0; more < 2; more++) {
            load("VRAMALLOC_ENABLE", value);
            snprintf(
                expected, sizeof(expected),
                "vramalloc: VRAMALLOC_ENABLE=\"%s%s\" is not valid: accepted is 0 or 1; using the "
                "default, 1\n",
                shown, more == 1 ? "..." : "");
            assert_string_equal(said, expected);
            strcat(value, values[i].piece);
        }
    }
    char name[1024] = "VRAMALLOC_";
    memset(name + strlen(name), 'X', 1000);
    load(name, "1");
    assert_non_null(strstr(said, "XXX... is not a setting; it is ignored\n"));
    assert_in_range(strlen(said), 200, 260);
}

static void choices(void **state)
{
    (void)state;
    load("VRAMALLOC_REPORT_FORMAT", "json");
    assert_string_equal(said, "");
    assert_string_equal(options.report_format, "json");
    load("VRAMALLOC_REPORT_FORMAT", "yaml");
    assert_string_equal(said,
                        "vramalloc: VRAMALLOC_REPORT_FORMAT=\"yaml\" is not valid: accepted is "
                        "text,json; using the default, text\n");
    assert_string_equal(options.report_format, "text");
    load("VRAMALLOC_FREE", "Deferred");
    assert_string_equal(said, "");
    assert_string_equal(options.free_mode, "deferred");
    load("VRAMALLOC_FREE", "defer");
    assert_string_equal(options.free_mode, "sync");
    load("VRAMALLOC_ARENA_LIMIT", "None");
    assert_string_equal(said, "");
    assert_true(options.arena_limit.none);
    load("VRAMALLOC_FREE", "maybe");
    assert_non_null(strstr(said, "VRAMALLOC_FREE=\"maybe\" is not valid"));
    assert_string_equal(options.free_mode, "sync");
}

static void switches_and_percentages(void **state)
{
    (void)state;
    load("VRAMALLOC_VERBOSE", "1");
    assert_true(options.verbose);
    load("VRAMALLOC_VERBOSE", "yes");
    assert_string_equal(said,
                        "vramalloc: VRAMALLOC_VERBOSE=\"yes\" is not valid: accepted is 0 or 1; "
                        "using the default, 0\n");
    assert_false(options.verbose);
    load("VRAMALLOC_SLACK", "25");
    assert_int_equal(options.slack, 25);
    load("VRAMALLOC_SLACK", "0%");
    assert_int_equal(options.slack, 0);
    load("VRAMALLOC_SLACK", "1001");
    assert_string_equal(said,
                        "vramalloc: VRAMALLOC_SLACK=\"1001\" is not valid: accepted is 0 to 1000 "
                        "(percent); using the default, 80\n");
    assert_int_equal(options.slack, 80);
}

static void seconds(void **state)
{
    (void)state;
    load("VRAMALLOC_REPORT_EVERY", "60");
    assert_string_equal(said, "");
    assert_int_equal(options.report_every, 60);
    load("VRAMALLOC_REPORT_EVERY", "31536000s");
    assert_int_equal(options.report_every, 31536000);
    static const char *const bad[] = {"31536001", "-1", "", "1.5", "1m", "60%"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char expected[256];
        load("VRAMALLOC_REPORT_EVERY", bad[i]);
        snprintf(expected, sizeof(expected),
                 "vramalloc: VRAMALLOC_REPORT_EVERY=\"%s\" is not valid: accepted is 0 to 31536000 "
                 "(seconds); using the default, 0\n",
                 bad[i]);
        assert_string_equal(said, expected);
        assert_int_equal(options.report_every, 0);
    }
}

/* By name, by number, as a signal of real time; and what a program cannot do without is refused. */
static void signals(void **state)
{
    (void)state;
    const struct {
        const char *text, *shown;
        int number;
    } good[] = {{"USR2", "USR2", SIGUSR2},
                {"SIGUSR2", "USR2", SIGUSR2},
                {"sigterm", "TERM", SIGTERM},
                {"Int", "INT", SIGINT},
                {"10", "USR1", 10},
                {"RTMIN", "RTMIN+0", SIGRTMIN},
                {"rtmin+3", "RTMIN+3", SIGRTMIN + 3},
                {"SIGRTMAX-1", "RTMIN+29", SIGRTMAX - 1},
                {"64", "RTMIN+30", 64},
                {"off", "off", 0},
                {"OFF", "off", 0},
                {"0", "off", 0}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char shown[16];
        load("VRAMALLOC_SIGNAL", good[i].text);
        assert_string_equal(said, "");
        assert_int_equal(options.signal, good[i].number);
        assert_string_equal(signal_text(options.signal, shown, sizeof(shown)), good[i].shown);
    }
    static const char *const bad[] = {
        "KILL",     "STOP",     "SEGV", "SIGSEGV", "9",         "19",     "11",      "CHLD",
        "PIPE",     "TSTP",     "ABRT", "6",       "32",        "33",     "65",      "999",
        "1000",     "-1",       "",     "SIG",     "SIGOFF",    "RTMIN+", "RTMAX+1", "RTMIN-1",
        "RTMIN+99", "RTMIN+1x", "USR3", "USR2 ",   "SIGSIGINT", "12x",    "0x0c"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char expected[512];
        load("VRAMALLOC_SIGNAL", bad[i]);
        snprintf(
            expected, sizeof(expected),
            "vramalloc: VRAMALLOC_SIGNAL=\"%s\" is not valid: accepted is off, USR1, USR2, PWR, "
            "TERM, INT, HUP, QUIT, XCPU, RTMIN+N, or one of their numbers; using the default, "
            "off\n",
            bad[i]);
        assert_string_equal(said, expected);
        assert_int_equal(options.signal, 0);
    }
    assert_true(signal_ends(SIGTERM));
    assert_false(signal_ends(SIGUSR2));
    assert_false(signal_ends(SIGRTMIN));
}

static void paths(void **state)
{
    (void)state;
    static char longest[PATH_MAX + 10];
    load("VRAMALLOC_REPORT", "/tmp/%e.%p");
    assert_string_equal(options.report, "/tmp/%e.%p");
    load("VRAMALLOC_REPORT", "OFF");
    assert_string_equal(options.report, "off");
    load("VRAMALLOC_REPORT", "StdErr");
    assert_string_equal(options.report, "stderr");
    memset(longest, 'a', sizeof(longest) - 1);
    load("VRAMALLOC_REPORT", longest);
    assert_non_null(strstr(said, "VRAMALLOC_REPORT="));
    assert_string_equal(options.report, "stderr");
}

/* Words that others take for stdout, and paths that nobody means. */
static void no_paths(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"-", "-"},
                                         {"stdout", "stdout"},
                                         {"StdOut", "StdOut"},
                                         {"", ""},
                                         {" ", " "},
                                         {" \t", " \\t"},
                                         {" off", " off"},
                                         {"stderr ", "stderr "},
                                         {" /tmp/x", " /tmp/x"},
                                         {"/tmp/x\n", "/tmp/x\\n"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char expected[512];
        load("VRAMALLOC_REPORT", bad[i][0]);
        snprintf(
            expected, sizeof(expected),
            "vramalloc: VRAMALLOC_REPORT=\"%s\" is not valid: accepted is stderr, off, or a path "
            "(/tmp/%%e.%%p, /dev/stdout; at most 4095 characters, no blank at either end); "
            "using the default, stderr\n",
            bad[i][1]);
        assert_string_equal(said, expected);
        assert_string_equal(options.report, "stderr");
    }
    static const char *const good[] = {"/dev/stdout", "/tmp/-", "/tmp/stdout", "/tmp/a b"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        load("VRAMALLOC_REPORT", good[i]);
        assert_string_equal(said, "");
        assert_string_equal(options.report, good[i]);
    }
}

/* A relative path is taken from the folder in which the settings were read, whatever it is named.
 */
static void relative_paths(void **state)
{
    (void)state;
    static char longest[PATH_MAX - 4];
    char folder[] = "/tmp/vramalloc-5%d-XXXXXX", expected[64], before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    load("VRAMALLOC_REPORT", "out/%e.%p");
    assert_string_equal(said, "");
    snprintf(expected, sizeof(expected), "/tmp/vramalloc-5%%%%d-%s/out/%%e.%%p",
             strrchr(folder, '-') + 1);
    assert_string_equal(options.report, expected);
    memset(longest, 'a', sizeof(longest) - 1);
    load("VRAMALLOC_REPORT", longest);
    assert_non_null(strstr(said, "is taken from the working directory at exit: with the present "
                                 "one it is too long\n"));
    assert_string_equal(options.report, longest);
    assert_int_equal(rmdir(folder), 0);
    load("VRAMALLOC_REPORT", "out");
    assert_string_equal(said, "vramalloc: VRAMALLOC_REPORT=\"out\" is taken from the working "
                              "directory at exit: the path of the present one is not known\n");
    assert_string_equal(options.report, "out");
    assert_int_equal(chdir(before), 0);
}

static void unknown_names_are_said(void **state)
{
    (void)state;
    load("VRAMALLOC_SLCAK", "1");
    assert_string_equal(
        said, "vramalloc: VRAMALLOC_SLCAK is not a setting; did you mean VRAMALLOC_SLACK?\n");
    load("VRAMALLOC_COLOUR", "1");
    assert_string_equal(said, "vramalloc: VRAMALLOC_COLOUR is not a setting; it is ignored\n");
    static const char *const near[][2] = {{"VRAMALLOC_SLAK", "VRAMALLOC_SLACK"},
                                          {"VRAMALLOC_FREES", "VRAMALLOC_FREE"},
                                          {"VRAMALLOC_RAPORT", "VRAMALLOC_REPORT"},
                                          {"VRAMALLOC_ARENA_SIZES", "VRAMALLOC_ARENA_SIZE"},
                                          {"VRAMALLOC_ARENASIZE", "VRAMALLOC_ARENA_SIZE"},
                                          {"VRAMALLOC_VRBOSE", "VRAMALLOC_VERBOSE"}};
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
        char expected[256];
        load(near[i][0], "1");
        snprintf(expected, sizeof(expected), "vramalloc: %s is not a setting; did you mean %s?\n",
                 near[i][0], near[i][1]);
        assert_string_equal(said, expected);
    }
    load("VRAMALLOC_LIB", "x");
    assert_string_equal(said, "");
    load("VRAMALLOCATE", "x");
    assert_string_equal(said, "");
}

/* Nothing is said before memory is asked for, and nothing twice. */
static void complaints_wait(void **state)
{
    (void)state;
    setenv("VRAMALLOC_SLACK", "lots", 1);
    listen_begin();
    options_load();
    dprintf(STDERR_FILENO, "one\n");
    options_complain(0);
    dprintf(STDERR_FILENO, "two\n");
    options_complain(0);
    dprintf(STDERR_FILENO, "three\n");
    listen_end();
    unsetenv("VRAMALLOC_SLACK");
    assert_ptr_equal(strstr(said, "one\nvramalloc: VRAMALLOC_SLACK=\"lots\""), said);
    assert_non_null(strstr(said, "80\ntwo\nthree\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(bad_sizes_cost_one_line_and_the_default),
        cmocka_unit_test(what_is_said_is_one_line),
        cmocka_unit_test(what_is_long_is_cut),
        cmocka_unit_test(choices),
        cmocka_unit_test(switches_and_percentages),
        cmocka_unit_test(seconds),
        cmocka_unit_test(signals),
        cmocka_unit_test(paths),
        cmocka_unit_test(no_paths),
        cmocka_unit_test(relative_paths),
        cmocka_unit_test(unknown_names_are_said),
        cmocka_unit_test(complaints_wait),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
