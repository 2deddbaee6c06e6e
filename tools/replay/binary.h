/* binary.h - a trace of the library's own form, for replay. */
#ifndef VRAMALLOC_REPLAY_BINARY_H
#define VRAMALLOC_REPLAY_BINARY_H

#include "trace.h"

/* As trace_load(). */
bool binary_load(const char *path, struct trace *trace, struct trace_error *error);

#endif
