/* jobs.h - numbered jobs done by several processes, so that each has its own pool and an end that
 * takes nothing else with it.
 *
 * Results go where jobs write them: memory that jobs_memory() gave. Lock: none; one caller.
 */
#ifndef VRAMALLOC_TUNE_JOBS_H
#define VRAMALLOC_TUNE_JOBS_H

#include <stdbool.h>
#include <stddef.h>

/* Does job number `job`; in another process. False: it could not be done. */
typedef bool jobs_work(void *arg, size_t job);

/* Zeroed memory that all processes share. NULL: the host has none. */
void *jobs_memory(size_t bytes);

/* Does `count` jobs in `processes` processes. title: of the progress line, which is shown where
 * stderr is a terminal. False: a job was not done, or a process ended before its time. */
bool jobs_run(size_t count, size_t processes, const char *title, jobs_work *work, void *arg);

#endif
