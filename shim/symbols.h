/* symbols.h - the function that an address of a module lies in, from the symbols of its file.
 *
 * Read with pread(2), so that a file which is cut short meanwhile does no harm; whatever stands in
 * it is only data. Names are as compilers make them: of C++ they are mangled.
 *
 * What it leaves out: debug information, symbols in files of their own, 32 bits. Lock: none; one
 * thread at a time.
 */
#ifndef VRAMALLOC_SHIM_SYMBOLS_H
#define VRAMALLOC_SHIM_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "modules.h"

/* Where `offset`, as the file counts, lies in a function: its name, cut to `bytes`, and how far
 * into it. False: the file names none there, or is another one by now. Cost: one pass over its
 * symbols. */
bool symbol_find(const struct loaded_module *module, uint64_t offset, char *name, size_t bytes,
                 uint64_t *into_out);

#endif
