/* test_report.c - the report: figures that add up and agree between text and JSON, files that harm
 * nobody.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../shim/options.h"
#include "../../shim/rank.h"
#include "../../shim/report_buffer.h"
#include "../../shim/units.h"
#include "../../tools/report/read.h"
#include "sim_backing.h"

#define SECOND   ((uint64_t)1000000000)
#define START_NS (77 * SECOND)

static struct report_buffer text, json;

/* A device with figures from a real pool. */
static void device_fill(struct report_device *device, int ordinal)
{
    struct sim_backing *sim = sim_backing_create(UINT64_MAX);
    struct pool *pool = sim_pool_create(sim, 0, 0);
    memset(device, 0, sizeof(*device));
    for (uint64_t i = 1; i < 200; i++) {
        uint64_t a = sim_alloc(pool, i * 1777);
        if (i % 3 == 0)
            sim_free(a);
    }
    pool_stats_read(pool, &device->pool);
    device->ordinal = ordinal;
    snprintf(device->name, sizeof(device->name), "Test \"GPU\" \\ %d", ordinal);
    device->total_bytes = 80 * GIB;
    device->contexts = 1;
    device->counters.alloc_served = device->pool.allocations;
    device->counters.alloc_forwarded = 5;
    device->counters.alloc_failed = 2;
    device->counters.alloc_calls = device->pool.allocations + 7;
    device->counters.free_served = device->pool.frees;
    device->counters.free_calls = device->pool.frees;
    device->counters.out_of_memory = 2;
    device->counters.out_of_memory_size = device->counters.out_of_memory_pieces = 1;
    device->counters.free_wait_ns = 2 * SECOND;
    device->history =
        (struct pool_history){.live_byte_ns = 5e9 * (double)device->pool.peak_live_block_bytes,
                              .held_byte_ns = 12e9 * (double)device->pool.backed_bytes,
                              .peak_live_ns = START_NS + 3 * SECOND,
                              .peak_backed_ns = START_NS + SECOND / 2,
                              .worst = {.at_ns = START_NS + 7 * SECOND,
                                        .asked_bytes = 9 * MIB,
                                        .free_bytes = 8 * MIB,
                                        .largest_bytes = 2 * MIB,
                                        .pinned_segments = 1,
                                        .pin_size_bytes = 512,
                                        .pin_blocks = 3,
                                        .pin_bytes = 1536}};
    for (uint64_t i = 0; i < device->pool.segment_acquires; i++)
        histogram_add(&device->latency.growth, 50000 + i, 1);
    for (uint64_t i = 0; i < 20; i++)
        histogram_add(&device->latency.sampled[LATENCY_ALLOC], 30 + i, 8);
    histogram_add(&device->latency.slow[LATENCY_ALLOC], 60000, 1);
    histogram_add(&device->latency.sampled[LATENCY_FREE], 25, 64);
    pool_destroy(pool, true);
    sim_backing_destroy(sim);
}

static struct report report_of(const struct report_device *devices, size_t count)
{
    struct report report = {.program = "pro\"gram",
                            .pid = 4711,
                            .seconds = 12.5,
                            .number = 1,
                            .reason = "exit",
                            .at_exit = true,
                            .start_ns = START_NS,
                            .slack = 80,
                            .free_mode = "sync",
                            .backing = "malloc",
                            .count_leaks = true,
                            .device_count = count,
                            .devices = devices};
    return report;
}

static void make(const struct report *report)
{
    text.used = json.used = 0;
    text.cut = json.cut = false;
    report_text_make(&text, report);
    report_json_make(&json, report);
    assert_false(text.cut);
    assert_false(json.cut);
}

