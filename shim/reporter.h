/* reporter.h - reports while the program runs and at exit, and the one thread that options may ask
 * for.
 *
 * The thread exists where VRAMALLOC_SIGNAL, VRAMALLOC_REPORT_EVERY or VRAMALLOC_LIVE is set, from
 * the time when device memory is first asked for. It takes no signal, is nobody's to join, and has
 * no part in the process's end but to be quiet. A child after fork has none, and makes no report.
 *
 * Locks: report lock, outermost: one report is made at a time; the thread then takes the registry's
 * (devices.h) while it adds up figures, and holds neither while it waits. Both are tried for a
 * bounded time: a thread that exits out of a signal handler may hold the registry's.
 */
#ifndef VRAMALLOC_SHIM_REPORTER_H
#define VRAMALLOC_SHIM_REPORTER_H

#include <stdbool.h>
#include <stdint.h>

/* Called once, when the driver was found: from here on seconds count, and the signal is taken. */
void reporter_begin(void);

/* Called whenever device memory is asked for from the driver. Starts the thread, once. errno is
 * kept. Cost but for the first time: a load. */
void reporter_start(void);

/* Asks the thread for a report. False: there is no thread (any more). Safe in signal handlers. */
bool reporter_ask(void);

/* At exit: no reports after this one. errno is kept. */
void reporter_end(void);

#endif
