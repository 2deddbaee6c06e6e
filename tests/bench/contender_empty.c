/* contender_empty.c - a contender that does nothing: what the benchmark's own loops cost. */
#include "contender.h"

void *bench_alloc(size_t bytes)
{
    (void)bytes;
    return (void *)4096;
}

void bench_free(void *block)
{
    (void)block;
}
