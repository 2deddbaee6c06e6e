/* bench.c - measures one contender on one pattern, and prints a line for each row.
 *
 * usage: bench PATTERN [--ms N] [--divide N] [--lengthy 0|1]
 *        bench instructions BYTES PAIRS      does nothing but that, for who counts instructions
 *        bench who                           prints the file that serves the blocks
 *
 * --lengthy 1: the rows that take seconds, and only those; 0: all others.
 * --divide N: every count is divided by N, so the rows' names are wrong; to test the benchmark.
 * Exit 0; 2: wrong use. See bench.h.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings settings = {.ms = 10, .divide = 1};
void *(*block_alloc)(size_t bytes);
void (*block_free)(void *block);
bool refused;

static const struct {
    const char *name;
    void (*run)(void);
} patterns[] = {{"pairs", pairs},        {"batches", batches}, {"random", random_mixes},
                {"handover", handovers}, {"threads", threads}, {"flat", flatness}};

static bool contender_find(void)
{
    void *alloc = dlsym(RTLD_DEFAULT, "bench_alloc");
    const char *names[2] = {alloc != NULL ? "bench_alloc" : "malloc",
                            alloc != NULL ? "bench_free" : "free"};
    *(void **)&block_alloc = dlsym(RTLD_DEFAULT, names[0]);
    *(void **)&block_free = dlsym(RTLD_DEFAULT, names[1]);
    return block_alloc != NULL && block_free != NULL;
}

static int who(void)
{
    Dl_info info;
    if (dladdr(*(void **)&block_alloc, &info) == 0)
        return 2;
    puts(info.dli_fname);
    return 0;
}

static int instructions(uint64_t bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        block_free(block_get(bytes));
    return refused;
}

static bool option_read(const char *name, const char *value)
{
    if (strcmp(name, "--ms") == 0)
        settings.ms = strtod(value, NULL);
    else if (strcmp(name, "--divide") == 0)
        settings.divide = strtoull(value, NULL, 10);
    else if (strcmp(name, "--lengthy") == 0)
        settings.lengthy = strcmp(value, "1") == 0;
    else
        return false;
    return settings.ms > 0 && settings.divide > 0;
}

static int pattern_run(const char *name)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        if (strcmp(name, patterns[i].name) != 0)
            continue;
        patterns[i].run();
        return 0;
    }
    return 2;
}

int main(int argc, char **argv)
{
    int status = 2;
    if (!contender_find())
        return 2;
    if (argc == 4 && strcmp(argv[1], "instructions") == 0)
        return instructions(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    bool understood = argc % 2 == 0;
    for (int i = 2; understood && i < argc; i += 2)
        understood = option_read(argv[i], argv[i + 1]);
    if (understood)
        status = strcmp(argv[1], "who") == 0 ? who() : pattern_run(argv[1]);
    if (status == 2)
        fputs("bench: wrong use; its source says how\n", stderr);
    return status;
}
