/* advice.h - what to set differently, and the figure that says so.
 *
 * Each piece rests on one figure of the report; without it there is none. A setting that relaxes
 * the order of work, or that gives other memory, says what to check first, and is withheld where
 * other processes (IPC), devices (RDMA) or peers use the memory.
 *
 * What it leaves out: settings whose effect no figure shows. Lock: none.
 */
#ifndef VRAMALLOC_SHIM_ADVICE_H
#define VRAMALLOC_SHIM_ADVICE_H

#include "report.h"

enum { ADVICE_MAX = 3 };

struct advice {
    int ordinal;      /* of the GPU whose figure it is */
    char setting[64]; /* NAME=VALUE */
    char figure[256]; /* what it rests on */
    char effect[256]; /* what it changes, and what to check first */
};

/* Writes up to ADVICE_MAX pieces, the most pressing first. Returns how many. */
int advice_make(const struct report *report, struct advice advice[ADVICE_MAX]);

#endif
