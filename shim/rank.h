/* rank.h - which of many processes of a job this one is, as its launcher says.
 *
 * Lock: none; the environment is read, as getenv reads it.
 */
#ifndef VRAMALLOC_SHIM_RANK_H
#define VRAMALLOC_SHIM_RANK_H

#include <stddef.h>

enum { RANK_UNKNOWN = -1 };

/* The launcher's own text, see rank.def; NULL: none. */
const char *rank_text(void);

/* The same as a number; RANK_UNKNOWN where there is none, or it is no number of up to nine digits.
 */
int rank_number(void);

/* How many ranks the job has, 1 or more; RANK_UNKNOWN where the launcher does not say, or it is no
 * number above the rank. */
int rank_count(void);

#endif
