/* options.c - parses the environment. See options.h.
 *
 * One row a variable, generated from options.def: its name, how to parse and print it, what is
 * accepted. A value that does not parse, and a VRAMALLOC_ name that is not known, cost one line
 * each; the lines wait until the process allocates device memory, since a setting of a whole job is
 * seen by many processes that never do.
 */
#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "signal_name.h"
#include "text.h"
#include "units.h"

static const struct options defaults = {
#define OPTION_CHOICE(field, NAME, def, choices, help)    .field = def,
#define OPTION_BOOL(field, NAME, def, help)               .field = def,
#define OPTION_SIZE(field, NAME, def, help)               .field = {0}, /* from its text, below */
#define OPTION_PERCENT(field, NAME, def, low, high, help) .field = def,
#define OPTION_PATH(field, NAME, def, help)               .field = def,
#define OPTION_SET(field, NAME, def, words, help)         .field = 0,
#define OPTION_SIGNAL(field, NAME, def, help)             .field = 0,
#define OPTION_SECONDS(field, NAME, def, high, help)      .field = def,
#include "options.def"
#undef OPTION_CHOICE
#undef OPTION_BOOL
#undef OPTION_SIZE
#undef OPTION_PERCENT
#undef OPTION_PATH
#undef OPTION_SET
#undef OPTION_SIGNAL
#undef OPTION_SECONDS
};

struct options options;

enum option_kind {
    KIND_CHOICE,
    KIND_BOOL,
    KIND_SIZE,
    KIND_PERCENT,
    KIND_PATH,
    KIND_SIGNAL,
    KIND_SECONDS,
    KIND_SET
};

struct option_row {
    const char *name;
    enum option_kind kind;
    const char *default_text;
    const char *choices; /* KIND_CHOICE, KIND_SET: "a|b" */
    unsigned low, high;  /* KIND_PERCENT, KIND_SECONDS */
    void *field;
};

#define TEXT_(value) #value
#define TEXT(value)  TEXT_(value)

