/* main.c - vramalloc-report: JSON reports of processes, for people: one as the text that it stands
 * for, many as one table.
 *
 * A file that cannot be read costs a line, and exit 2 in the end; the others are shown all the
 * same.
 */
#include <stdlib.h>

#include "../../shim/report_buffer.h"
#include "../common/command.h"
#include "merge.h"

static const struct command command = {
    .name = "report",
    .help = "usage: vramalloc report [--json] FILE...\n"
            "\n"
            "Shows reports that programs made with VRAMALLOC_REPORT=PATH "
            "VRAMALLOC_REPORT_FORMAT=json: of one\n"
            "process the text of its report; of many a table with a row for each process and GPU, "
            "the worst first:\n"
            "where most allocations ran out of memory, then where the largest share of the card "
            "was held, then\n"
            "where the largest share of the run was waited in frees. Of a process that made "
            "several the last counts.\n"
            "\n"
            "options:\n"
            "  --json        the table as JSON, of one process as well\n"
            "  -h, --help    this text\n"
            "\n"
            "Exit 2: a file cannot be read, or is no report; the others are shown.\n"};

struct options {
    bool json;
    int first; /* of the files, in argv */
};

static bool options_read(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    int what, index = 0;
    while ((what = command_option(&command, argc, argv, "", names, &index)) !=
           COMMAND_OPTIONS_END) {
        if (what == COMMAND_OPTION_WRONG)
            return false;
        options->json = true;
    }
    options->first = optind;
    return optind < argc || command_refuse(&command, "no file given");
}

static bool text_of_one(const struct loaded *loaded)
{
    static struct report_buffer buffer;
    report_text_make(&buffer, &loaded->report);
    fputs(buffer.text + (buffer.text[0] == '\n'), stdout);
    return true;
}

static bool show(const struct options *options, struct loaded *loaded, size_t read)
{
    size_t count = merge_latest(loaded, read);
    bool shown = options->json ? merge_json(stdout, loaded, count, read - count)
                 : count == 1  ? text_of_one(loaded)
                               : merge_text(stdout, loaded, count, read - count);
    for (size_t i = 0; i < count; i++)
        report_free(&loaded[i]);
    return shown;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    size_t read = 0;
    if (!options_read(argc, argv, &options))
        return COMMAND_BAD_INPUT;
    size_t files = (size_t)(argc - options.first);
    struct loaded *loaded = calloc(files, sizeof(*loaded));
    for (size_t i = 0; loaded != NULL && i < files; i++)
        read += report_read(&command, argv[(size_t)options.first + i], &loaded[read]);
    int code = read == files ? COMMAND_DONE : COMMAND_BAD_INPUT;
    if (loaded == NULL || (read > 0 && !show(&options, loaded, read))) {
        command_say(&command, "no memory");
        code = COMMAND_FAILED;
    }
    free(loaded);
    return command_end(&command, code);
}
