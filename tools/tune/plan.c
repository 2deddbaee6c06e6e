/* plan.c - settings to try, and their order. See plan.h. */
#include "plan.h"

#include <stdio.h>
#include <string.h>

enum { VARIANTS = 6, DEFAULT_SLACK = 80, TRY_MIB = 2 };
#define MIB         ((uint64_t)1 << 20)
#define ARENA_NONE  ((uint64_t)1) /* as shim/devices.c has it */
#define NEAR_ENOUGH 1.01

static uint64_t round_up(uint64_t bytes)
{
    uint64_t step = TRY_MIB * MIB;
    return (bytes + step - 1) / step * step;
}

size_t plan_make(const struct plan_base *base, uint64_t lag_ns, struct plan_row rows[PLAN_ROWS_MAX])
{
    const struct run_settings variants[VARIANTS] = {
        {.slack_percent = DEFAULT_SLACK},
        {.slack_percent = 0},
        {.slack_percent = 150},
        {.slack_percent = DEFAULT_SLACK, .arena_bytes = ARENA_NONE},
        {.slack_percent = DEFAULT_SLACK, .arena_bytes = round_up(base->live_bytes)},
        {.slack_percent = DEFAULT_SLACK, .limit_bytes = round_up(base->driver_bytes)},
    };
    size_t count = 0;
    for (int mode = 0; mode < 4; mode++) {
        for (int variant = 0; variant < VARIANTS; variant++) {
            struct plan_row *row = &rows[count++];
            *row = (struct plan_row){.settings = variants[variant]};
            row->settings.deferred = (mode & 1) != 0;
            row->settings.vmm = (mode & 2) != 0;
            row->settings.lag_ns = lag_ns;
            row->settings.card_bytes = base->card_bytes;
            row->settings.passes = 1;
        }
    }
    return count;
}

static bool dominated(const struct plan_row *row, const struct plan_row *by)
{
    uint64_t held = row->result.peak_backed_bytes, other = by->result.peak_backed_bytes;
    return by->result.completed && other <= held && by->time_ns <= row->time_ns &&
           (other < held || by->time_ns < row->time_ns);
}

void plan_judge(const struct plan_base *base, struct plan_row *rows, size_t count)
{
    double outside_ns = base->span_ns > base->recorded_ns ? base->span_ns - base->recorded_ns : 0;
    for (size_t i = 0; i < count; i++) {
        rows[i].time_ns = rows[i].result.first_ns;
        if (!rows[i].settings.deferred && base->wait_known)
            rows[i].time_ns += base->wait_ns;
        rows[i].run_ns = outside_ns + rows[i].time_ns;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].front = rows[i].result.completed;
        for (size_t k = 0; k < count && rows[i].front; k++)
            rows[i].front = !dominated(&rows[i], &rows[k]);
    }
}

static double score(const struct plan_row *row, enum plan_preference preference)
{
    double memory = (double)row->result.peak_backed_bytes;
    if (preference == PLAN_MEMORY)
        return memory;
    return preference == PLAN_TIME ? row->run_ns : memory * row->run_ns;
}

static int settings_changed(const struct run_settings *settings)
{
    return settings->deferred + settings->vmm + (settings->slack_percent != DEFAULT_SLACK) +
           (settings->arena_bytes != 0) + (settings->limit_bytes != 0);
}

const struct plan_row *plan_best(const struct plan_row *rows, size_t count,
                                 enum plan_preference preference)
{
    const struct plan_row *least = NULL, *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (rows[i].result.completed &&
            (least == NULL || score(&rows[i], preference) < score(least, preference)))
            least = &rows[i];
    for (size_t i = 0; i < count && least != NULL; i++) {
        const struct plan_row *row = &rows[i];
        if (!row->result.completed ||
            score(row, preference) > NEAR_ENOUGH * score(least, preference))
            continue;
        int more = best != NULL
                       ? settings_changed(&row->settings) - settings_changed(&best->settings)
                       : -1;
        if (more < 0 || (more == 0 && score(row, preference) < score(best, preference)))
            best = row;
    }
    return best;
}

void plan_size_text(uint64_t bytes, const char *nothing, char *text, size_t text_bytes)
{
    if (bytes == 0)
        snprintf(text, text_bytes, "%s", nothing);
    else if (bytes == ARENA_NONE)
        snprintf(text, text_bytes, "none");
    else
        snprintf(text, text_bytes, "%lluM", (unsigned long long)(bytes / MIB));
}

static void variable_add(char text[PLAN_ENVIRONMENT_BYTES], const char *name, const char *value)
{
    size_t used = strlen(text);
    snprintf(text + used, PLAN_ENVIRONMENT_BYTES - used, "%sVRAMALLOC_%s=%s", used > 0 ? " " : "",
             name, value);
}

void plan_environment(const struct run_settings *settings, char text[PLAN_ENVIRONMENT_BYTES])
{
    char value[32];
    text[0] = '\0';
    if (settings->deferred)
        variable_add(text, "FREE", "deferred");
    if (settings->vmm)
        variable_add(text, "BACKING", "vmm");
    if (settings->slack_percent != DEFAULT_SLACK) {
        snprintf(value, sizeof(value), "%u", settings->slack_percent);
        variable_add(text, "SLACK", value);
    }
    plan_size_text(settings->arena_bytes, "", value, sizeof(value));
    if (settings->arena_bytes != 0)
        variable_add(text, "ARENA_SIZE", value);
    plan_size_text(settings->limit_bytes, "", value, sizeof(value));
    if (settings->limit_bytes != 0)
        variable_add(text, "ARENA_LIMIT", value);
}