static void the_balance_is_in_the_text(void **state)
{
    (void)state;
    static struct report_device device;
    char line[512];
    device_fill(&device, 0);
    struct report report = report_of(&device, 1);
    make(&report);
    const struct pool_stats *p = &device.pool;
    assert_int_equal(p->live_requested_bytes + p->internal_waste_bytes + p->limbo_bytes +
                         p->slab_free_bytes + p->run_free_bytes,
                     p->backed_bytes);
    snprintf(line, sizeof(line),
             "%s requested + %s waste + %s limbo + %s free slots + %s free runs",
             unit_bytes(p->live_requested_bytes).text, unit_bytes(p->internal_waste_bytes).text,
             unit_bytes(p->limbo_bytes).text, unit_bytes(p->slab_free_bytes).text,
             unit_bytes(p->run_free_bytes).text);
    assert_non_null(strstr(text.text, line));
    snprintf(line, sizeof(line), "live at exit   %15s   blocks, %s requested",
             unit_count(p->live_blocks).text, unit_bytes(p->live_requested_bytes).text);
    assert_non_null(strstr(text.text, line));
}

/* JSON is read by python3's own reader, and checked against the schema and the equation. */
static void json_is_read_back(const char *more)
{
    char command[1024];
    char path[] = "/tmp/vramalloc-report-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, json.text, json.used), (ssize_t)json.used);
    close(fd);
    snprintf(command, sizeof(command), "python3 scripts/report-check %s %s", path, more);
    int status = system(command);
    unlink(path);
    assert_int_equal(status, 0);
}

/* A file with so many bytes of the JSON; path is that of mkstemp(). */
static void json_write(char *path, const char *data, size_t bytes)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static const struct command reading = {.name = "test"};

/* `vramalloc report` prints what the program would have printed. */
static void the_text_can_be_made_from_the_json(void **state)
{
    (void)state;
    static struct report_device devices[2];
    static struct report_buffer again;
    struct loaded loaded;
    device_fill(&devices[0], 0);
    device_fill(&devices[1], 3);
    devices[1].counters.free_waits = 9;
    devices[1].counters.free_invalid = devices[1].refused_count = 2;
    devices[1].refused_frees[0] = (struct refused_free){0x7f0000000200, 0x7f0000000000, 4096};
    devices[1].peers = true;
    for (int i = 0; i < 8; i++) {
        char path[] = "/tmp/vramalloc-report-XXXXXX";
        struct report report = report_of(devices, i % 2 == 0 ? 1 : 2);
        report.program[3] = '-';
        report.slack = i % 4 < 2 ? 80 : 0;
        report.count_leaks = i % 3 != 0;
        report.number = (uint64_t)i + 1;
        report.at_exit = i < 4;
        report.reason = i < 4 ? "exit" : "every 60 s";
        report.time = 1796282453;
        report.backing = i < 5 ? "malloc" : "vmm";
        make(&report);
        json_write(path, json.text, json.used);
        assert_true(report_read(&reading, path, &loaded));
        again.used = 0;
        report_text_make(&again, &loaded.report);
        assert_string_equal(again.text, text.text);
        report_free(&loaded);
        unlink(path);
    }
}

/* Damaged reports are refused or read, and harm nobody. */
static void damaged_reports_are_refused(void **state)
{
    (void)state;
    static struct report_device device;
    static struct report_buffer damaged, again;
    struct loaded loaded;
    int refused = 0, saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    uint64_t random = 1;
    device_fill(&device, 0);
    struct report report = report_of(&device, 1);
    make(&report);
    dup2(null, STDERR_FILENO);
    for (int i = 0; i < 3000; i++) {
        char path[] = "/tmp/vramalloc-report-XXXXXX";
        size_t bytes = json.used;
        memcpy(damaged.text, json.text, bytes);
        for (int j = 0; j <= i % 3; j++) {
            static const char with[] = "0123456789-e.{}[]\",:nx \x01\xff";
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            damaged.text[(random >> 33) % bytes] = with[(random >> 20) % (sizeof(with) - 1)];
        }
        json_write(path, damaged.text, i % 10 == 9 ? (random >> 33) % bytes : bytes);
        if (report_read(&reading, path, &loaded)) {
            again.used = 0;
            report_text_make(&again, &loaded.report);
            report_free(&loaded);
        } else {
            refused++;
        }
        unlink(path);
    }
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(null);
    assert_in_range(refused, 500, 2999);
}

