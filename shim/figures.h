/* figures.h - the figures of a device for the report: its pools and counters added up.
 *
 * What it leaves out: printing (report.h). Lock: pools' own, for a bounded time.
 */
#ifndef VRAMALLOC_SHIM_FIGURES_H
#define VRAMALLOC_SHIM_FIGURES_H

#include "devices.h"

/* Fills one row for each device that saw an allocation call.
 * Returns the number of rows. Called by one thread at a time: at exit, without a lock that could
 * hang, and before that with the registry's held. No driver call. */
size_t devices_collect(struct report_device *rows, size_t rows_max);

/* The context's pool has ended: its totals and peaks stay with the device. The registry's lock is
 * held. */
void figures_retire(struct context *context);

#endif
