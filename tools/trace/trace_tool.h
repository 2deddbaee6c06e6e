/* trace_tool.h - the parts of vramalloc-trace.
 *
 * Each takes an open trace and a stream to write to, and ends with one of these.
 */
#ifndef VRAMALLOC_TRACE_TOOL_H
#define VRAMALLOC_TRACE_TOOL_H

#include <stdio.h>

#include "../common/command.h"
#include "../common/json_text.h"
#include "lives.h"

enum tool_status {
    TOOL_OK = 0,
    TOOL_DAMAGED,  /* reader_reason() says where the trace is */
    TOOL_NO_MEMORY /* of the host */
};

/* info.c: what is in a trace, as text or as JSON. */
enum tool_status info_write(struct reader *reader, FILE *to, bool json);

/* export_*.c: the trace in another form. Whether all was written, `to` knows. */
enum tool_status export_rmm(struct reader *reader, FILE *to);
enum tool_status export_perfetto(struct reader *reader, FILE *to);
enum tool_status export_pytorch(struct reader *reader, FILE *to);

/* import.c: writes a trace from RMM's CSV, plain or gzip'd. An exit code; unless that is
 * COMMAND_DONE, a line said why and nothing is left at `to_path`. */
int import_rmm(const struct command *command, const char *from_path, const char *to_path);

#endif