/* Moments are seconds since the first CUDA call, means are over the whole run. */
static void the_past_is_in_both_forms(void **state)
{
    (void)state;
    static struct report_device device;
    char line[256];
    device_fill(&device, 0);
    struct report report = report_of(&device, 1);
    make(&report);
    assert_non_null(strstr(text.text, "3.0 s   requested, rounded up"));
    assert_non_null(
        strstr(text.text, "75.0 %   of 8.00 MiB free, at 7.0 s, when 9.00 MiB were asked for"));
    assert_non_null(strstr(text.text, "1.50 KiB   in 3 blocks of 512 B to 1.00 KiB"));
    assert_non_null(strstr(text.text, ", 75.0 % of 8.00 MiB at worst"));
    assert_non_null(
        strstr(text.text, "2 allocations ran out of memory: 1 for size, 1 for pieces."));
    assert_non_null(
        strstr(text.text, "Of the run 16.0 % went into waiting for the GPU in frees (2.00 s)"));
    assert_non_null(
        strstr(json.text, "\"peak_live_block_seconds\": 3.000, \"peak_backed_seconds\": 0.500"));
    snprintf(line, sizeof(line), "\"mean_live_block_bytes\": %llu",
             (unsigned long long)((double)device.pool.peak_live_block_bytes * 5 / 12.5));
    assert_non_null(strstr(json.text, line));
    assert_non_null(strstr(json.text, "\"seconds\": 7.000"));
    json_is_read_back("1");
    memset(&device.history, 0, sizeof(device.history)); /* not known: nothing is said */
    make(&report);
    assert_null(strstr(text.text, "at worst"));
    assert_null(strstr(json.text, "peak_backed_seconds"));
    json_is_read_back("1");
}

/* A sentence that counts one thing says so. */
static void one_is_singular(void **state)
{
    (void)state;
    static struct report_device devices[2];
    static const char *const singular[] = {"1 of 1 call was served",
                                           "1 allocation ran out",
                                           "in 1 segment\n",
                                           "free in 1 run\n",
                                           "1   block, 9 B requested",
                                           "1   block live at exit",
                                           "1   allocation refused",
                                           "1   managed allocation, 9 B\n",
                                           "1   host allocation\n",
                                           "1   array\n",
                                           "1   allocation from explicit pools\n",
                                           "1   cuMemCreate allocation\n",
                                           "1   stream-ordered call while capturing\n",
                                           "1   handle of a block\n",
                                           "All 2 GPUs: 1 allocation, 0 frees,"};
    static const char *const plural[] = {"2 of 4 calls were served",
                                         "2 allocations ran out",
                                         "in 2 segments\n",
                                         "free in 2 runs\n",
                                         "2   blocks, 9 B requested",
                                         "2   blocks live at exit",
                                         "2   allocations refused",
                                         "2   managed allocations, 9 B\n",
                                         "2   host allocations\n",
                                         "2   arrays\n",
                                         "2   allocations from explicit pools\n",
                                         "2   cuMemCreate allocations\n",
                                         "2   stream-ordered calls while capturing\n",
                                         "2   handles of blocks\n",
                                         "All 2 GPUs: 2 allocations, 2 frees,"};
    struct report report = report_of(devices, 2);
    for (uint64_t n = 1; n <= 2; n++) {
        struct counters *c = &devices[0].counters;
        struct pool_stats *p = &devices[0].pool;
        c->alloc_calls = c->alloc_served = c->out_of_memory = c->ipc_refused = n;
        c->free_calls = 2 * (n - 1);
        c->passed_managed = c->passed_host = c->passed_array = c->passed_pool = n;
        c->passed_create = c->passed_capture = c->forwarded_live = n;
        c->passed_managed_bytes = p->live_requested_bytes = 9;
        p->allocations = p->segments = p->free_runs = p->live_blocks = n;
        make(&report);
        for (size_t i = 0; i < sizeof(plural) / sizeof(plural[0]); i++)
            if (strstr(text.text, n == 1 ? singular[i] : plural[i]) == NULL)
                fail_msg("no \"%s\" in %s", n == 1 ? singular[i] : plural[i], text.text);
    }
}

