/* main.c - vramalloc-trace: what is in a trace; a trace in another form, and from one.
 *
 *     info TRACE                             counts, time, threads, whole or not
 *     export --to FORM TRACE [-o FILE]       RMM's CSV, Perfetto's JSON, PyTorch's snapshot
 *     import FILE.csv -o TRACE               a trace from RMM's CSV
 *
 * Bad input costs one line and exit 2; an output that could not be finished is removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace_tool.h"

enum { EXIT_BAD_INPUT = 2 };

static const char help[] =
    "usage: vramalloc-trace info [--json] TRACE\n"
    "       vramalloc-trace export --to rmm|perfetto|pytorch TRACE [-o FILE]\n"
    "       vramalloc-trace import FILE.csv -o TRACE\n"
    "\n"
    "A trace is what VRAMALLOC_TRACE=PATH makes.\n"
    "\n"
    "  info                 where it is from, whether it is whole, counts, callers\n"
    "  export --to rmm      the CSV of RMM's replay benchmark\n"
    "  export --to perfetto JSON for ui.perfetto.dev and chrome://tracing\n"
    "  export --to pytorch  a snapshot for PyTorch's memory viewer\n"
    "  import               a trace from RMM's CSV, plain or gzip'd\n"
    "  -o FILE              where to write (standard output)\n"
    "  --json               JSON instead of text\n"
    "  --help\n";

struct form {
    const char *name;
    enum tool_status (*write)(struct reader *reader, FILE *to);
};
static const struct form forms[] = {
    {"rmm", export_rmm}, {"perfetto", export_perfetto}, {"pytorch", export_pytorch}};

struct options {
    const char *command, *path, *output;
    const struct form *form;
    bool json;
};

static bool refuse(const char *what, const char *which)
{
    fprintf(stderr, "vramalloc-trace: %s%s\n", what, which);
    return false;
}

static const struct form *form_find(const char *name)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

static bool options_sound(const struct options *options)
{
    bool exporting = strcmp(options->command, "export") == 0;
    bool importing = strcmp(options->command, "import") == 0;
    if (!exporting && !importing && strcmp(options->command, "info") != 0)
        return refuse("unknown command ", options->command);
    if (options->path == NULL)
        return refuse("no file is named", "");
    if (exporting && options->form == NULL)
        return refuse("--to rmm, perfetto or pytorch is needed", "");
    if (importing && options->output == NULL)
        return refuse("-o TRACE is needed", "");
    return true;
}

static bool options_parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"to", 1, NULL, 't'},
                                          {"output", 1, NULL, 'o'},
                                          {"json", 0, NULL, 'j'},
                                          {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int what;
    *options = (struct options){0};
    while ((what = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
        if (what == 'h') {
            fputs(help, stdout);
            exit(EXIT_SUCCESS);
        }
        if (what == '?')
            return false;
        if (what == 't' && (options->form = form_find(optarg)) == NULL)
            return refuse("--to is rmm, perfetto or pytorch, and not ", optarg);
        if (what == 'o')
            options->output = optarg;
        options->json |= what == 'j';
    }
    if (optind == argc)
        return refuse("nothing to do", "");
    options->command = argv[optind++];
    options->path = argv[optind];
    if (optind + 1 < argc)
        return refuse("one file at a time, and not also ", argv[optind + 1]);
    return options_sound(options);
}

/* --- output ------------------------------------------------------------------------------ */

static FILE *output_open(const struct options *options)
{
    FILE *to = options->output != NULL ? fopen(options->output, "wbe") : stdout;
    if (to == NULL)
        fprintf(stderr, "vramalloc-trace: %s: %s\n", options->output, strerror(errno));
    return to;
}

/* False: not all was written. */
static bool output_close(const struct options *options, FILE *to, bool keep)
{
    struct stat status;
    bool whole = fflush(to) == 0 && !ferror(to);
    int code = errno;
    if (to != stdout)
        whole = fclose(to) == 0 && whole;
    if (keep && !whole)
        fprintf(stderr, "vramalloc-trace: %s: %s\n",
                options->output != NULL ? options->output : "standard output", strerror(code));
    if ((!keep || !whole) && options->output != NULL && stat(options->output, &status) == 0 &&
        S_ISREG(status.st_mode))
        unlink(options->output);
    return whole;
}

static bool same_file(const char *one, const char *other)
{
    struct stat a, b;
    return other != NULL && stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* --- commands ---------------------------------------------------------------------------- */

static enum tool_status written(struct reader *reader, const struct options *options, FILE *to)
{
    return options->form != NULL ? options->form->write(reader, to)
                                 : info_write(reader, to, options->json);
}

static int trace_write(struct reader *reader, const struct options *options)
{
    FILE *to = output_open(options);
    if (to == NULL)
        return EXIT_BAD_INPUT;
    enum tool_status status = written(reader, options, to);
    bool whole = output_close(options, to, status == TOOL_OK);
    if (status == TOOL_DAMAGED)
        fprintf(stderr, "vramalloc-trace: %s: %s\n", options->path, reader_reason(reader));
    if (status == TOOL_NO_MEMORY)
        fprintf(stderr, "vramalloc-trace: %s: the host has no memory\n", options->path);
    if (status == TOOL_DAMAGED)
        return EXIT_BAD_INPUT;
    return status == TOOL_OK && whole ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int trace_command(const struct options *options)
{
    char reason[READER_REASON_BYTES];
    struct reader *reader = reader_open(options->path, reason);
    if (reader == NULL) {
        fprintf(stderr, "vramalloc-trace: %s: %s\n", options->path, reason);
        return EXIT_BAD_INPUT;
    }
    const struct trace_header *header = reader_info(reader)->header;
    if (options->form != NULL && header->stop != TRACE_WHOLE)
        fprintf(stderr,
                "vramalloc-trace: %s: the trace was cut: its last %llu events are missing\n",
                options->path, (unsigned long long)header->lost_events);
    int code = trace_write(reader, options);
    reader_close(reader);
    return code;
}

static int import_command(const struct options *options)
{
    char reason[READER_REASON_BYTES];
    if (import_rmm(options->path, options->output, reason))
        return EXIT_SUCCESS;
    fprintf(stderr, "vramalloc-trace: %s\n", reason);
    return EXIT_BAD_INPUT;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_parse(argc, argv, &options)) {
        fprintf(stderr, "try vramalloc-trace --help\n");
        return EXIT_BAD_INPUT;
    }
    if (same_file(options.path, options.output)) {
        refuse("the output is the input: ", options.output);
        return EXIT_BAD_INPUT;
    }
    if (options.form != NULL && options.form->write == export_pytorch && options.output == NULL &&
        isatty(STDOUT_FILENO)) {
        refuse("a pickle is no text: -o FILE is needed", "");
        return EXIT_BAD_INPUT;
    }
    return strcmp(options.command, "import") == 0 ? import_command(&options)
                                                  : trace_command(&options);
}
