/* measured.c - times that a trace tells. See measured.h. The length of which nine waits in ten are
 * shorter is found in a histogram with eight steps to a power of two, and is its step's upper end.
 */
#include "measured.h"

#include <string.h>

#include "../trace/reader.h"

enum { STEPS = 64 * 8 };

/* Exact below 8; above, the highest three bits behind the leading one. */
static unsigned step_of(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    return (exponent - 2) * 8 + (unsigned)(ns >> (exponent - 3) & 7);
}

static uint64_t step_end(unsigned step)
{
    if (step < 8)
        return step;
    unsigned exponent = step / 8 + 2;
    return ((uint64_t)(8 + step % 8) << (exponent - 3)) + ((uint64_t)1 << (exponent - 3)) - 1;
}

static void event_take(struct measured *measured, uint64_t histogram[STEPS],
                       const struct reader_event *event)
{
    bool call = event->kind <= TRACE_FREE_ASYNC;
    if (event->kind == TRACE_GROW || event->kind == TRACE_SHRINK ||
        (call && event->result == 0 && (event->flags & TRACE_SERVED) == 0))
        measured->driver_ns += (double)event->duration_ns;
    measured->known |= call && event->duration_ns > 0;
    if (event->kind != TRACE_WAIT)
        return;
    measured->wait_ns += (double)event->duration_ns;
    measured->waits++;
    if (event->duration_ns > measured->longest_ns)
        measured->longest_ns = event->duration_ns;
    histogram[step_of(event->duration_ns)]++;
}

static uint64_t ninth_tenth(const uint64_t histogram[STEPS], uint64_t count, uint64_t longest)
{
    uint64_t seen = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        seen += histogram[step];
        if (seen > 0 && seen >= count - count / 10)
            return step_end(step) < longest ? step_end(step) : longest;
    }
    return 0;
}

bool measured_take(const char *path, struct measured *measured)
{
    uint64_t histogram[STEPS] = {0};
    char reason[READER_REASON_BYTES];
    struct reader_event event;
    enum reader_status status;
    *measured = (struct measured){0};
    struct reader *reader = reader_recognises(path) ? reader_open(path, reason) : NULL;
    if (reader == NULL)
        return !reader_recognises(path);
    const struct reader_info *info = reader_info(reader);
    for (size_t i = 0; i < info->item_count; i++)
        measured->sync |= strcmp(info->items[i].text, "VRAMALLOC_FREE=sync") == 0;
    while ((status = reader_next(reader, &event)) == READER_EVENT)
        event_take(measured, histogram, &event);
    measured->sync &= measured->known;
    measured->lag_ns =
        measured->sync ? ninth_tenth(histogram, measured->waits, measured->longest_ns) : 0;
    reader_close(reader);
    return status == READER_END;
}
