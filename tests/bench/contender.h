/* contender.h - what a contender exports that is no malloc: the benchmark's calls go there.
 *
 * What it leaves out: everything else. See bench.h.
 */
#ifndef VRAMALLOC_TESTS_CONTENDER_H
#define VRAMALLOC_TESTS_CONTENDER_H

#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *bench_alloc(size_t bytes); /* NULL: refused */
EXPORTED void bench_free(void *block);

#endif