static void one_gpu_fits_on_a_screen(void **state)
{
    (void)state;
    static struct report_device device;
    int lines = 0, columns = 0, widest = 0;
    device_fill(&device, 0);
    struct report report = report_of(&device, 1);
    make(&report);
    for (const char *c = text.text; *c != '\0'; c++) {
        columns = *c == '\n' ? 0 : columns + 1;
        widest = columns > widest ? columns : widest;
        lines += *c == '\n';
    }
    assert_in_range(lines, 10, 48); /* with every line that there can be */
    assert_in_range(widest, 40, 118);
}

static void json_agrees_with_schema_and_equations(void **state)
{
    (void)state;
    static struct report_device devices[2];
    device_fill(&devices[0], 0);
    device_fill(&devices[1], 1);
    struct report report = report_of(devices, 2);
    make(&report);
    json_is_read_back("2");
    assert_non_null(strstr(text.text, "All 2 GPUs"));
    report.device_count = 1;
    make(&report);
    json_is_read_back("1");
    assert_null(strstr(text.text, "GPUs:"));
}

/* UTF-8 stays; what is none, and what would break a line, is escaped. */
static void names_are_json(void **state)
{
    (void)state;
    static struct report_device device;
    static const char *const names[][2] = {
        {"pr\xc3\xb6gram", "pr\xc3\xb6gram"},
        {"\xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf",
         "\xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"},
        {"pr\xf6gram", "pr\\ufffdgram"},
        {"cut \xc3", "cut \\ufffd"},
        {"cut \xf0\x9f\x98", "cut \\ufffd\\ufffd\\ufffd"},
        {"\xc3\xc3\xb6", "\\ufffd\xc3\xb6"},
        {"overlong \xc0\xaf", "overlong \\ufffd\\ufffd"},
        {"overlong \xe0\x9f\xbf", "overlong \\ufffd\\ufffd\\ufffd"},
        {"surrogate \xed\xa0\x80", "surrogate \\ufffd\\ufffd\\ufffd"},
        {"beyond \xf4\x90\x80\x80", "beyond \\ufffd\\ufffd\\ufffd\\ufffd"},
        {"\xff\x80", "\\ufffd\\ufffd"},
        {"a\nb\t\x1b[m\x7f", "a\\u000ab\\u0009\\u001b[m\\u007f"},
        {"\"\\", "\\\"\\\\"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char expected[128];
        struct report report = report_of(&device, 1);
        snprintf(report.program, sizeof(report.program), "%s", names[i][0]);
        make(&report);
        snprintf(expected, sizeof(expected), "\"program\": \"%s\",\n", names[i][1]);
        if (strstr(json.text, expected) == NULL)
            fail_msg("%zu: %.100s", i, json.text);
        json_is_read_back("1");
    }
}

static void nothing_and_enormous_figures_are_printed(void **state)
{
    (void)state;
    static struct report_device device;
    memset(&device, 0, sizeof(device));
    struct report report = report_of(&device, 1);
    make(&report);
    json_is_read_back("1");
    assert_null(strstr(json.text, "fragmentation"));
    device.counters.alloc_calls = device.counters.alloc_failed = UINT64_MAX;
    device.counters.free_calls = device.counters.free_failed = UINT64_MAX;
    device.pool.allocations = 1;
    device.pool.peak_backed_bytes = UINT64_MAX;
    make(&report);
    assert_non_null(strstr(text.text, "18,446,744,073,709,551,615"));
    assert_non_null(strstr(text.text, "16.0 EiB"));
}

static void units_are_sane(void **state)
{
    (void)state;
    assert_string_equal(unit_bytes(0).text, "0 B");
    assert_string_equal(unit_bytes(1023).text, "1023 B");
    assert_string_equal(unit_bytes(1024).text, "1.00 KiB");
    assert_string_equal(unit_bytes(1536 * MIB).text, "1.50 GiB");
    assert_string_equal(unit_bytes(192 * GIB).text, "192 GiB");
    assert_string_equal(unit_bytes(GIB - 1).text, "1.00 GiB");
    assert_string_equal(unit_count(1234567).text, "1,234,567");
    assert_string_equal(unit_count(999).text, "999");
    assert_string_equal(unit_time(0).text, "1970-01-01T00:00:00Z");
    assert_string_equal(unit_time(951782399).text, "2000-02-28T23:59:59Z");
    assert_string_equal(unit_time(951868799).text, "2000-02-29T23:59:59Z");
    assert_string_equal(unit_time(951868800).text, "2000-03-01T00:00:00Z");
    assert_string_equal(unit_time(4107542399).text, "2100-02-28T23:59:59Z");
    assert_string_equal(unit_time(4107542400).text, "2100-03-01T00:00:00Z");
    assert_string_equal(unit_time(1798761599).text, "2026-12-31T23:59:59Z");
    assert_string_equal(unit_ns(999).text, "999 ns");
    assert_string_equal(unit_ns(1500).text, "1.50 us");
    assert_string_equal(unit_ns(2050000000).text, "2.05 s");
    assert_string_equal(unit_share(1, 8).text, "12.5 %");
    assert_string_equal(unit_share(1, 0).text, "-");
}

static void patterns_are_expanded(void **state)
{
    (void)state;
    char path[PATH_MAX], expected[PATH_MAX], host[256] = "";
    struct report report = report_of(NULL, 0);
    snprintf(report.program, sizeof(report.program), "a/b c");
    gethostname(host, sizeof(host) - 1);
    setenv("RANK", "7", 1);
    assert_true(report_path_expand("/x/%p-%e-%h-%r-%%-%z-%", &report, path, sizeof(path)));
    snprintf(expected, sizeof(expected), "/x/4711-a_b c-%s-7-%%-%%z-%%", host);
    assert_string_equal(path, expected);
    unsetenv("RANK");
    assert_true(report_path_expand("%r", &report, path, sizeof(path)));
    assert_string_equal(path, "0");
    assert_false(report_path_expand("%e%e%e%e%e", &report, path, 8));
}

/* Each launcher's variable, alone and among those that it inherits. */
static void ranks_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *set[3];
        const char *text;
        int number;
    } jobs[] = {{{"OMPI_COMM_WORLD_RANK=3"}, "3", 3},
                {{"MV2_COMM_WORLD_RANK=4"}, "4", 4},
                {{"PMI_RANK=5"}, "5", 5},
                {{"PMIX_RANK=6"}, "6", 6},
                {{"PALS_RANKID=7"}, "7", 7},
                {{"FLUX_TASK_RANK=8"}, "8", 8},
                {{"SLURM_PROCID=9"}, "9", 9},
                {{"RANK=10"}, "10", 10},
                {{"MVP_COMM_WORLD_RANK=6"}, "6", 6},
                {{"JSM_NAMESPACE_RANK=7", "PMIX_RANK=9"}, "7", 7},
                {{"JOB_COMPLETION_INDEX=11"}, "11", 11},
                {{"RANK=12", "WORLD_SIZE=16", "SLURM_PROCID=1"}, "12", 12},
                {{"RANK=12", "WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=1"}, "12", 12},
                {{"OMPI_COMM_WORLD_RANK=2", "SLURM_PROCID=0"}, "2", 2},
                {{"SLURM_PROCID=2", "RANK=x"}, "2", 2},
                {{"RANK=", "SLURM_PROCID=1"}, "1", 1},
                {{"RANK=a/b"}, "a/b", RANK_UNKNOWN},
                {{"RANK=-1"}, "-1", RANK_UNKNOWN},
                {{"RANK=1234567890"}, "1234567890", RANK_UNKNOWN},
                {{"WORLD_SIZE=1"}, NULL, RANK_UNKNOWN}};
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        char names[3][64] = {"", "", ""};
        for (int j = 0; j < 3 && jobs[i].set[j] != NULL; j++) {
            const char *equals = strchr(jobs[i].set[j], '=');
            snprintf(names[j], sizeof(names[j]), "%.*s", (int)(equals - jobs[i].set[j]),
                     jobs[i].set[j]);
            setenv(names[j], equals + 1, 1);
        }
        if (jobs[i].text == NULL)
            assert_null(rank_text());
        else
            assert_string_equal(rank_text(), jobs[i].text);
        assert_int_equal(rank_number(), jobs[i].number);
        for (int j = 0; j < 3; j++)
            if (names[j][0] != '\0')
                unsetenv(names[j]);
    }
}

