/* json_text.h - strings in the JSON that the tools write. Lock: none. */
#ifndef VRAMALLOC_TOOLS_JSON_TEXT_H
#define VRAMALLOC_TOOLS_JSON_TEXT_H

#include <stdio.h>

/* Writes a string with its quotes. Control bytes, and what means something to HTML (the JSON may
 * stand in a page), become \\u00XX; a byte that is no part of a UTF-8 character becomes U+FFFD. */
void json_text(FILE *to, const char *text);

#endif
