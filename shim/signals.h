/* signals.h - the signal that asks for a report (VRAMALLOC_SIGNAL): its handler, and what becomes
 * of it.
 *
 * The handler hands over to the reporter's thread and does nothing else. What the program itself
 * had asked for when the signal was taken is done as well:
 *
 *     signals.def says  | the program has a handler | none                  | ignores it
 *     stands for itself | called at once            | nothing               | nothing
 *     ends a program    | called after the report   | ends it after the report | nothing
 *
 * "After the report" is the thread's doing: it sends the signal once more, with what the handler
 * was told about it the first time, and lets it through. One that comes while a report is being
 * made for another is let through at once, so that a report which cannot be written holds up
 * nothing. Where there is no thread (before memory is asked for, after a fork, at exit) no report
 * is made, and the rest is the same.
 *
 * A program that sets a handler of its own later has it, and ours is gone. What it blocks waits.
 *
 * Lock: none; atomics, and nothing that a handler may not call.
 */
#ifndef VRAMALLOC_SHIM_SIGNALS_H
#define VRAMALLOC_SHIM_SIGNALS_H

/* Takes the signal; 0: none. */
void signals_take(int number);

/* The report that reporter_ask() was called for is made: what else the signal is to do, is done.
 * May not return. From the reporter's thread. before_end: called if the process is about to end. */
void signals_reported(void (*before_end)(void));

#endif
