/* units.c - figures as people read and write them. See units.h. */
#include "units.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Three digits that count, without a point for whole hundreds. */
static void scaled_print(struct unit_text *out, double value, const char *unit)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out->text, sizeof(out->text), "%.*f %s", decimals, value, unit);
}

struct unit_text unit_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct unit_text out;
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1023.5 && unit < 6) {
        value /= 1024.0;
        unit++;
    }
    if (unit == 0)
        snprintf(out.text, sizeof(out.text), "%llu B", (unsigned long long)bytes);
    else
        scaled_print(&out, value, units[unit]);
    return out;
}

/* K, M, G or T, alone or with B or iB; B or nothing: bytes. -1: something else. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT";
    if (unit[0] == '\0' || strcasecmp(unit, "B") == 0)
        return 0;
    char upper = (char)(unit[0] & ~0x20); /* of a space this is the end of a string */
    const char *letter = upper != '\0' ? strchr(letters, upper) : NULL;
    bool alone =
        unit[1] == '\0' || strcasecmp(unit + 1, "B") == 0 || strcasecmp(unit + 1, "iB") == 0;
    return letter != NULL && alone ? 10 * (int)(letter - letters + 1) : -1;
}

bool unit_bytes_parse(const char *text, uint64_t *bytes_out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (value <= UNIT_BYTES_MAX) /* else it is too much already */
            value = value * 10 + (uint64_t)(*at - '0');
    int shift = unit_shift(at);
    if (at == text || value == 0 || shift < 0 || value > UNIT_BYTES_MAX >> shift)
        return false;
    *bytes_out = value << shift;
    return true;
}

struct unit_text unit_count(uint64_t count)
{
    char digits[24];
    struct unit_text out = {{0}};
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    char *to = out.text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    return out;
}

const char *unit_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

struct unit_text unit_ns(uint64_t ns)
{
    struct unit_text out;
    if (ns < 1000)
        snprintf(out.text, sizeof(out.text), "%llu ns", (unsigned long long)ns);
    else if (ns < 1000000)
        scaled_print(&out, (double)ns / 1e3, "us");
    else if (ns < 1000000000)
        scaled_print(&out, (double)ns / 1e6, "ms");
    else
        scaled_print(&out, (double)ns / 1e9, "s");
    return out;
}

struct unit_text unit_share(uint64_t part, uint64_t whole)
{
    struct unit_text out = {"-"};
    if (whole > 0)
        snprintf(out.text, sizeof(out.text), "%.1f %%", 100.0 * (double)part / (double)whole);
    return out;
}

void unit_pair(char *text, size_t bytes, uint64_t used, uint64_t total)
{
    snprintf(text, bytes, "%s/%s", unit_count(used).text, unit_count(total).text);
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

struct unit_text unit_time(int64_t seconds)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    struct unit_text time;
    int64_t days = seconds / 86400, year = 1970;
    int month = 0, second = (int)(seconds % 86400);
    for (; days >= 365 + is_leap(year); year++)
        days -= 365 + is_leap(year);
    for (; days >= month_days[month] + (month == 1 && is_leap(year)); month++)
        days -= month_days[month] + (month == 1 && is_leap(year));
    snprintf(time.text, sizeof(time.text), "%04d-%02d-%02dT%02d:%02d:%02dZ", (int)year % 10000,
             month + 1, (int)days + 1, second / 3600, second / 60 % 60, second % 60);
    return time;
}
