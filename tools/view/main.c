/* main.c - vramalloc-view: a trace as one HTML page, or as the JSON that the page shows.
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

#include "model_json.h"
#include "page.h"

enum { EXIT_BAD_INPUT = 2 };

static const char help[] =
    "usage: vramalloc-view TRACE -o FILE.html\n"
    "       vramalloc-view TRACE --json [-o FILE]\n"
    "\n"
    "Makes one page of a trace, which needs nothing else and no network: memory and fragmentation\n"
    "over time, the arena as a map at any moment, callers, largest holders, sizes, failures.\n"
    "TRACE is what VRAMALLOC_TRACE=PATH makes, or a CSV of RMM's form, plain or gzip'd.\n"
    "\n"
    "  -o, --output FILE  where to write\n"
    "  --json             the figures alone, as JSON (standard output without -o)\n"
    "  --axis time|call   what the curves run along: time (default) or the number of the event\n"
    "  --help\n";

struct options {
    const char *path, *output;
    bool json, by_call;
};

static bool refuse(const char *what, const char *which)
{
    fprintf(stderr, "vramalloc-view: %s%s\n", what, which);
    return false;
}

static bool options_parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"output", 1, NULL, 'o'},
                                          {"json", 0, NULL, 'j'},
                                          {"axis", 1, NULL, 'a'},
                                          {"help", 0, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int what;
    while ((what = getopt_long(argc, argv, "o:h", names, NULL)) != -1) {
        if (what == 'h') {
            fputs(help, stdout);
            exit(EXIT_SUCCESS);
        }
        if (what == '?')
            return false;
        if (what == 'a' && strcmp(optarg, "time") != 0 && strcmp(optarg, "call") != 0)
            return refuse("--axis is time or call, not ", optarg);
        if (what == 'a')
            options->by_call = strcmp(optarg, "call") == 0;
        if (what == 'o')
            options->output = optarg;
        options->json |= what == 'j';
    }
    if (optind == argc)
        return refuse("no trace is named", "");
    if (optind + 1 < argc)
        return refuse("one trace at a time, and not also ", argv[optind + 1]);
    options->path = argv[optind];
    return options->output != NULL || options->json || refuse("-o FILE.html is needed", "");
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int trace_bad(const char *path, const char *why)
{
    fprintf(stderr, "vramalloc-view: %s: %s\n", path, why);
    return EXIT_BAD_INPUT;
}

static int output_bad(const char *path, const char *why)
{
    fprintf(stderr, "vramalloc-view: %s: %s\n", path, why);
    return EXIT_FAILURE;
}

static bool same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* The text goes whole into the file, or the file goes. */
static int output_write(const char *path, const char *text, size_t bytes)
{
    struct stat status;
    FILE *file = path != NULL ? fopen(path, "we") : stdout;
    if (file == NULL)
        return output_bad(path, strerror(errno));
    bool regular = path != NULL && fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
    errno = 0;
    bool written = fwrite(text, 1, bytes, file) == bytes && fflush(file) == 0;
    int why = errno;
    if (path != NULL && fclose(file) != 0 && written) {
        written = false;
        why = errno;
    }
    if (written)
        return EXIT_SUCCESS;
    if (regular)
        unlink(path);
    return output_bad(path != NULL ? path : "standard output", strerror(why));
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
    int code;
    if (!model_make(&model, source, options->by_call))
        code = trace_bad(options->path, model.reason);
    else if ((text = text_make(&model, options, &bytes)) == NULL)
        code = output_bad(options->path, "the host has no memory");
    else {
        code = output_write(options->output, text, bytes);
        free(text);
    }
    model_destroy(&model);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    char reason[SOURCE_REASON_BYTES];
    if (!options_parse(argc, argv, &options)) {
        fprintf(stderr, "try vramalloc-view --help\n");
        return EXIT_BAD_INPUT;
    }
    if (options.output != NULL && same_file(options.path, options.output))
        return trace_bad(options.path, "the output would overwrite the trace");
    struct source *source = source_open(options.path, reason);
    if (source == NULL)
        return trace_bad(options.path, reason);
    int code = view(source, &options);
    source_close(source);
    return code;
}
