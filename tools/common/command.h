/* command.h - what every command does the same way: --help, its options, refusals, inputs, outputs.
 *
 * Whatever goes wrong is one line on stderr, "vramalloc NAME: ...", with bytes that are no text
 * made visible. Exit codes: enum command_code.
 *
 * What it leaves out: the options themselves; what is in a file. Lock: none; one thread.
 */
#ifndef VRAMALLOC_TOOLS_COMMAND_H
#define VRAMALLOC_TOOLS_COMMAND_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

enum command_code {
    COMMAND_DONE = 0,
    COMMAND_FAILED = 1,   /* the output cannot be written, or the host has no memory */
    COMMAND_BAD_INPUT = 2 /* wrong use, or a file that is not what it should be */
};

enum { COMMAND_OPTIONS_END = -1, COMMAND_OPTION_WRONG = '?' };

struct command {
    const char *name; /* as behind "vramalloc": "trace" */
    const char *help; /* what --help prints */
};

/* One line. */
void command_say(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same of a wrong command line, with a hint at --help. Always false. */
bool command_refuse(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "PATH: why", or "PATH:LINE: why" if line is not 0. Always COMMAND_BAD_INPUT. */
int command_bad_input(const struct command *command, const char *path, size_t line,
                      const char *why);

/* The `val` of the next option, as getopt_long() gives it; *index: its row in `names`. -h and
 * --help are taken care of: they print the help and end the process. COMMAND_OPTION_WRONG: it was
 * refused. letters: options of one letter, beside -h. */
int command_option(const struct command *command, int argc, char **argv, const char *letters,
                   const struct option *names, int *index);

/* Prints the help and ends the process. */
void command_help(const struct command *command) __attribute__((noreturn));

/* False, after a line: it is missing, or no regular file. A FIFO could block for ever, a device
 * could have no end, and some commands read a file twice. */
bool command_input_check(const struct command *command, const char *path);

bool command_same_file(const char *one, const char *other);

/* path: NULL for standard output. NULL, after a line: it cannot be opened. */
FILE *command_output_open(const struct command *command, const char *path);

/* Closes it. keep: false if what was written is of no use; then a regular file is removed, as it is
 * if not all could be written. False, after a line: that. */
bool command_output_close(const struct command *command, const char *path, FILE *to, bool keep);

/* The exit code of a command that printed to standard output: `code`, or COMMAND_FAILED, after a
 * line, if that could not be written and code is COMMAND_DONE. */
int command_end(const struct command *command, int code);

#endif
