/* page.h - the HTML page around a model's JSON. */
#ifndef VRAMALLOC_VIEW_PAGE_H
#define VRAMALLOC_VIEW_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/* Writes the page with the JSON in it, which must be fit for that (model_json.h). Whether all was
 * written, `to` knows. False: the system gives no random bytes. */
bool page_write(const char *json, FILE *to);

#endif
