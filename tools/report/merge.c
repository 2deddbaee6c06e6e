/* merge.c - see merge.h.
 *
 * The worst row is the one in which most allocations ran out of memory; among equals, the one that
 * held the largest share of its card; then the one that waited the largest share of its run.
 */
#include "merge.h"

#include <stdlib.h>
#include <string.h>

#include "../../shim/advice.h"
#include "../../shim/rank.h"
#include "../../shim/units.h"

#define BYTES(value) unit_bytes(value).text
#define COUNT(value) unit_count(value).text

enum { NAME_COLUMNS = 16, RANKS_TEXT_BYTES = 200, RANKS_MAX = 1 << 20 };

struct row {
    const struct loaded *from;
    const struct report_device *device;
};

/* A figure of a row, by which the spread is given. */
static uint64_t held_bytes(const struct row *row)
{
    return row->device->pool.peak_backed_bytes;
}

static uint64_t live_bytes(const struct row *row)
{
    return row->device->pool.peak_live_block_bytes;
}

static uint64_t wait_ns(const struct row *row)
{
    return row->device->counters.free_wait_ns;
}

static uint64_t calls(const struct row *row)
{
    return row->device->counters.alloc_calls + row->device->counters.free_calls;
}

static uint64_t driver_calls(const struct row *row)
{
    return row->device->counters.driver_calls;
}

static struct unit_text ns_text(uint64_t ns)
{
    return unit_ns(ns);
}

static const struct spread {
    const char *words, *name; /* for people, for JSON */
    uint64_t (*of)(const struct row *row);
    struct unit_text (*text)(uint64_t value);
    bool adds_up; /* a sum says something */
} spreads[] = {
    {"held at most", "peak_backed_bytes", held_bytes, unit_bytes, true},
    {"in blocks at most", "peak_live_block_bytes", live_bytes, unit_bytes, true},
    {"waits in frees", "free_wait_ns", wait_ns, ns_text, true},
    {"calls", "calls", calls, unit_count, true},
    {"driver calls", "driver_calls", driver_calls, unit_count, true},
};
enum { SPREADS = sizeof(spreads) / sizeof(spreads[0]) };

struct merged {
    struct row *rows;
    size_t count;
};

/* --- which reports --------------------------------------------------------------------------- */

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Reports of one process compare as equal. */
static int process_compare(const struct loaded *a, const struct loaded *b)
{
    if (a->rank != b->rank)
        return (a->rank > b->rank) - (a->rank < b->rank);
    int hosts = strcmp(a->host, b->host);
    if (hosts != 0)
        return hosts;
    if (a->report.pid != b->report.pid)
        return (a->report.pid > b->report.pid) - (a->report.pid < b->report.pid);
    return strcmp(a->report.program, b->report.program);
}

static int report_compare(const void *left, const void *right)
{
    const struct loaded *a = left, *b = right;
    int order = process_compare(a, b);
    return order != 0 ? order : compare(a->report.number, b->report.number);
}

size_t merge_latest(struct loaded *loaded, size_t count)
{
    size_t kept = 0;
    qsort(loaded, count, sizeof(*loaded), report_compare);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && process_compare(&loaded[i], &loaded[i + 1]) == 0)
            report_free(&loaded[i]);
        else
            loaded[kept++] = loaded[i];
    }
    for (size_t i = 0; i < kept; i++)
        report_settle(&loaded[i]);
    return kept;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* part of whole, in millionths. */
static uint64_t share(double part, double whole)
{
    return whole > 0 ? (uint64_t)(part / whole * 1e6) : 0;
}

static uint64_t card_share(const struct row *row)
{
    return share((double)held_bytes(row), (double)row->device->total_bytes);
}

static uint64_t wait_share(const struct row *row)
{
    return share((double)wait_ns(row), row->from->report.seconds * 1e9);
}

static int row_compare(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = compare(b->device->counters.out_of_memory, a->device->counters.out_of_memory);
    if (order == 0)
        order = compare(card_share(b), card_share(a));
    if (order == 0)
        order = compare(wait_share(b), wait_share(a));
    if (order == 0)
        order = process_compare(a->from, b->from);
    return order != 0 ? order : (a->device > b->device) - (a->device < b->device);
}

/* False: no memory. */
static bool rows_make(const struct loaded *loaded, size_t count, struct merged *merged)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += loaded[i].report.device_count;
    merged->rows = calloc(rows, sizeof(*merged->rows));
    merged->count = 0;
    if (merged->rows == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        for (size_t d = 0; d < loaded[i].report.device_count; d++)
            merged->rows[merged->count++] = (struct row){&loaded[i], &loaded[i].devices[d]};
    qsort(merged->rows, merged->count, sizeof(*merged->rows), row_compare);
    return true;
}

/* --- ranks ----------------------------------------------------------------------------------- */

