/* units.h - figures as people read and write them. Lock: none; each call writes into the caller's
 * buffer. */
#ifndef VRAMALLOC_SHIM_UNITS_H
#define VRAMALLOC_SHIM_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unit_text {
    char text[48];
};

/* 0 B, 512 B, 1.50 KiB, 13.7 GiB ...: three digits that count. */
struct unit_text unit_bytes(uint64_t bytes);

#define UNIT_BYTES_MAX ((uint64_t)1 << 52) /* 4096T */

/* 65536, 512M, 4GiB: a whole number from 1 and a unit, in capitals or not, up to UNIT_BYTES_MAX. */
bool unit_bytes_parse(const char *text, uint64_t *bytes_out);

/* 1,234,567 */
struct unit_text unit_count(uint64_t count);

/* What ends a noun behind a count: "s", or nothing after 1. */
const char *unit_plural(uint64_t count);

/* 812 ns, 3.20 us, 1.42 ms, 2.05 s */
struct unit_text unit_ns(uint64_t ns);

/* 2026-12-03T08:40:53Z, from seconds since 1970, which are not negative. Not by libc, whose
 * functions take a lock and may call malloc. */
struct unit_text unit_time(int64_t seconds);

/* part of whole in percent: 12.3 %; "-" when whole is 0 */
struct unit_text unit_share(uint64_t part, uint64_t whole);

/* "used/total" with separators, into text. */
void unit_pair(char *text, size_t bytes, uint64_t used, uint64_t total);

#endif
