/* main.c - vramalloc-trace: what is in a trace; a trace in another form, and from one.
 *
 *     info TRACE                             counts, time, threads, whole or not
 *     export --to FORM TRACE [-o FILE]       RMM's CSV, Perfetto's JSON, PyTorch's snapshot
 *     import FILE.csv -o TRACE               a trace from RMM's CSV
 *
 * Bad input costs one line and exit 2; an output that could not be finished is removed.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/command.h"
#include "trace_tool.h"

static const struct command command = {
    .name = "trace",
    .help =
        "usage: vramalloc trace info [--json] TRACE [-o FILE]\n"
        "       vramalloc trace export --to rmm|perfetto|pytorch TRACE [-o FILE]\n"
        "       vramalloc trace import FILE.csv -o TRACE\n"
        "\n"
        "Says what is in a trace, or makes another form of one. A trace is what "
        "VRAMALLOC_TRACE=PATH makes.\n"
        "\n"
        "commands:\n"
        "  info                        where it is from, whether it is whole, counts, callers\n"
        "  export                      the trace in another form, which --to names\n"
        "  import                      a trace from RMM's CSV, plain or gzip'd\n"
        "\n"
        "options:\n"
        "  --to rmm|perfetto|pytorch   the CSV of RMM's replay benchmark; JSON for "
        "ui.perfetto.dev and\n"
        "                              chrome://tracing; a snapshot for PyTorch's memory viewer\n"
        "  -o, --output FILE           where to write; standard output if it is not given\n"
        "  --json                      JSON instead of text\n"
        "  -h, --help                  this text\n"};

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
        return command_refuse(&command, "unknown command %s", options->command);
    if (options->path == NULL)
        return command_refuse(&command, "no file is named");
    if (exporting && options->form == NULL)
        return command_refuse(&command, "--to rmm, perfetto or pytorch is needed");
    if (importing && options->output == NULL)
        return command_refuse(&command, "-o TRACE is needed");
    if (options->output != NULL && command_same_file(options->path, options->output))
        return command_refuse(&command, "the output is the input: %s", options->output);
    if (exporting && options->form->write == export_pytorch && options->output == NULL &&
        isatty(STDOUT_FILENO))
        return command_refuse(&command, "a pickle is no text: -o FILE is needed");
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
    while ((what = command_option(&command, argc, argv, "o:", names, NULL)) !=
           COMMAND_OPTIONS_END) {
        if (what == COMMAND_OPTION_WRONG)
            return false;
        if (what == 't' && (options->form = form_find(optarg)) == NULL)
            return command_refuse(&command, "--to is rmm, perfetto or pytorch, and not %s", optarg);
        if (what == 'o')
            options->output = optarg;
        options->json |= what == 'j';
    }
    if (optind == argc)
        return command_refuse(&command, "nothing to do");
    options->command = argv[optind++];
    options->path = argv[optind];
    if (optind + 1 < argc)
        return command_refuse(&command, "one file at a time, and not also %s", argv[optind + 1]);
    return options_sound(options);
}

/* --- commands ---------------------------------------------------------------------------- */

static enum tool_status written(struct reader *reader, const struct options *options, FILE *to)
{
    return options->form != NULL ? options->form->write(reader, to)
                                 : info_write(reader, to, options->json);
}

static int trace_write(struct reader *reader, const struct options *options)
{
    FILE *to = command_output_open(&command, options->output);
    if (to == NULL)
        return COMMAND_FAILED;
    enum tool_status status = written(reader, options, to);
    bool whole = command_output_close(&command, options->output, to, status == TOOL_OK);
    if (status == TOOL_DAMAGED)
        return command_bad_input(&command, options->path, 0, reader_reason(reader));
    if (status == TOOL_NO_MEMORY)
        command_say(&command, "%s: the host has no memory", options->path);
    return status == TOOL_OK && whole ? COMMAND_DONE : COMMAND_FAILED;
}

static int trace_command(const struct options *options)
{
    char reason[READER_REASON_BYTES];
    struct reader *reader = reader_open(options->path, reason);
    if (reader == NULL)
        return command_bad_input(&command, options->path, 0, reason);
    const struct trace_header *header = reader_info(reader)->header;
    if (options->form != NULL && header->stop != TRACE_WHOLE)
        command_say(&command, "%s: the trace was cut: its last %llu events are missing",
                    options->path, (unsigned long long)header->lost_events);
    int code = trace_write(reader, options);
    reader_close(reader);
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!options_parse(argc, argv, &options) || !command_input_check(&command, options.path))
        return COMMAND_BAD_INPUT;
    return strcmp(options.command, "import") == 0
               ? import_rmm(&command, options.path, options.output)
               : trace_command(&options);
}
