/* plan.h - which settings are tried, which of them are worth having, and which one is best.
 *
 * What it leaves out: replaying (jobs.h), printing (main.c). Lock: none.
 */
#ifndef VRAMALLOC_TUNE_PLAN_H
#define VRAMALLOC_TUNE_PLAN_H

#include "../replay/run.h"

enum { PLAN_ROWS_MAX = 32, PLAN_ENVIRONMENT_BYTES = 256 };

/* What a trace tells by itself, and the driver's own figures for it. */
struct plan_base {
    uint64_t live_bytes;   /* the most at a time */
    uint64_t driver_bytes; /* that the driver alone would hold */
    uint64_t card_bytes;   /* on which it is replayed */
    double driver_ns;      /* that its calls would take */
    double span_ns;        /* from the first event to the last */
    double recorded_ns;    /* of it in the driver and in waits, as recorded */
    double wait_ns;        /* waits of frees, as recorded; of interest if wait_known */
    bool wait_known;
};

struct plan_row {
    struct run_settings settings;
    struct run_result result;
    uint64_t card_bytes; /* the smallest, to 0.5 %; 0: not looked for, or there is none */
    double time_ns;      /* predicted: in driver calls and in waits of frees */
    double run_ns;       /* predicted: of the whole trace */
    bool front;          /* no other row is better in one figure and not worse in the other */
};

enum plan_preference { PLAN_BOTH, PLAN_MEMORY, PLAN_TIME };

/* Fills rows with the settings to try, the defaults first. Returns how many. */
size_t plan_make(const struct plan_base *base, uint64_t lag_ns,
                 struct plan_row rows[PLAN_ROWS_MAX]);

/* After the replays: times, and the Pareto front of what is held and time_ns, of rows that
 * completed. */
void plan_judge(const struct plan_base *base, struct plan_row *rows, size_t count);

/* The row to recommend; NULL: none completed. PLAN_BOTH: the least product of memory and predicted
 * run time. Rows within 1 % of the best count as equal, and the one with the fewest settings that
 * are not the default is taken. */
const struct plan_row *plan_best(const struct plan_row *rows, size_t count,
                                 enum plan_preference preference);

/* The settings as environment variables, those alone that are not the default; "" for none. */
void plan_environment(const struct run_settings *settings, char text[PLAN_ENVIRONMENT_BYTES]);

/* As a value of VRAMALLOC_ARENA_SIZE or _LIMIT. */
void plan_size_text(uint64_t bytes, const char *nothing, char *text, size_t text_bytes);

#endif
