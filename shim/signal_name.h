/* signal_name.h - the signals that VRAMALLOC_SIGNAL takes, by name and number. See signals.def.
 *
 * What it leaves out: handling them (signals.h). Lock: none.
 */
#ifndef VRAMALLOC_SHIM_SIGNAL_NAME_H
#define VRAMALLOC_SHIM_SIGNAL_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* USR2, SIGUSR2, sigusr2, 12, RTMIN+3, SIGRTMAX-1; "off": 0. False: no signal, or none of the
 * table. *number_out: valid if true. */
bool signal_parse(const char *text, int *number_out);

/* USR2, RTMIN+3; "off" for 0. Returns text. */
const char *signal_text(int number, char *text, size_t bytes);

/* Whether a program that does nothing about the signal is ended by it, as signals.def says. */
bool signal_ends(int number);

#endif
