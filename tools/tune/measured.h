/* measured.h - what a trace of the library's own tells of time: spent in the driver, waiting, and
 * how far the GPU is behind its frees. */
#ifndef VRAMALLOC_TUNE_MEASURED_H
#define VRAMALLOC_TUNE_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

struct measured {
    bool known;       /* the trace is of the library's own, and told times */
    bool sync;        /* recorded with VRAMALLOC_FREE=sync: frees waited, and how long is known */
    double driver_ns; /* calls that grew and shrank the pool, and those that the driver answered */
    double wait_ns;   /* of waits for the GPU */
    uint64_t waits;
    uint64_t longest_ns; /* of them */
    uint64_t lag_ns;     /* of nine waits in ten the longest; 0 where none waited */
};

/* One walk of the trace. path: what trace_load() has taken. False: the trace cannot be read. */
bool measured_take(const char *path, struct measured *measured);

#endif
