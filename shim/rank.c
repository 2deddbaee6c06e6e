/* rank.c - the rank of the process. See rank.h. */
#include "rank.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 9 };

static const struct {
    const char *name, *beside;
} rows[] = {
#define RANK_VARIABLE(name, beside, launcher) {#name, beside},
#include "rank.def"
#undef RANK_VARIABLE
};

static const char *set_text(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

const char *rank_text(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = set_text(rows[i].name);
        if (text != NULL && (rows[i].beside[0] == '\0' || set_text(rows[i].beside) != NULL))
            return text;
    }
    return NULL;
}

int rank_number(void)
{
    const char *text = rank_text();
    if (text == NULL || strlen(text) > DIGITS_MAX || text[strspn(text, "0123456789")] != '\0')
        return RANK_UNKNOWN;
    return (int)strtol(text, NULL, 10);
}
