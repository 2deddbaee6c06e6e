/* table.c - shared figures as a table. See live_print.h. */
#include <math.h>
#include <string.h>

#include "../../shim/rank.h"
#include "../../shim/text.h"
#include "../../shim/units.h"
#include "live_print.h"

enum { PROGRAM_WIDTH = 12, WIDE_COLUMNS = 108, CELL_BYTES = 320, LINES_AROUND = 4 };

struct cell {
    char text[CELL_BYTES];
};

static struct cell percent(double share)
{
    struct cell cell;
    snprintf(cell.text, sizeof(cell.text), isnan(share) ? "-" : "%.1f%%", share * 100);
    return cell;
}

/* 7, 12.3k, 4.56M: of at most six characters. */
static struct cell rate(double value)
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    struct cell cell;
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        value /= 1000;
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(cell.text, sizeof(cell.text), "%.*f%s", decimals, value, units[unit]);
    return cell;
}

static struct cell rank_cell(const struct live_process *process)
{
    struct cell cell = {"-"};
    if (process->header.rank != RANK_UNKNOWN)
        snprintf(cell.text, sizeof(cell.text), "%lld", (long long)process->header.rank);
    return cell;
}

/* Shown in `width` characters; what is longer is cut, and a character takes its bytes' room only
 * where it is one of one byte. */
static void program_print(FILE *out, const char *program, int width)
{
    char shown[CELL_BYTES];
    const char *at = text_visible(program, shown, sizeof(shown));
    int used = 0;
    for (; *at != '\0' && used < width; used++) {
        size_t bytes = text_character_bytes(at);
        fwrite(at, 1, bytes > 0 ? bytes : 1, out);
        at += bytes > 0 ? bytes : 1;
    }
    fprintf(out, "%*s", width - used, "");
}

static void row_print(FILE *out, const struct live_process *process, const struct live_row *row,
                      int program_width, bool wide)
{
    struct live_rates rates = live_rates_of(process, row);
    fprintf(out, "%8llu%c %4s %3lld ", (unsigned long long)process->header.pid,
            process->age_seconds > LIVE_STALE_SECONDS ? '?' : ' ', rank_cell(process).text,
            (long long)row->ordinal);
    program_print(out, process->header.program, program_width);
    fprintf(out, " %8s %8s %6s %7s %6s %6s", unit_bytes(row->live_bytes).text,
            unit_bytes(row->held_bytes).text, percent(rates.external_fragmentation).text,
            rate(rates.allocations).text, percent(rates.hit_share).text,
            percent(rates.wait_share).text);
    if (wide)
        fprintf(out, " %7s %10s %7llu", rate(rates.frees).text,
                unit_bytes(row->peak_held_bytes).text, (unsigned long long)row->out_of_memory);
}

static void heading_print(FILE *out, int program_width, bool wide)
{
    fprintf(out, "%8s  %4s %3s %-*s %8s %8s %6s %7s %6s %6s", "PID", "RANK", "GPU", program_width,
            "PROGRAM", "LIVE", "HELD", "FRAG", "ALLOC/s", "HIT", "WAITS");
    if (wide)
        fprintf(out, " %7s %10s %7s", "FREE/s", "PEAK HELD", "OOM");
}

static void sums_print(FILE *out, const struct live_process *list, size_t count)
{
    uint64_t live = 0, held = 0, rows = 0;
    for (size_t i = 0; i < count; i++)
        for (uint64_t r = 0; r < list[i].now.row_count; r++, rows++) {
            live += list[i].now.rows[r].live_bytes;
            held += list[i].now.rows[r].held_bytes;
        }
    fprintf(out, "%zu process%s, %llu row%s, live %s, held %s", count, count == 1 ? "" : "es",
            (unsigned long long)rows, unit_plural(rows), unit_bytes(live).text,
            unit_bytes(held).text);
}

void live_table_print(FILE *out, const struct live_process *list, size_t count, int columns,
                      int lines, const char *line_end)
{
    bool wide = columns >= WIDE_COLUMNS, stale = false;
    int extra = columns - (wide ? WIDE_COLUMNS : LIVE_COLUMNS_MIN);
    int program_width = PROGRAM_WIDTH + (extra > 0 ? extra : 0), printed = LINES_AROUND;
    unsigned left_out = 0;
    sums_print(out, list, count);
    fprintf(out, "%s", line_end);
    heading_print(out, program_width, wide);
    fprintf(out, "%s", line_end);
    for (size_t i = 0; i < count; i++) {
        stale = stale || list[i].age_seconds > LIVE_STALE_SECONDS;
        for (uint64_t r = 0; r < list[i].now.row_count; r++) {
            if (printed++ >= lines) {
                left_out++;
                continue;
            }
            row_print(out, &list[i], &list[i].now.rows[r], program_width, wide);
            fprintf(out, "%s", line_end);
        }
    }
    if (left_out > 0)
        fprintf(out, "%u more row%s%s", left_out, unit_plural(left_out), line_end);
    if (stale)
        fprintf(out, "?: the process has not brought its figures up to date for %d s or more%s",
                LIVE_STALE_SECONDS, line_end);
}
