/* modules.h - the programs and libraries that code lies in, as they were when it was seen.
 *
 * A module is remembered by its path and the address it was loaded at, so that it can be named when
 * it has long been closed.
 *
 * What it leaves out: symbols (symbols.h), modules of other namespaces (dlmopen), which are not
 * known. Lock: none; modules_find() is called by one thread at a time, module_get() by any.
 */
#ifndef VRAMALLOC_SHIM_MODULES_H
#define VRAMALLOC_SHIM_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct loaded_module {
    const char *path;
    uint64_t base;       /* what is added to the file's own addresses */
    uint64_t start, end; /* all that is loaded of it: start <= address < end */
    struct stat file;    /* st_ino 0: it could not be looked at */
};

/* Where an address lies. */
struct module_place {
    uint32_t module; /* 0: not known */
    uint64_t offset; /* as the module's file counts; the address itself where that is not known */
};

/* One step of a call: where it returns to. */
struct module_frame {
    struct module_place place;
    const char *symbol; /* the function; "" where its file does not name it */
    uint64_t symbol_offset;
};

/* Looks an address up among what is loaded now. No malloc, no lock that is held while constructors
 * run. errno is kept. Cost: O(modules loaded). */
struct module_place modules_find(uint64_t address);

/* How many modules were closed so far: while it stays, an address means what it meant. */
uint64_t modules_closed(void);

/* A module by its number, above 0; NULL: there is none. */
const struct loaded_module *module_get(uint32_t number);

/* The last part of a module's path; "" for 0. */
const char *module_name(uint32_t number);

/* A frame as one word or two: "f+0x12 (program)", "program+0x40", "0x7f00"; cut to `bytes`, 1 or
 * more. What comes from outside is made visible. */
void module_frame_text(const struct module_frame *frame, char *text, size_t bytes);

/* The module is the CUDA runtime as a library of its own, which stands between a caller and the
 * driver. */
bool module_is_runtime(uint32_t number);

/* The module is one of NVIDIA's libraries, which keep memory on purpose until the process ends
 * (libraries.def). */
bool module_is_keeper(uint32_t number);

#endif
