/* text.h - strings that come from outside, as they may be shown. Lock: none. */
#ifndef VRAMALLOC_SHIM_TEXT_H
#define VRAMALLOC_SHIM_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character that a string begins with; 0: it begins with none, or is empty. */
size_t text_character_bytes(const char *text);

/* Copies a string so that it is one line which no terminal obeys: control characters, and bytes
 * that are no UTF-8, as \\n or \\x1b. What does not fit ends with "...". Returns out. */
const char *text_visible(const char *text, char *out, size_t bytes);

#endif
