/* screen.h - a terminal taken over for a table that is brought up to date, and given back as it
 * was.
 *
 * Lock: none; signal handlers only set flags.
 */
#ifndef VRAMALLOC_TOOLS_LIVE_SCREEN_H
#define VRAMALLOC_TOOLS_LIVE_SCREEN_H

#include <stdbool.h>

/* Whether stdout is a terminal that understands escapes. */
bool screen_possible(void);

/* From here to screen_end(): the alternate screen, no cursor, keys at once. ^C, ^Z, SIGTERM and a
 * change of the size are heard by screen_wait(). */
void screen_begin(void);
void screen_end(void);

void screen_size(int *columns_out, int *lines_out);

/* Waits for about so long, or until the size changes. False: the user wants to end (q, ^C), or a
 * signal does; of which screen_signal() tells the number, 0 for q. */
bool screen_wait(int ms);
int screen_signal(void);

#endif