/* The ranks of the job, if all that say so agree; RANK_UNKNOWN. */
static int job_ranks(const struct loaded *loaded, size_t count)
{
    int ranks = RANK_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        if (loaded[i].ranks == RANK_UNKNOWN || loaded[i].ranks > RANKS_MAX ||
            (ranks != RANK_UNKNOWN && ranks != loaded[i].ranks))
            return RANK_UNKNOWN;
        ranks = loaded[i].ranks;
    }
    return ranks;
}

/* The next rank from `rank` on that left no report; `ranks`: none. loaded is in their order. */
static int missing_next(const struct loaded *loaded, size_t count, int rank, int ranks)
{
    for (size_t i = 0; i < count && rank < ranks; i++)
        if (loaded[i].rank == rank)
            rank++;
    return rank;
}

/* "3, 5-7", of those without a report. Returns how many there are. */
static int missing_text(const struct loaded *loaded, size_t count, char *text, size_t bytes)
{
    int ranks = job_ranks(loaded, count), missing = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int first = 0; ranks != RANK_UNKNOWN; first++) {
        int last = first = missing_next(loaded, count, first, ranks);
        if (first >= ranks)
            break;
        while (last + 1 < ranks && missing_next(loaded, count, last + 1, ranks) == last + 1)
            last++;
        missing += last - first + 1;
        const char *comma = used > 0 ? ", " : "";
        if (used + 40 > bytes) {
            snprintf(text + used, bytes - used, "%s...", comma);
        } else if (last > first) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%d-%d", comma, first, last);
        } else {
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", comma, first);
        }
        first = last;
    }
    return missing;
}

/* --- figures of all -------------------------------------------------------------------------- */

struct range {
    uint64_t min, median, max, sum;
    const struct row *least, *most;
};

static int value_compare(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return compare(*a, *b);
}

static struct range range_of(const struct merged *merged, const struct spread *spread,
                             uint64_t *scratch)
{
    struct range range = {.least = merged->rows, .most = merged->rows};
    for (size_t i = 0; i < merged->count; i++) {
        const struct row *row = &merged->rows[i];
        scratch[i] = spread->of(row);
        range.sum += scratch[i];
        if (scratch[i] < spread->of(range.least))
            range.least = row;
        if (scratch[i] > spread->of(range.most))
            range.most = row;
    }
    range.min = spread->of(range.least);
    range.max = spread->of(range.most);
    qsort(scratch, merged->count, sizeof(*scratch), value_compare);
    range.median = scratch[merged->count / 2];
    if (merged->count % 2 == 0)
        range.median = (scratch[merged->count / 2 - 1] + range.median) / 2;
    return range;
}

struct sums {
    struct counters counters;
    size_t hosts;
};

static struct sums sums_of(const struct loaded *loaded, size_t count, const struct merged *merged)
{
    struct sums sums = {0};
    for (size_t i = 0; i < merged->count; i++) {
#define COUNTER(name, unit, meaning) sums.counters.name += merged->rows[i].device->counters.name;
#include "../../shim/counters.def"
#undef COUNTER
    }
    for (size_t i = 0; i < count; i++) {
        bool first = true;
        for (size_t j = 0; j < i && first; j++)
            first = strcmp(loaded[i].host, loaded[j].host) != 0;
        sums.hosts += first;
    }
    return sums;
}

/* --- advice ---------------------------------------------------------------------------------- */

/* One setting, and how many processes are advised to use it. */
struct counsel {
    struct advice advice; /* as the worst of them has it */
    const struct loaded *from;
    size_t processes;
    char name[64]; /* of the variable: values can differ */
};

enum { COUNSELS_MAX = 8 };

static struct counsel *counsel_find(struct counsel *counsels, size_t *count,
                                    const struct advice *advice)
{
    size_t bytes = strcspn(advice->setting, "=");
    for (size_t i = 0; i < *count; i++)
        if (strlen(counsels[i].name) == bytes &&
            strncmp(counsels[i].name, advice->setting, bytes) == 0)
            return &counsels[i];
    if (*count == COUNSELS_MAX)
        return NULL;
    struct counsel *counsel = &counsels[(*count)++];
    *counsel = (struct counsel){.advice = *advice};
    memcpy(counsel->name, advice->setting, bytes);
    return counsel;
}

/* Of the processes in the order of the rows: so the worst one's words are given. */
static size_t counsels_make(const struct merged *merged, struct counsel counsels[COUNSELS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < merged->count; i++) {
        const struct row *row = &merged->rows[i];
        struct advice advice[ADVICE_MAX];
        int pieces = advice_make(&row->from->report, advice);
        for (int p = 0; p < pieces; p++) {
            if (advice[p].ordinal != row->device->ordinal)
                continue;
            struct counsel *counsel = counsel_find(counsels, &count, &advice[p]);
            if (counsel == NULL)
                continue;
            if (counsel->processes == 0)
                counsel->from = row->from;
            counsel->processes++;
        }
    }
    return count;
}

