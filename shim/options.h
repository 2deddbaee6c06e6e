/* options.h - the settings in force, parsed once from the environment.
 *
 * What it leaves out: any meaning of a setting. Lock: none; options_load() is called once, before
 * any other thread can read them. A bad value is replaced by its default and costs one line on
 * stderr.
 */
#ifndef VRAMALLOC_SHIM_OPTIONS_H
#define VRAMALLOC_SHIM_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_size {
    uint64_t bytes;   /* valid when percent is 0 and set */
    uint32_t percent; /* 1..100 of the card's memory; 0: not a percentage */
    bool none;        /* "none": no limit */
};

struct options {
#define OPTION_CHOICE(field, NAME, def, choices, help)    const char *field;
#define OPTION_BOOL(field, NAME, def, help)               bool field;
#define OPTION_SIZE(field, NAME, def, help)               struct option_size field;
#define OPTION_PERCENT(field, NAME, def, low, high, help) uint32_t field;
#define OPTION_PATH(field, NAME, def, help)               char field[PATH_MAX];
#define OPTION_SET(field, NAME, def, words, help)         uint32_t field;
#define OPTION_SIGNAL(field, NAME, def, help)             int field;
#define OPTION_SECONDS(field, NAME, def, high, help)      uint32_t field;
#include "options.def"
#undef OPTION_CHOICE
#undef OPTION_BOOL
#undef OPTION_SIZE
#undef OPTION_PERCENT
#undef OPTION_PATH
#undef OPTION_SET
#undef OPTION_SIGNAL
#undef OPTION_SECONDS
};

/* The settings in force. All zero until options_load() was called. */
extern struct options options;

/* Parses environ. Bad values and unknown VRAMALLOC_... names are kept for options_complain().
 * No malloc; errno is kept. */
void options_load(void);

/* Says on stderr, once in a process, what is wrong with the settings: a line each. Called when
 * device memory is first asked for, from any thread. total_bytes: of the card, with which sizes are
 * compared; 0: not known. errno is kept. */
void options_complain(uint64_t total_bytes);

/* Prints every setting in force, one line each, to stderr (VRAMALLOC_VERBOSE=1). */
void options_print(void);

/* A setting's name, by its number from 0; NULL: no more. */
const char *options_setting_name(int number);

/* Its value in force, as options_print() has it. */
void options_setting_text(int number, char *text, size_t bytes);

/* Resolves a size option against a card of `total_bytes`. Returns 0 for "none". */
uint64_t options_size_resolve(const struct option_size *size, uint64_t total_bytes);

#endif
