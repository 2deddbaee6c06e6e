/* test_tune.c - tools/tune: the settings that are tried, the Pareto front and the recommendation
 * against a naive model, and jobs in processes. Random rows are seeded; the seed is printed, and
 * VRAMALLOC_TEST_SEED sets it. */
#include "unit.h"

#include <signal.h>
#include <time.h>

#include "../../tools/tune/jobs.h"
#include "../../tools/tune/plan.h"

enum { ROUNDS = 3000, JOBS = 40 };

static const struct plan_base base = {.live_bytes = 1001 * MIB + 5,
                                      .driver_bytes = 1200 * MIB,
                                      .card_bytes = 1500 * MIB,
                                      .driver_ns = 5e9,
                                      .span_ns = 1e10,
                                      .recorded_ns = 2e9,
                                      .wait_ns = 1e9,
                                      .wait_known = true};

static void settings_differ(void **state)
{
    (void)state;
    struct plan_row rows[PLAN_ROWS_MAX];
    char text[PLAN_ROWS_MAX][PLAN_ENVIRONMENT_BYTES];
    size_t count = plan_make(&base, 77, rows);
    assert_int_equal(count, 24);
    for (size_t i = 0; i < count; i++) {
        plan_environment(&rows[i].settings, text[i]);
        assert_int_equal(rows[i].settings.lag_ns, 77);
        assert_int_equal(rows[i].settings.passes, 1);
        assert_true(rows[i].settings.card_bytes == base.card_bytes);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text[i], text[k]);
    }
    assert_string_equal(text[0], "");
    bool all = false, limit = false, none = false;
    for (size_t i = 0; i < count; i++) {
        all |= strcmp(text[i], "VRAMALLOC_FREE=deferred VRAMALLOC_BACKING=vmm "
                               "VRAMALLOC_ARENA_SIZE=1002M") == 0;
        limit |= strcmp(text[i], "VRAMALLOC_ARENA_LIMIT=1200M") == 0;
        none |= strcmp(text[i], "VRAMALLOC_BACKING=vmm VRAMALLOC_ARENA_SIZE=none") == 0;
    }
    assert_true(all && limit && none);
}

static size_t rows_random(struct plan_row rows[PLAN_ROWS_MAX])
{
    size_t count = plan_make(&base, 0, rows);
    for (size_t i = 0; i < count; i++) {
        rows[i].result.completed = rand() % 8 != 0;
        rows[i].result.peak_backed_bytes = (uint64_t)(1 + rand() % 30) * MIB;
        rows[i].result.first_ns = rand() % 30 * 1e8;
    }
    plan_judge(&base, rows, count);
    return count;
}

static void times_add_up(void **state)
{
    (void)state;
    struct plan_row rows[PLAN_ROWS_MAX];
    size_t count = rows_random(rows);
    for (size_t i = 0; i < count; i++) {
        double waits = rows[i].settings.deferred ? 0 : base.wait_ns;
        assert_true(rows[i].time_ns == rows[i].result.first_ns + waits);
        assert_true(rows[i].run_ns == base.span_ns - base.recorded_ns + rows[i].time_ns);
    }
}

/* No other row is at least as good in both and better in one. */
static void front_is_the_front(void **state)
{
    (void)state;
    struct plan_row rows[PLAN_ROWS_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = rows_random(rows), on_front = 0;
        for (size_t i = 0; i < count; i++) {
            bool beaten = !rows[i].result.completed;
            for (size_t k = 0; k < count; k++) {
                uint64_t a = rows[i].result.peak_backed_bytes, b = rows[k].result.peak_backed_bytes;
                double s = rows[i].time_ns, t = rows[k].time_ns;
                beaten |= rows[k].result.completed && b <= a && t <= s && (b != a || t != s);
            }
            assert_int_equal(rows[i].front, !beaten);
            on_front += rows[i].front;
        }
        assert_true(on_front > 0);
    }
}

static double measure(const struct plan_row *row, enum plan_preference preference)
{
    double memory = (double)row->result.peak_backed_bytes;
    return preference == PLAN_MEMORY ? memory
           : preference == PLAN_TIME ? row->run_ns
                                     : memory * row->run_ns;
}

static unsigned words(const struct plan_row *row)
{
    char text[PLAN_ENVIRONMENT_BYTES];
    unsigned count = 0;
    plan_environment(&row->settings, text);
    for (const char *c = text; *c != '\0'; c++)
        count += *c == '=';
    return count;
}

static void best_is_best(void **state)
{
    (void)state;
    struct plan_row rows[PLAN_ROWS_MAX];
    for (int round = 0; round < ROUNDS; round++) {
        enum plan_preference preference = (enum plan_preference)(round % 3);
        size_t count = rows_random(rows);
        const struct plan_row *best = plan_best(rows, count, preference);
        assert_non_null(best);
        assert_true(best->result.completed);
        for (size_t i = 0; i < count; i++) {
            if (!rows[i].result.completed)
                continue;
            assert_true(measure(best, preference) <= 1.0101 * measure(&rows[i], preference));
            if (measure(&rows[i], preference) < measure(best, preference))
                assert_true(words(&rows[i]) > words(best));
        }
    }
    size_t count = rows_random(rows);
    for (size_t i = 0; i < count; i++)
        rows[i].result.completed = false;
    assert_null(plan_best(rows, count, PLAN_BOTH));
}

/* --- jobs -------------------------------------------------------------------------------- */

static bool job_mark(void *arg, size_t job)
{
    ((unsigned *)arg)[job]++;
    return true;
}

static bool job_refuses(void *arg, size_t job)
{
    (void)arg;
    return job != 5;
}

static bool job_dies(void *arg, size_t job)
{
    (void)arg;
    if (job == 7)
        raise(9);
    return true;
}

static void jobs_are_done_once(void **state)
{
    (void)state;
    unsigned *marks = jobs_memory(JOBS * sizeof(*marks));
    for (size_t processes = 1; processes <= 2 * JOBS; processes += 13) {
        memset(marks, 0, JOBS * sizeof(*marks));
        assert_true(jobs_run(JOBS, processes, "marking", job_mark, marks));
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(marks[i], 1);
    }
    assert_true(jobs_run(0, 2, "nothing", job_mark, marks));
    assert_false(jobs_run(JOBS, 2, "refusing", job_refuses, NULL));
    assert_false(jobs_run(JOBS, 2, "dying", job_dies, NULL));
}

int main(void)
{
    const char *wanted = getenv("VRAMALLOC_TEST_SEED");
    unsigned seed = wanted != NULL ? (unsigned)strtoul(wanted, NULL, 0) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    srand(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_differ),    cmocka_unit_test(times_add_up),
        cmocka_unit_test(front_is_the_front), cmocka_unit_test(best_is_best),
        cmocka_unit_test(jobs_are_done_once),
    };
    return cmocka_run_group_tests_name("tune", tests, NULL, NULL);
}