static void a_rank_is_in_the_json(void **state)
{
    (void)state;
    static struct report_device device;
    struct report report = report_of(&device, 1);
    make(&report);
    assert_null(strstr(json.text, "\"rank"));
    setenv("PMI_SIZE", "17", 1); /* no rank is as high */
    setenv("PMI_RANK", "17", 1);
    make(&report);
    assert_non_null(strstr(json.text, "\"rank\": 17,"));
    assert_null(strstr(json.text, "\"ranks\""));
    setenv("PMI_SIZE", "18", 1);
    make(&report);
    assert_non_null(strstr(json.text, "\"ranks\": 18,"));
    unsetenv("PMI_SIZE");
    json_is_read_back("1");
    setenv("PMI_RANK", "\"", 1);
    make(&report);
    assert_null(strstr(json.text, "\"rank\""));
    unsetenv("PMI_RANK");
}

/* What is reported before the exit says which report it is, and that its levels are of now. */
static void reports_before_the_exit(void **state)
{
    (void)state;
    static struct report_device device;
    device_fill(&device, 0);
    struct report report = report_of(&device, 1);
    make(&report);
    assert_null(strstr(text.text, "(exit"));
    assert_non_null(strstr(text.text, "memory            at exit         mean         peak"));
    report.number = 3;
    report.at_exit = false;
    report.reason = "signal USR2";
    report.time = 951782399;
    make(&report);
    assert_ptr_equal(
        strstr(text.text,
               "\nvramalloc report 3 (signal USR2, 2000-02-28T23:59:59Z): pro\"gram (pid 4711)"),
        text.text);
    assert_null(strstr(text.text, "at exit"));
    assert_non_null(strstr(json.text, "\"number\": 3,\n \"reason\": \"signal USR2\",\n \"time\": "
                                      "\"2000-02-28T23:59:59Z\",\n \"host\": \""));
    json_is_read_back("1");
    report.at_exit = true;
    report.reason = "exit";
    make(&report);
    assert_non_null(strstr(text.text, "\nvramalloc report 3 (exit, 2000-"));
}

