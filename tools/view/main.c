/* main.c - vramalloc-view: a trace as one HTML page, or as the JSON that the page shows.
 *
 * Bad input costs one line and exit 2; an output that could not be finished is removed.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../common/command.h"
#include "model_json.h"
#include "page.h"

static const struct command command = {
    .name = "view",
    .help =
        "usage: vramalloc view TRACE -o FILE.html\n"
        "       vramalloc view TRACE --json [-o FILE]\n"
        "\n"
        "Makes one page of a trace, which needs nothing else and no network: memory and "
        "fragmentation\n"
        "over time, the arena as a map at any moment, callers, largest holders, sizes, failures.\n"
        "TRACE is what VRAMALLOC_TRACE=PATH makes, or a CSV of RMM's form, plain or gzip'd.\n"
        "\n"
        "options:\n"
        "  -o, --output FILE   where to write; with --json standard output if it is not given\n"
        "  --json              the figures alone, as JSON\n"
        "  --axis time|call    what the curves run along: the time (if not given), or the number "
        "of the event\n"
        "  -h, --help          this text\n"};

struct options {
    const char *path, *output;
    bool json, by_call;
};

static bool options_parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"output", 1, NULL, 'o'},
                                          {"json", 0, NULL, 'j'},
                                          {"axis", 1, NULL, 'a'},
                                          {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int what;
    while ((what = command_option(&command, argc, argv, "o:", names, NULL)) !=
           COMMAND_OPTIONS_END) {
        if (what == COMMAND_OPTION_WRONG)
            return false;
        if (what == 'a' && strcmp(optarg, "time") != 0 && strcmp(optarg, "call") != 0)
            return command_refuse(&command, "--axis is time or call, and not %s", optarg);
        if (what == 'a')
            options->by_call = strcmp(optarg, "call") == 0;
        if (what == 'o')
            options->output = optarg;
        options->json |= what == 'j';
    }
    if (optind == argc)
        return command_refuse(&command, "no file is named");
    if (optind + 1 < argc)
        return command_refuse(&command, "one file at a time, and not also %s", argv[optind + 1]);
    options->path = argv[optind];
    if (options->output == NULL && !options->json)
        return command_refuse(&command, "-o FILE.html is needed");
    if (options->output != NULL && command_same_file(options->path, options->output))
        return command_refuse(&command, "the output is the input: %s", options->output);
    return true;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int text_write(const char *path, const char *text, size_t bytes)
{
    FILE *to = command_output_open(&command, path);
    if (to == NULL)
        return COMMAND_FAILED;
    fwrite(text, 1, bytes, to);
    return command_output_close(&command, path, to, true) ? COMMAND_DONE : COMMAND_FAILED;
}

/* What is to be written, in memory: a few MiB at most. NULL: the host has no memory. */
static char *text_make(const struct model *model, const struct options *options, size_t *bytes)
{
    char *json = NULL, *page = NULL;
    size_t json_bytes = 0;
    FILE *to = open_memstream(&json, &json_bytes);
    bool made = to != NULL && model_json_write(model, name_of(options->path), to);
    made = to != NULL && fclose(to) == 0 && made;
    *bytes = json_bytes;
    if (made && !options->json) {
        to = open_memstream(&page, bytes);
        made = to != NULL && page_write(json, to);
        made = to != NULL && fclose(to) == 0 && made;
        free(json);
        json = page;
    }
    if (made)
        return json;
    free(json);
    return NULL;
}

static int view(struct source *source, const struct options *options)
{
    struct model model;
    size_t bytes;
    char *text;
    int code = COMMAND_FAILED;
    if (!model_make(&model, source, options->by_call)) {
        code = command_bad_input(&command, options->path, 0, model.reason);
    } else if ((text = text_make(&model, options, &bytes)) == NULL) {
        command_say(&command, "%s: the host has no memory", options->path);
    } else {
        code = text_write(options->output, text, bytes);
        free(text);
    }
    model_destroy(&model);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    char reason[SOURCE_REASON_BYTES];
    if (!options_parse(argc, argv, &options) || !command_input_check(&command, options.path))
        return COMMAND_BAD_INPUT;
    struct source *source = source_open(options.path, reason);
    if (source == NULL)
        return command_bad_input(&command, options.path, 0, reason);
    int code = view(source, &options);
    source_close(source);
    return code;
}