/* "rank 3", or "pid 17" where there is no rank. */
static struct unit_text who(const struct loaded *loaded)
{
    struct unit_text out;
    if (loaded->rank != RANK_UNKNOWN)
        snprintf(out.text, sizeof(out.text), "rank %d", loaded->rank);
    else
        snprintf(out.text, sizeof(out.text), "pid %d", loaded->report.pid);
    return out;
}

/* --- text ------------------------------------------------------------------------------------ */

static void head_text(FILE *to, const struct loaded *loaded, size_t count,
                      const struct merged *merged, size_t earlier)
{
    char missing[RANKS_TEXT_BYTES];
    struct sums sums = sums_of(loaded, count, merged);
    const struct counters *c = &sums.counters;
    uint64_t all = c->alloc_calls + c->free_calls, served = c->alloc_served + c->free_served;
    fprintf(to, "vramalloc reports of %s process%s on %s host%s\n", COUNT(count),
            count == 1 ? "" : "es", COUNT(sums.hosts), unit_plural(sums.hosts));
    fprintf(to, "  %s of %s calls were served from the pools (%s). ", COUNT(served), COUNT(all),
            unit_share(served, all).text);
    if (c->out_of_memory == 0)
        fprintf(to, "No allocation ran out of memory.\n");
    else
        fprintf(to, "%s allocation%s ran out of memory, first below.\n", COUNT(c->out_of_memory),
                unit_plural(c->out_of_memory));
    if (missing_text(loaded, count, missing, sizeof(missing)) > 0)
        fprintf(to, "  Of %s ranks these left no report: %s.\n",
                COUNT((uint64_t)job_ranks(loaded, count)), missing);
    if (earlier > 0)
        fprintf(to, "  %s earlier report%s of the same processes %s left out.\n", COUNT(earlier),
                unit_plural(earlier), earlier == 1 ? "is" : "are");
}

static void rows_text(FILE *to, const struct merged *merged)
{
    fprintf(to, "\n  %5s %-*s %8s %-*s %3s %12s %8s %12s %9s %10s %8s %7s\n", "rank", NAME_COLUMNS,
            "host", "pid", NAME_COLUMNS, "program", "GPU", "held at most", "of card", "in blocks",
            "external", "waits", "of run", "no mem.");
    for (size_t i = 0; i < merged->count; i++) {
        const struct row *row = &merged->rows[i];
        const struct pool_stats *pool = &row->device->pool;
        char rank[16] = "-";
        if (row->from->rank != RANK_UNKNOWN)
            snprintf(rank, sizeof(rank), "%d", row->from->rank);
        fprintf(
            to, "  %5s %-*.*s %8d %-*.*s %3d %12s %8s %12s %9s %10s %8s %7s\n", rank, NAME_COLUMNS,
            NAME_COLUMNS, row->from->host, row->from->report.pid, NAME_COLUMNS, NAME_COLUMNS,
            row->from->report.program, row->device->ordinal, BYTES(held_bytes(row)),
            unit_share(held_bytes(row), row->device->total_bytes).text, BYTES(live_bytes(row)),
            unit_share(pool->run_free_bytes - pool->largest_free_run_bytes, pool->run_free_bytes)
                .text,
            unit_ns(wait_ns(row)).text,
            unit_share(wait_ns(row), (uint64_t)(row->from->report.seconds * 1e9)).text,
            COUNT(row->device->counters.out_of_memory));
    }
}

static void spread_text(FILE *to, const struct merged *merged, uint64_t *scratch)
{
    fprintf(to, "\n  %-18s %14s %14s %14s %14s\n", "over all rows", "least", "median", "most",
            "sum");
    for (size_t i = 0; i < SPREADS; i++) {
        struct range range = range_of(merged, &spreads[i], scratch);
        fprintf(to, "  %-18s %14s %14s %14s %14s   most: %s\n", spreads[i].words,
                spreads[i].text(range.min).text, spreads[i].text(range.median).text,
                spreads[i].text(range.max).text, spreads[i].text(range.sum).text,
                who(range.most->from).text);
    }
}

static void advice_text(FILE *to, const struct merged *merged)
{
    struct counsel counsels[COUNSELS_MAX];
    size_t pieces = counsels_make(merged, counsels);
    for (size_t i = 0; i < pieces; i++)
        fprintf(to, "%s  %zu. %s for %s of %s GPU%s of processes; %s: %s.\n     %s.\n",
                i == 0 ? "\nWhat to try\n" : "", i + 1, counsels[i].advice.setting,
                COUNT(counsels[i].processes), COUNT(merged->count), unit_plural(merged->count),
                who(counsels[i].from).text, counsels[i].advice.figure, counsels[i].advice.effect);
}