static const struct option_row rows[] = {
#define OPTION_CHOICE(field, NAME, def, choices, help)                                             \
    {#NAME, KIND_CHOICE, def, choices, 0, 0, (void *)&options.field},
#define OPTION_BOOL(field, NAME, def, help)                                                        \
    {#NAME, KIND_BOOL, TEXT(def), NULL, 0, 0, (void *)&options.field},
#define OPTION_SIZE(field, NAME, def, help)                                                        \
    {#NAME, KIND_SIZE, def, NULL, 0, 0, (void *)&options.field},
#define OPTION_PERCENT(field, NAME, def, low, high, help)                                          \
    {#NAME, KIND_PERCENT, TEXT(def), NULL, low, high, (void *)&options.field},
#define OPTION_PATH(field, NAME, def, help)                                                        \
    {#NAME, KIND_PATH, def, NULL, 0, 0, (void *)&options.field},
#define OPTION_SET(field, NAME, def, words, help)                                                  \
    {#NAME, KIND_SET, def, words, 0, 0, (void *)&options.field},
#define OPTION_SIGNAL(field, NAME, def, help)                                                      \
    {#NAME, KIND_SIGNAL, def, NULL, 0, 0, (void *)&options.field},
#define OPTION_SECONDS(field, NAME, def, high, help)                                               \
    {#NAME, KIND_SECONDS, TEXT(def), NULL, 0, high, (void *)&options.field},
#include "options.def"
#undef OPTION_CHOICE
#undef OPTION_BOOL
#undef OPTION_SIZE
#undef OPTION_PERCENT
#undef OPTION_PATH
#undef OPTION_SET
#undef OPTION_SIGNAL
#undef OPTION_SECONDS
};

#define LIMIT_LEAST_BYTES ((uint64_t)2 << 20) /* the driver's own step */

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

enum { NAME_BYTES = 64, NEAR_ENOUGH = 2, COMPLAINTS_MAX = 16, COMPLAINT_BYTES = 512 };
enum { UNKNOWN_BYTES = 256, SHOWN_BYTES = 204 };

static char complaints[COMPLAINTS_MAX][COMPLAINT_BYTES];
static int complaint_count;
static bool complained;

/* Names that belong to the launcher and to the tests. */
static const char *const reserved[] = {"VRAMALLOC_LIB", "VRAMALLOC_TEST_SEED",
                                       "VRAMALLOC_TEST_STEPS"};

/* --- parsing ------------------------------------------------------------------------------- */

/* Digits only, no sign, no overflow. *end_out: the first character that is no digit. */
static bool digits_parse(const char *text, uint64_t *value_out, const char **end_out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    *value_out = value;
    *end_out = at;
    return at != text;
}

static bool size_parse(const char *text, struct option_size *size)
{
    uint64_t value;
    const char *rest;
    if (strcasecmp(text, "none") == 0) {
        *size = (struct option_size){.none = true};
        return true;
    }
    if (digits_parse(text, &value, &rest) && strcmp(rest, "%") == 0 && value > 0 && value <= 100) {
        *size = (struct option_size){.percent = (uint32_t)value};
        return true;
    }
    if (!unit_bytes_parse(text, &value))
        return false;
    *size = (struct option_size){.bytes = value};
    return true;
}

static bool bool_parse(const char *text, bool *value_out)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return false;
    *value_out = text[0] == '1';
    return true;
}

/* unit: what may stand behind it. */
static bool number_parse(const struct option_row *row, const char *text, const char *unit)
{
    uint64_t value;
    const char *rest;
    if (!digits_parse(text, &value, &rest) || (rest[0] != '\0' && strcmp(rest, unit) != 0) ||
        value < row->low || value > row->high)
        return false;
    *(uint32_t *)row->field = (uint32_t)value;
    return true;
}

/* The next of the words "a|b": its length, 0 at the end; *words moves behind it. */
static size_t word_next(const char **words, const char **word)
{
    size_t length = strcspn(*words, "|");
    *word = *words;
    *words += length + ((*words)[length] == '|');
    return length;
}

/* Which of the words "a|b" the first `length` characters are, in capitals or not; -1: none.
 * word_out: as it is spelled there. */
static int word_index(const char *words, const char *text, size_t length, const char **word_out)
{
    size_t word;
    for (int i = 0; (word = word_next(&words, word_out)) > 0; i++)
        if (word == length && strncasecmp(*word_out, text, length) == 0)
            return i;
    return -1;
}

/* Copies the one of "a|b" that text is, as it is spelled there. */
static bool word_find(const char *words, const char *text, char *word, size_t bytes)
{
    const char *found;
    bool is_one = word_index(words, text, strlen(text), &found) >= 0;
    if (is_one)
        snprintf(word, bytes, "%.*s", (int)strlen(text), found);
    return is_one;
}

/* Sets the field to the choice as the table spells it, which lives as long as we do. */
static bool choice_parse(const struct option_row *row, const char *text)
{
    static char spelled[ROW_COUNT][32];
    char *copy = spelled[row - rows];
    if (!word_find(row->choices, text, copy, sizeof(spelled[0])))
        return false;
    *(const char **)row->field = copy;
    return true;
}

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes a relative path absolute, from the present working directory: the program may leave it. Not
 * by getcwd, which may call malloc. */
static void path_settle(const struct option_row *row)
{
    static char folder[PATH_MAX], whole[PATH_MAX];
    char *path = row->field, shown[SHOWN_BYTES];
    size_t used = 0;
    if (path[0] == '/')
        return;
    bool known = syscall(SYS_getcwd, folder, sizeof(folder)) > 0 && folder[0] == '/';
    for (const char *c = folder; known && *c != '\0' && used + 2 < sizeof(whole); c++) {
        whole[used++] = *c;
        if (*c == '%') /* no pattern */
            whole[used++] = '%';
    }
    size_t room = sizeof(whole) - used;
    if (known && (size_t)snprintf(whole + used, room, "/%s", path) < room)
        memcpy(path, whole, sizeof(whole));
    else
        complain("%s=\"%s\" is taken from the working directory at exit: %s", row->name,
                 text_visible(path, shown, sizeof(shown)),
                 known ? "with the present one it is too long"
                       : "the path of the present one is not known");
}

/* Whether stderr is a place for it. */
static bool stderr_accepted(const struct option_row *row)
{
    return strcmp(row->default_text, "stderr") == 0;
}

/* No path, or one that nobody means: nothing, blanks at an end, a word that others take for stdout.
 */
static bool path_refused(const char *text)
{
    static const char blanks[] = " \t\n\v\f\r";
    char word[8];
    size_t length = strlen(text);
    return length == 0 || length >= PATH_MAX || strchr(blanks, text[0]) != NULL ||
           strchr(blanks, text[length - 1]) != NULL ||
           word_find("-|stdout|stderr", text, word, sizeof(word));
}

static bool path_parse(const struct option_row *row, const char *text)
{
    if (word_find(stderr_accepted(row) ? "stderr|off" : "off", text, row->field, PATH_MAX))
        return true;
    if (path_refused(text))
        return false;
    memcpy(row->field, text, strlen(text) + 1);
    path_settle(row);
    return true;
}

/* Words between commas, in any order. */
static bool set_parse(const struct option_row *row, const char *text)
{
    uint32_t bits = 0;
    const char *word;
    if (strcasecmp(text, "off") == 0) {
        *(uint32_t *)row->field = 0;
        return true;
    }
    for (;; text++) {
        size_t length = strcspn(text, ",");
        int index = word_index(row->choices, text, length, &word);
        if (index < 0)
            return false;
        bits |= (uint32_t)1 << index;
        text += length;
        if (*text == '\0')
            break;
    }
    *(uint32_t *)row->field = bits;
    return true;
}

static bool row_parse(const struct option_row *row, const char *text)
{
    switch (row->kind) {
    case KIND_CHOICE:
        return choice_parse(row, text);
    case KIND_BOOL:
        return bool_parse(text, row->field);
    case KIND_SIZE:
        return size_parse(text, row->field);
    case KIND_PERCENT:
        return number_parse(row, text, "%");
    case KIND_SET:
        return set_parse(row, text);
    case KIND_SIGNAL:
        return signal_parse(text, row->field);
    case KIND_SECONDS:
        return number_parse(row, text, "s");
    default:
        return path_parse(row, text);
    }
}

/* --- what is said ------------------------------------------------------------------------------
 */

static void accepted_text(const struct option_row *row, char *text, size_t bytes)
{
    switch (row->kind) {
    case KIND_CHOICE:
        snprintf(text, bytes, "%s", row->choices);
        for (char *bar = strchr(text, '|'); bar != NULL; bar = strchr(bar, '|'))
            *bar = ',';
        break;
    case KIND_BOOL:
        snprintf(text, bytes, "0 or 1");
        break;
    case KIND_SET:
        snprintf(text, bytes, "off, or of %s, with commas between", row->choices);
        break;
    case KIND_SIZE:
        snprintf(text, bytes,
                 "bytes (65536, 512M, 4G; at most 4096T), 1%% to 100%% of the card, or none");
        break;
    case KIND_PERCENT:
        snprintf(text, bytes, "%u to %u (percent)", row->low, row->high);
        break;
    case KIND_SIGNAL:
        snprintf(text, bytes,
                 "off, "
#define SIGNAL_ROW(name, ends) #name ", "
#include "signals.def"
#undef SIGNAL_ROW
                 "RTMIN+N, or one of their numbers");
        break;
    case KIND_SECONDS:
        snprintf(text, bytes, "%u to %u (seconds)", row->low, row->high);
        break;
    default:
        snprintf(text, bytes,
                 "%s, or a path (/tmp/%%e.%%p%s; at most %d characters, no blank at either end)",
                 stderr_accepted(row) ? "stderr, off" : "off",
                 stderr_accepted(row) ? ", /dev/stdout" : "", PATH_MAX - 1);
    }
}

/* Keeps a line for options_complain(). */
static void complain(const char *format, ...)
{
    va_list arguments;
    if (complaint_count == COMPLAINTS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(complaints[complaint_count++], COMPLAINT_BYTES, format, arguments);
    va_end(arguments);
}

static void value_complain(const struct option_row *row, const char *text)
{
    char accepted[128], shown[SHOWN_BYTES];
    accepted_text(row, accepted, sizeof(accepted));
    complain("%s=\"%s\" is not valid: accepted is %s; using the default, %s", row->name,
             text_visible(text, shown, sizeof(shown)), accepted, row->default_text);
}

/* Inserted, removed and changed characters that lead from one to the other (Levenshtein), by rows
 * of the usual table. b is shorter than NAME_BYTES. */
static unsigned name_distance(const char *a, const char *b)
{
    unsigned row[NAME_BYTES];
    unsigned length = (unsigned)strlen(b);
    for (unsigned j = 0; j <= length; j++)
        row[j] = j;
    for (unsigned i = 1; *a != '\0'; i++, a++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= length; j++) {
            unsigned change = diagonal + (*a != b[j - 1]);
            unsigned skip = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < skip ? change : skip;
        }
    }
    return row[length];
}

static void name_complain(const char *name, size_t length)
{
    char unknown[UNKNOWN_BYTES], shown[SHOWN_BYTES];
    const char *nearest = NULL;
    unsigned best = NEAR_ENOUGH + 1;
    snprintf(unknown, sizeof(unknown), "%.*s",
             (int)(length < UNKNOWN_BYTES ? length : UNKNOWN_BYTES - 1), name);
    for (int i = 0; i < ROW_COUNT; i++) {
        unsigned distance = name_distance(unknown, rows[i].name);
        if (distance < best) {
            best = distance;
            nearest = rows[i].name;
        }
    }
    text_visible(unknown, shown, sizeof(shown));
    if (nearest != NULL)
        complain("%s is not a setting; did you mean %s?", shown, nearest);
    else
        complain("%s is not a setting; it is ignored", shown);
}

static bool name_known(const char *name, size_t length)
{
    for (int i = 0; i < ROW_COUNT; i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
            return true;
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (strlen(reserved[i]) == length && strncmp(reserved[i], name, length) == 0)
            return true;
    return false;
}

/* --- the interface
 * -------------------------------------------------------------------------------- */

void options_load(void)
{
    int saved_errno = errno;
    options = defaults;
    complaint_count = 0;
    __atomic_store_n(&complained, false, __ATOMIC_RELAXED);
    for (int i = 0; i < ROW_COUNT; i++) {
        const char *text = getenv(rows[i].name);
        if (rows[i].kind == KIND_SIZE)
            size_parse(rows[i].default_text, rows[i].field);
        if (text != NULL && !row_parse(&rows[i], text))
            value_complain(&rows[i], text);
    }
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "VRAMALLOC_", strlen("VRAMALLOC_")) == 0 && !name_known(*entry, length))
            name_complain(*entry, length);
    }
    errno = saved_errno;
}

static void size_text(const struct option_size *size, char *text, size_t bytes)
{
    if (size->none)
        snprintf(text, bytes, "none");
    else if (size->percent > 0)
        snprintf(text, bytes, "%u%% of the card", size->percent);
    else
        snprintf(text, bytes, "%llu byte%s", (unsigned long long)size->bytes,
                 unit_plural(size->bytes));
}

static void set_text(const struct option_row *row, char *text, size_t bytes)
{
    uint32_t bits = *(uint32_t *)row->field;
    const char *words = row->choices, *word;
    size_t used = 0, length;
    snprintf(text, bytes, "off");
    for (; (length = word_next(&words, &word)) > 0; bits >>= 1)
        if ((bits & 1) != 0 && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? "," : "",
                                     (int)length, word);
}

static void value_text(const struct option_row *row, char *text, size_t bytes)
{
    switch (row->kind) {
    case KIND_CHOICE:
        snprintf(text, bytes, "%s", *(const char **)row->field);
        break;
    case KIND_BOOL:
        snprintf(text, bytes, "%d", *(bool *)row->field);
        break;
    case KIND_SIZE:
        size_text(row->field, text, bytes);
        break;
    case KIND_PERCENT:
        snprintf(text, bytes, "%u%%", *(uint32_t *)row->field);
        break;
    case KIND_SET:
        set_text(row, text, bytes);
        break;
    case KIND_SIGNAL:
        signal_text(*(int *)row->field, text, bytes);
        break;
    case KIND_SECONDS:
        snprintf(text, bytes, "%u s", *(uint32_t *)row->field);
        break;
    default:
        text_visible(row->field, text, bytes);
    }
}

const char *options_setting_name(int number)
{
    return number >= 0 && number < ROW_COUNT ? rows[number].name : NULL;
}

void options_setting_text(int number, char *text, size_t bytes)
{
    value_text(&rows[number], text, bytes);
}

void options_print(void)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        char text[512];
        value_text(&rows[i], text, sizeof(text));
        log_line("%-24s = %s%s", rows[i].name, text,
                 getenv(rows[i].name) == NULL ? " (default)" : "");
    }
}

/* Settings that are valid one by one and of which another one takes something away. */
static void sizes_complain(uint64_t total_bytes)
{
    uint64_t size = options_size_resolve(&options.arena_size, total_bytes);
    uint64_t limit = options_size_resolve(&options.arena_limit, total_bytes);
    char size_said[64], limit_said[64];
    size_text(&options.arena_size, size_said, sizeof(size_said));
    size_text(&options.arena_limit, limit_said, sizeof(limit_said));
    if (limit > 0 && limit < LIMIT_LEAST_BYTES)
        log_line(
            "VRAMALLOC_ARENA_LIMIT is %s, less than the 2 MiB that memory comes in: every call "
            "goes to the driver",
            limit_said);
    else if (limit > 0 && size > limit && getenv("VRAMALLOC_ARENA_SIZE") != NULL)
        log_line("VRAMALLOC_ARENA_SIZE is %s, above VRAMALLOC_ARENA_LIMIT, %s: the limit holds",
                 size_said, limit_said);
    if (total_bytes > 0 && size > total_bytes)
        log_line("VRAMALLOC_ARENA_SIZE is %s, and the card has %llu bytes: less is taken ahead",
                 size_said, (unsigned long long)total_bytes);
    if (total_bytes > 0 && limit > total_bytes)
        log_line("VRAMALLOC_ARENA_LIMIT is %s, and the card has %llu bytes: it limits nothing",
                 limit_said, (unsigned long long)total_bytes);
}

void options_complain(uint64_t total_bytes)
{
    int saved_errno = errno;
    if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED)) {
        for (int i = 0; i < complaint_count; i++)
            log_line("%s", complaints[i]);
        sizes_complain(total_bytes);
    }
    errno = saved_errno;
}

uint64_t options_size_resolve(const struct option_size *size, uint64_t total_bytes)
{
    if (size->none)
        return 0;
    return size->percent > 0 ? total_bytes / 100 * size->percent : size->bytes;
}
