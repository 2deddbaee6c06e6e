/* rank.c - the rank of the process. See rank.h. */
#include "rank.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 9 };

static const struct row {
    const char *name, *beside, *size;
} rows[] = {
#define RANK_VARIABLE(name, beside, size, launcher) {#name, beside, size},
#include "rank.def"
#undef RANK_VARIABLE
};

static const char *set_text(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* The row that counts; NULL: none. */
static const struct row *row_set(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (set_text(rows[i].name) != NULL &&
            (rows[i].beside[0] == '\0' || set_text(rows[i].beside) != NULL))
            return &rows[i];
    return NULL;
}

static int number_of(const char *text)
{
    if (text == NULL || strlen(text) > DIGITS_MAX || text[strspn(text, "0123456789")] != '\0')
        return RANK_UNKNOWN;
    return (int)strtol(text, NULL, 10);
}

const char *rank_text(void)
{
    const struct row *row = row_set();
    return row != NULL ? set_text(row->name) : NULL;
}

int rank_number(void)
{
    return number_of(rank_text());
}

int rank_count(void)
{
    const struct row *row = row_set();
    int count = row != NULL && row->size[0] != '\0' ? number_of(set_text(row->size)) : RANK_UNKNOWN;
    return count > rank_number() && rank_number() != RANK_UNKNOWN ? count : RANK_UNKNOWN;
}
