/* signal_name.c - names of signals. See signal_name.h. */
#define _GNU_SOURCE
#include "signal_name.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct signal_row {
    const char *name;
    int number;
    bool ends;
} rows[] = {
#define SIGNAL_ROW(name, ends) {#name, SIG##name, ends},
#include "signals.def"
#undef SIGNAL_ROW
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]), NUMBER_DIGITS = 3 };

static const struct signal_row *row_of(int number)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (rows[i].number == number)
            return &rows[i];
    return NULL;
}

/* The signals of real time that libc leaves to programs. */
static bool is_real_time(int number)
{
    return number >= SIGRTMIN && number <= SIGRTMAX;
}

/* A number of one to three digits and nothing behind it; -1: no such thing. */
static int digits(const char *text)
{
    int value = 0;
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > NUMBER_DIGITS || text[length] != '\0')
        return -1;
    for (; *text != '\0'; text++)
        value = value * 10 + (*text - '0');
    return value;
}

/* RTMIN+3, RTMAX-1; -1: no such thing. */
static int real_time_parse(const char *name)
{
    bool low = strncasecmp(name, "RTMIN", 5) == 0;
    if (!low && strncasecmp(name, "RTMAX", 5) != 0)
        return -1;
    int distance = 0;
    if (name[5] != '\0')
        distance = name[5] == (low ? '+' : '-') ? digits(name + 6) : -1;
    if (distance < 0)
        return -1;
    return low ? SIGRTMIN + distance : SIGRTMAX - distance;
}

static int name_parse(const char *name)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (strcasecmp(rows[i].name, name) == 0)
            return rows[i].number;
    return real_time_parse(name);
}

bool signal_parse(const char *text, int *number_out)
{
    if (strcasecmp(text, "off") == 0 || strcmp(text, "0") == 0) {
        *number_out = 0;
        return true;
    }
    int number = digits(text);
    if (number < 0)
        number = name_parse(strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text);
    if (number <= 0 || (row_of(number) == NULL && !is_real_time(number)))
        return false;
    *number_out = number;
    return true;
}

const char *signal_text(int number, char *text, size_t bytes)
{
    const struct signal_row *row = row_of(number);
    if (number == 0)
        snprintf(text, bytes, "off");
    else if (row != NULL)
        snprintf(text, bytes, "%s", row->name);
    else
        snprintf(text, bytes, "RTMIN+%d", number - SIGRTMIN);
    return text;
}

bool signal_ends(int number)
{
    const struct signal_row *row = row_of(number);
    return row != NULL && row->ends;
}
