/* units.c - figures as people read them. See units.h. */
#include "units.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
