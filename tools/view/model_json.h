/* model_json.h - a model as JSON, fit to stand in an HTML page. */
#ifndef VRAMALLOC_VIEW_MODEL_JSON_H
#define VRAMALLOC_VIEW_MODEL_JSON_H

#include <stdio.h>

#include "model.h"

/* Writes one JSON object and a newline. `<`, `>` and `&` are written as \u00XX, so that no text of
 * the trace ends a script or begins a tag; bytes that are no UTF-8 become U+FFFD. trace_name: the
 * file's name. Whether all was written, `to` knows. False: the host has no memory. */
bool model_json_write(const struct model *model, const char *trace_name, FILE *to);

#endif