static void files_harm_nobody(void **state)
{
    (void)state;
    char folder[] = "/tmp/vramalloc-test-XXXXXX";
    char file[64], link_name[64], other[64], numbered[80];
    struct stat status;
    int error = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/report", folder);
    snprintf(link_name, sizeof(link_name), "%s/link", folder);
    snprintf(other, sizeof(other), "%s/other", folder);
    int fd = report_path_open(file, &error);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(write(fd, "x", 1), 1);
    close(fd);
    fd = report_path_open(file, &error); /* taken: the next number */
    assert_true(fd >= 0);
    close(fd);
    snprintf(numbered, sizeof(numbered), "%s.1", file);
    assert_int_equal(stat(numbered, &status), 0);
    assert_int_equal(stat(file, &status), 0);
    assert_int_equal(status.st_size, 1); /* not truncated */
    unlink(numbered);
    fd = report_path_open(file, &error); /* numbers are not used again */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(stat(numbered, &status), -1);
    snprintf(numbered, sizeof(numbered), "%s.2", file);
    assert_int_equal(stat(numbered, &status), 0);
    unlink(numbered);
    assert_int_equal(symlink(other, link_name), 0); /* planted, to nowhere */
    fd = report_path_open(link_name, &error);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(stat(other, &status), -1); /* not followed */
    snprintf(numbered, sizeof(numbered), "%s.1", link_name);
    unlink(numbered);
    assert_int_equal(report_path_open("/nonexistent/folder/report", &error), -1);
    assert_int_equal(error, 2);
    unlink(file);
    unlink(link_name);
    assert_int_equal(rmdir(folder), 0);
}

