/* formats.c - shared figures for programs: JSON, and Prometheus' text format. See live_print.h.
 *
 * Figures are integers, as they are kept; a share that is not defined is left out (JSON) or NaN
 * (Prometheus). Times are seconds for Prometheus, whose convention that is.
 */
#include <math.h>
#include <string.h>

#include "../../shim/rank.h"
#include "../../shim/text.h"
#include "../common/json_text.h"
#include "live_print.h"

/* --- JSON ----------------------------------------------------------------------------------------
 */

static void json_share(FILE *out, const char *name, double value)
{
    if (!isnan(value))
        fprintf(out, ",\n      \"%s\": %.6f", name, value);
}

static void json_row(FILE *out, const struct live_process *process, const struct live_row *row)
{
    struct live_rates rates = live_rates_of(process, row);
    fprintf(out, "\n     {\"ordinal\": %lld,\n      \"name\": ", (long long)row->ordinal);
    json_text(out, row->name);
    for (size_t i = 0; i < live_figure_count; i++)
        fprintf(out, ",\n      \"%s\": %llu", live_figures[i].name,
                (unsigned long long)live_figure_of(row, &live_figures[i]));
    json_share(out, "external_fragmentation", rates.external_fragmentation);
    json_share(out, "allocations_per_second", rates.allocations);
    json_share(out, "frees_per_second", rates.frees);
    json_share(out, "hit_share", rates.hit_share);
    json_share(out, "wait_share", rates.wait_share);
    fputs("}", out);
}

static void json_process(FILE *out, const struct live_process *process)
{
    const struct live_header *header = &process->header;
    fprintf(out, "\n  {\"pid\": %llu,\n   \"program\": ", (unsigned long long)header->pid);
    json_text(out, header->program);
    if (header->rank != RANK_UNKNOWN)
        fprintf(out, ",\n   \"rank\": %lld", (long long)header->rank);
    fputs(",\n   \"settings\": {\"free\": ", out);
    json_text(out, header->free_mode);
    fputs(", \"backing\": ", out);
    json_text(out, header->backing);
    fprintf(out, "},\n   \"seconds\": %.3f,\n   \"age_seconds\": %.3f,\n   \"gpus\": [",
            process->seconds, process->age_seconds);
    for (uint64_t i = 0; i < process->now.row_count; i++) {
        fputs(i > 0 ? "," : "", out);
        json_row(out, process, &process->now.rows[i]);
    }
    fputs("]}", out);
}

void live_json_print(FILE *out, const struct live_process *list, size_t count)
{
    fputs("{\"schema\": \"vramalloc-live/1\",\n \"processes\": [", out);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? "," : "", out);
        json_process(out, &list[i]);
    }
    fputs("]}\n", out);
}

/* --- Prometheus
 * ------------------------------------------------------------------------------------ */

static void label_value(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text != '\0') {
        size_t bytes = text_character_bytes(text);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fwrite(text, 1, bytes, out);
        text += bytes > 0 ? bytes : 1;
    }
    fputc('"', out);
}

static void family_print(FILE *out, const char *name, const char *type, const char *meaning)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, meaning, name, type);
}

static void process_labels(FILE *out, const char *name, const struct live_process *process)
{
    fprintf(out, "%s{pid=\"%llu\",program=", name, (unsigned long long)process->header.pid);
    label_value(out, process->header.program);
}

static void row_labels(FILE *out, const char *name, const struct live_process *process,
                       const struct live_row *row)
{
    process_labels(out, name, process);
    fprintf(out, ",device=\"%lld\"} ", (long long)row->ordinal);
}

/* vramalloc_<name>, in the base unit, with _total behind what only grows. */
static void metric_name(const struct live_figure *figure, char *name, size_t bytes)
{
    int length = (int)strlen(figure->name) - (figure->unit == LIVE_NS ? (int)strlen("_ns") : 0);
    snprintf(name, bytes, "vramalloc_%.*s%s%s", length, figure->name,
             figure->unit == LIVE_NS ? "_seconds" : "", figure->total ? "_total" : "");
}

static void figure_print(FILE *out, const struct live_figure *figure,
                         const struct live_process *list, size_t count)
{
    char name[96];
    metric_name(figure, name, sizeof(name));
    family_print(out, name, figure->total ? "counter" : "gauge", figure->meaning);
    for (size_t i = 0; i < count; i++)
        for (uint64_t r = 0; r < list[i].now.row_count; r++) {
            const struct live_row *row = &list[i].now.rows[r];
            uint64_t value = live_figure_of(row, figure);
            row_labels(out, name, &list[i], row);
            if (figure->unit == LIVE_NS)
                fprintf(out, "%.9f\n", (double)value / 1e9);
            else
                fprintf(out, "%llu\n", (unsigned long long)value);
        }
}

static void fragmentation_print(FILE *out, const struct live_process *list, size_t count)
{
    static const char name[] = "vramalloc_external_fragmentation_ratio";
    family_print(out, name, "gauge", "1 - longest free run / free runs; NaN: none is free");
    for (size_t i = 0; i < count; i++)
        for (uint64_t r = 0; r < list[i].now.row_count; r++) {
            double value = live_rates_of(&list[i], &list[i].now.rows[r]).external_fragmentation;
            row_labels(out, name, &list[i], &list[i].now.rows[r]);
            if (isnan(value))
                fputs("NaN\n", out);
            else
                fprintf(out, "%.6f\n", value);
        }
}

static void processes_print(FILE *out, const struct live_process *list, size_t count)
{
    static const char info[] = "vramalloc_process_info", age[] = "vramalloc_sample_age_seconds";
    family_print(out, info, "gauge", "1 for each process that shares its figures");
    for (size_t i = 0; i < count; i++) {
        process_labels(out, info, &list[i]);
        fputs(",free=", out);
        label_value(out, list[i].header.free_mode);
        fputs(",backing=", out);
        label_value(out, list[i].header.backing);
        if (list[i].header.rank != RANK_UNKNOWN)
            fprintf(out, ",rank=\"%lld\"", (long long)list[i].header.rank);
        fputs("} 1\n", out);
    }
    family_print(out, age, "gauge", "time since the process brought its figures up to date");
    for (size_t i = 0; i < count; i++) {
        process_labels(out, age, &list[i]);
        fprintf(out, "} %.3f\n", list[i].age_seconds);
    }
}

void live_metrics_print(FILE *out, const struct live_process *list, size_t count)
{
    processes_print(out, list, count);
    for (size_t i = 0; i < live_figure_count; i++)
        figure_print(out, &live_figures[i], list, count);
    fragmentation_print(out, list, count);
}
