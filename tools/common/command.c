/* command.c - what every command does the same way. See command.h. */
#define _GNU_SOURCE
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../shim/text.h"

enum { LINE_BYTES = 1024, PATH_SHOWN_BYTES = 512, LETTERS_BYTES = 32 };

static const char cut_mark[] = "...";

static void line_say(const struct command *command, const char *format, va_list arguments,
                     const char *hint)
{
    static char said[LINE_BYTES], line[4 * LINE_BYTES]; /* a byte may become four */
    vsnprintf(said, sizeof(said), format, arguments);
    fprintf(stderr, "vramalloc %s: %s%s\n", command->name, text_visible(said, line, sizeof(line)),
            hint);
}

void command_say(const struct command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_say(command, format, arguments, "");
    va_end(arguments);
}

bool command_refuse(const struct command *command, const char *format, ...)
{
    va_list arguments;
    char hint[64];
    snprintf(hint, sizeof(hint), " (see vramalloc %s --help)", command->name);
    va_start(arguments, format);
    line_say(command, format, arguments, hint);
    va_end(arguments);
    return false;
}

/* So that what is said behind it still fits. */
static const char *path_short(const char *path)
{
    static char shown[PATH_SHOWN_BYTES];
    if (snprintf(shown, sizeof(shown), "%s", path) >= (int)sizeof(shown))
        memcpy(shown + sizeof(shown) - sizeof(cut_mark), cut_mark, sizeof(cut_mark));
    return shown;
}

static void file_say(const struct command *command, const char *path, size_t line, const char *why)
{
    if (line > 0)
        command_say(command, "%s:%zu: %s", path_short(path), line, why);
    else
        command_say(command, "%s: %s", path_short(path), why);
}

int command_bad_input(const struct command *command, const char *path, size_t line, const char *why)
{
    file_say(command, path, line, why);
    return COMMAND_BAD_INPUT;
}

/* --- options ------------------------------------------------------------------------------- */

void command_help(const struct command *command)
{
    fputs(command->help, stdout);
    exit(command_end(command, COMMAND_DONE));
}

/* written: the word, if it is a long option; of others, a letter alone is known. Without its value.
 */
static bool option_refuse(const struct command *command, const char *written, int letter)
{
    int bytes = (int)strcspn(written, "=");
    if (letter == 0)
        return command_refuse(command, "unknown option %.*s", bytes, written);
    if (strncmp(written, "--", 2) == 0 && written[bytes] == '=')
        return command_refuse(command, "%.*s takes no value", bytes, written);
    return command_refuse(command, "unknown option -%c", letter);
}

int command_option(const struct command *command, int argc, char **argv, const char *letters,
                   const struct option *names, int *index)
{
    char all[LETTERS_BYTES];
    snprintf(all, sizeof(all), ":h%s", letters); /* the colon: a missing value is told apart */
    opterr = 0;
    int what = getopt_long(argc, argv, all, names, index);
    if (what == 'h')
        command_help(command);
    if (what == ':')
        command_refuse(command, "%s needs a value", argv[optind - 1]);
    else if (what == '?')
        option_refuse(command, argv[optind - 1], optopt);
    return what == ':' ? COMMAND_OPTION_WRONG : what;
}

/* --- files --------------------------------------------------------------------------------- */

bool command_input_check(const struct command *command, const char *path)
{
    struct stat status;
    const char *why = NULL;
    if (stat(path, &status) != 0 || access(path, R_OK) != 0)
        why = strerror(errno);
    else if (S_ISDIR(status.st_mode))
        why = "this is a folder";
    else if (!S_ISREG(status.st_mode))
        why = "this is no regular file";
    else if (status.st_size == 0)
        why = "the file is empty";
    if (why != NULL)
        file_say(command, path, 0, why);
    return why == NULL;
}

bool command_same_file(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

FILE *command_output_open(const struct command *command, const char *path)
{
    FILE *to = path != NULL ? fopen(path, "wbe") : stdout;
    if (to == NULL)
        file_say(command, path, 0, strerror(errno));
    return to;
}

bool command_output_close(const struct command *command, const char *path, FILE *to, bool keep)
{
    struct stat status;
    bool whole = !ferror(to);
    int why = errno; /* of what failed last, which was the writing unless a caller did more */
    if (fflush(to) != 0) {
        whole = false;
        why = errno;
    }
    bool regular = fstat(fileno(to), &status) == 0 && S_ISREG(status.st_mode);
    if (path != NULL && fclose(to) != 0 && whole) {
        whole = false;
        why = errno;
    }
    if (keep && !whole)
        file_say(command, path != NULL ? path : "standard output", 0, strerror(why));
    if (path != NULL && regular && (!keep || !whole))
        unlink(path);
    return whole;
}

int command_end(const struct command *command, int code)
{
    bool written = command_output_close(command, NULL, stdout, code == COMMAND_DONE);
    return code == COMMAND_DONE && !written ? COMMAND_FAILED : code;
}