/* What is no file is written to as it stands, and a folder is no place. */
static void devices_pipes_and_folders(void **state)
{
    (void)state;
    char folder[] = "/tmp/vramalloc-test-XXXXXX";
    char fifo[64], numbered[80], got[8] = "";
    struct stat status;
    int error = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
    snprintf(numbered, sizeof(numbered), "%s.1", folder);
    int fd = report_path_open("/dev/null", &error);
    assert_true(fd > STDERR_FILENO);
    assert_int_equal(fstat(fd, &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    close(fd);
    assert_int_equal(stat("/dev/null.1", &status), -1);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(report_path_open(fifo, &error), -1); /* nobody reads it */
    assert_int_equal(error, ENXIO);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    fd = report_path_open(fifo, &error);
    assert_true(fd > STDERR_FILENO);
    assert_int_equal(write(fd, "figures", 7), 7);
    assert_int_equal(read(reader, got, 7), 7);
    assert_string_equal(got, "figures");
    close(fd);
    close(reader);
    assert_int_equal(report_path_open(folder, &error), -1);
    assert_int_equal(error, EISDIR);
    assert_int_equal(stat(numbered, &status), -1);
    unlink(fifo);
    assert_int_equal(rmdir(folder), 0);
}

/* A descriptor of the program is written to where it stands; one that takes nothing is an error. */
static void open_descriptors(void **state)
{
    (void)state;
    static const char *const forms[] = {"/dev/fd/%d", "/proc/self/fd/%d"};
    char file[] = "/tmp/vramalloc-test-XXXXXX", path[64], got[16] = "";
    int error = 0, own = mkstemp(file);
    assert_true(own > STDERR_FILENO);
    assert_int_equal(write(own, "a", 1), 1);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), forms[i], own);
        int fd = report_path_open(path, &error);
        assert_true(fd > STDERR_FILENO && fd != own);
        assert_int_equal(write(fd, "b", 1), 1);
        close(fd);
    }
    assert_int_equal(pread(own, got, sizeof(got) - 1, 0), 3);
    assert_string_equal(got, "abb");
    close(own);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), forms[i], own); /* closed */
        assert_int_equal(report_path_open(path, &error), -1);
        assert_int_equal(error, EBADF);
        own = open(file, O_RDONLY);
        assert_int_equal(report_path_open(path, &error), -1);
        assert_int_equal(error, EBADF);
        close(own);
        snprintf(path, sizeof(path), "%s/99999999999999999999",
                 i == 0 ? "/dev/fd" : "/proc/self/fd");
        assert_int_equal(report_path_open(path, &error), -1);
        assert_int_equal(error, EBADF);
    }
    assert_int_equal(report_path_open("/dev/fd/1x", &error), -1);
    assert_int_equal(report_path_open("/dev/stderr", &error), STDERR_FILENO);
    assert_int_equal(report_path_open("/dev/fd/2", &error), STDERR_FILENO);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_balance_is_in_the_text),
        cmocka_unit_test(the_past_is_in_both_forms),
        cmocka_unit_test(the_text_can_be_made_from_the_json),
        cmocka_unit_test(damaged_reports_are_refused),
        cmocka_unit_test(one_is_singular),
        cmocka_unit_test(one_gpu_fits_on_a_screen),
        cmocka_unit_test(json_agrees_with_schema_and_equations),
        cmocka_unit_test(names_are_json),
        cmocka_unit_test(nothing_and_enormous_figures_are_printed),
        cmocka_unit_test(units_are_sane),
        cmocka_unit_test(patterns_are_expanded),
        cmocka_unit_test(ranks_are_found),
        cmocka_unit_test(a_rank_is_in_the_json),
        cmocka_unit_test(reports_before_the_exit),
        cmocka_unit_test(files_harm_nobody),
        cmocka_unit_test(devices_pipes_and_folders),
        cmocka_unit_test(open_descriptors),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
