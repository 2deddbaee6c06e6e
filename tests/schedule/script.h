/* script.h - runs a program of programs.def in this process: its threads, their calls, the results.
 *
 * What it leaves out: who runs when (scheduler.h), and judging what came out (schedule.c).
 */
#ifndef VRAMALLOC_SCHEDULE_SCRIPT_H
#define VRAMALLOC_SCHEDULE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum { SCRIPT_THREADS = 3 };

struct script_program {
    const char *name;
    int devices;
    int card_mib;
    bool open; /* known to fail */
    const char *first;
    const char *threads[SCRIPT_THREADS]; /* NULL: no more */
};

extern const struct script_program script_programs[];
extern const size_t script_program_count;

const struct script_program *script_find(const char *name); /* NULL: none such */

/* Runs it as thread 0, which a scheduler knows already. The result of every call goes to outcome,
 * in the order of each thread. A process can do this once. */
void script_run(const struct script_program *program, char *outcome, size_t outcome_bytes);

/* Ends what the program left, and adds to outcome what the driver still holds. */
void script_end(const struct script_program *program, char *outcome, size_t outcome_bytes);

#endif
