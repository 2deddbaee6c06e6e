/* text.h - strings that come from outside, as they may be shown. Lock: none. */
#ifndef VRAMALLOC_SHIM_TEXT_H
#define VRAMALLOC_SHIM_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character that a string begins with; 0: it begins with none, or is empty. */
size_t text_character_bytes(const char *text);

#endif