bool merge_text(FILE *to, const struct loaded *loaded, size_t count, size_t earlier)
{
    struct merged merged;
    bool made = rows_make(loaded, count, &merged);
    uint64_t *scratch = made ? calloc(merged.count, sizeof(*scratch)) : NULL;
    if (scratch != NULL) {
        head_text(to, loaded, count, &merged, earlier);
        rows_text(to, &merged);
        if (merged.count > 1)
            spread_text(to, &merged, scratch);
        advice_text(to, &merged);
    }
    free(scratch);
    free(merged.rows);
    return scratch != NULL;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *who_json(const struct loaded *loaded)
{
    json_t *object = json_object();
    if (loaded->rank != RANK_UNKNOWN)
        json_object_set_new(object, "rank", json_integer(loaded->rank));
    json_object_set_new(object, "host", json_string(loaded->host));
    json_object_set_new(object, "pid", json_integer(loaded->report.pid));
    json_object_set_new(object, "program", json_string(loaded->report.program));
    return object;
}

static json_t *rows_json(const struct merged *merged)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < merged->count; i++) {
        const struct row *row = &merged->rows[i];
        json_t *object = who_json(row->from);
        json_object_set_new(object, "gpu", json_integer(row->device->ordinal));
        json_object_set_new(object, "seconds", json_real(row->from->report.seconds));
        json_object_set_new(object, "total_bytes", number(row->device->total_bytes));
        json_object_set_new(object, "out_of_memory", number(row->device->counters.out_of_memory));
        json_object_set_new(object, "run_free_bytes", number(row->device->pool.run_free_bytes));
        json_object_set_new(object, "largest_free_run_bytes",
                            number(row->device->pool.largest_free_run_bytes));
        for (size_t s = 0; s < SPREADS; s++)
            json_object_set_new(object, spreads[s].name, number(spreads[s].of(row)));
        json_array_append_new(rows, object);
    }
    return rows;
}

static json_t *spread_json(const struct merged *merged, uint64_t *scratch)
{
    json_t *all = json_object();
    for (size_t i = 0; i < SPREADS; i++) {
        struct range range = range_of(merged, &spreads[i], scratch);
        json_t *object = json_object();
        json_object_set_new(object, "min", number(range.min));
        json_object_set_new(object, "median", number(range.median));
        json_object_set_new(object, "max", number(range.max));
        json_object_set_new(object, "sum", number(range.sum));
        json_object_set_new(all, spreads[i].name, object);
    }
    return all;
}

static json_t *advice_json(const struct merged *merged)
{
    struct counsel counsels[COUNSELS_MAX];
    size_t pieces = counsels_make(merged, counsels);
    json_t *all = json_array();
    for (size_t i = 0; i < pieces; i++) {
        json_t *object = who_json(counsels[i].from);
        json_object_set_new(object, "setting", json_string(counsels[i].advice.setting));
        json_object_set_new(object, "figure", json_string(counsels[i].advice.figure));
        json_object_set_new(object, "effect", json_string(counsels[i].advice.effect));
        json_object_set_new(object, "rows", number(counsels[i].processes));
        json_array_append_new(all, object);
    }
    return all;
}

static json_t *missing_json(const struct loaded *loaded, size_t count)
{
    json_t *all = json_array();
    int ranks = job_ranks(loaded, count);
    for (int rank = 0; ranks != RANK_UNKNOWN; rank++) {
        rank = missing_next(loaded, count, rank, ranks);
        if (rank >= ranks)
            break;
        json_array_append_new(all, json_integer(rank));
    }
    return all;
}

bool merge_json(FILE *to, const struct loaded *loaded, size_t count, size_t earlier)
{
    struct merged merged;
    bool made = rows_make(loaded, count, &merged);
    uint64_t *scratch = made ? calloc(merged.count, sizeof(*scratch)) : NULL;
    json_t *root = scratch != NULL ? json_object() : NULL;
    if (root != NULL) {
        json_object_set_new(root, "schema", json_string("vramalloc-ranks/1"));
        json_object_set_new(root, "processes", number(count));
        json_object_set_new(root, "earlier_reports", number(earlier));
        if (job_ranks(loaded, count) != RANK_UNKNOWN)
            json_object_set_new(root, "ranks", json_integer(job_ranks(loaded, count)));
        json_object_set_new(root, "missing_ranks", missing_json(loaded, count));
        json_object_set_new(root, "rows", rows_json(&merged));
        json_object_set_new(root, "spread", spread_json(&merged, scratch));
        json_object_set_new(root, "advice", advice_json(&merged));
        json_dumpf(root, to, JSON_INDENT(1) | JSON_ENSURE_ASCII);
        fputc('\n', to);
        json_decref(root);
    }
    free(scratch);
    free(merged.rows);
    return root != NULL;
}
