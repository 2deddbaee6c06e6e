/* binary.c - loads a trace of the library's own form. See binary.h.
 *
 * Two walks: the first finds the GPU with the most allocations, the second takes its events. A
 * block that the trace never frees, but whose context ends, is freed there. Every thread's own
 * default stream is a stream of its own.
 */
#include "binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trace/lives.h"

enum { DEVICES = 64 };

struct taken {
    struct trace *trace;
    size_t capacity;
    uint64_t of_device[DEVICES]; /* allocations */
    uint32_t device;
    bool counting; /* the first walk */
    uint64_t first_ns;
    uint32_t *blocks; /* from a life's number to the block's in `trace` */
    size_t block_capacity;
    const char *why; /* it failed; NULL: it did not */
};

static bool grow(void **array, size_t *capacity, size_t needed, size_t entry_bytes)
{
    size_t more = *capacity != 0 ? *capacity : 4096;
    while (more <= needed)
        more *= 2;
    if (more == *capacity)
        return true;
    void *grown = realloc(*array, more * entry_bytes);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = more;
    return true;
}

static uint64_t stream_of(const struct reader_event *event, uint64_t stream)
{
    if (stream == TRACE_STREAM_NONE)
        return 0;
    if (stream == TRACE_STREAM_PER_THREAD)
        return UINT64_MAX - event->thread; /* no handle is so high */
    return stream == UINT64_MAX ? stream : stream + 1;
}

/* The number of the life's block; a life that begins has it new. */
static bool block_number(struct taken *taken, const struct life *life, bool is_free, uint32_t *out)
{
    struct trace *trace = taken->trace;
    if (is_free) {
        *out = taken->blocks[life->block];
        return true;
    }
    if (trace->block_count == UINT32_MAX)
        return false;
    if (!grow((void **)&taken->blocks, &taken->block_capacity, (size_t)life->block,
              sizeof(taken->blocks[0])))
        return false;
    *out = taken->blocks[life->block] = (uint32_t)trace->block_count++;
    return true;
}

static bool size_sound(const struct life *life)
{
    return life->bytes > 0 && life->bytes <= TRACE_BLOCK_MAX_BYTES;
}

static void life_take(void *arg, const struct reader_event *event, const struct life *life,
                      bool is_free, bool implied)
{
    struct taken *taken = arg;
    struct trace *trace = taken->trace;
    uint32_t device = life->device % DEVICES, block;
    if (!size_sound(life) || taken->why != NULL)
        return;
    if (taken->counting) {
        taken->of_device[device] += !is_free;
        return;
    }
    if (device != taken->device) {
        trace->other_gpus += !is_free;
        return;
    }
    if (!block_number(taken, life, is_free, &block) ||
        !grow((void **)&trace->events, &taken->capacity, trace->event_count,
              sizeof(trace->events[0]))) {
        taken->why = "out of memory";
        return;
    }
    if (trace->event_count == 0)
        taken->first_ns = event->time_ns;
    if (!is_free)
        trace->refused_bytes = 0;
    trace->events[trace->event_count++] = (struct trace_event){
        .bytes = life->bytes,
        .stream = stream_of(event, implied ? life->stream : event->stream),
        .time_ns = event->time_ns > taken->first_ns ? event->time_ns - taken->first_ns : 0,
        .block = block,
        .thread = event->thread,
        .is_free = is_free};
}

static void refusal_note(struct taken *taken, const struct lives *lives,
                         const struct reader_event *event)
{
    if (event->kind != TRACE_OUT_OF_MEMORY || taken->counting ||
        lives_device(lives, event->context) % DEVICES != taken->device ||
        event->bytes > TRACE_BLOCK_MAX_BYTES)
        return;
    taken->trace->refused_bytes = event->bytes;
    taken->trace->refused_ns =
        event->time_ns > taken->first_ns ? event->time_ns - taken->first_ns : 0;
    taken->trace->refused_at = taken->trace->event_count;
}

/* One walk. */
static bool walk(struct reader *reader, struct taken *taken)
{
    struct reader_event event;
    enum reader_status status = READER_END;
    struct lives *lives = lives_create();
    bool fed = lives != NULL;
    reader_rewind(reader);
    while (fed && taken->why == NULL && (status = reader_next(reader, &event)) == READER_EVENT) {
        fed = lives_feed(lives, &event, life_take, taken);
        refusal_note(taken, lives, &event);
    }
    if (lives != NULL) {
        taken->trace->foreign_frees = (size_t)lives_unknown(lives);
        lives_destroy(lives);
    }
    if (!fed)
        taken->why = "out of memory";
    else if (status == READER_DAMAGED)
        taken->why = reader_reason(reader);
    return taken->why == NULL;
}

static int number_compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* Numbers the threads from 0, in the order of their numbers in the trace. */
static bool threads_number(struct taken *taken)
{
    struct trace *trace = taken->trace;
    uint32_t *numbers = malloc((trace->event_count + 1) * sizeof(*numbers));
    size_t count = 0, kept = 0;
    if (numbers == NULL)
        return false;
    for (size_t i = 0; i < trace->event_count; i++)
        if (i == 0 || trace->events[i].thread != trace->events[i - 1].thread)
            numbers[count++] = trace->events[i].thread;
    qsort(numbers, count, sizeof(*numbers), number_compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || numbers[i] != numbers[i - 1])
            numbers[kept++] = numbers[i];
    for (size_t i = 0; i < trace->event_count; i++) {
        const uint32_t *at =
            bsearch(&trace->events[i].thread, numbers, kept, sizeof(*numbers), number_compare);
        trace->events[i].thread = (uint32_t)(at - numbers);
    }
    trace->thread_count = kept;
    free(numbers);
    return true;
}

static bool events_take(struct reader *reader, struct taken *taken)
{
    taken->counting = true;
    if (!walk(reader, taken))
        return false;
    for (uint32_t device = 1; device < DEVICES; device++)
        if (taken->of_device[device] > taken->of_device[taken->device])
            taken->device = device;
    taken->counting = false;
    if (!walk(reader, taken))
        return false;
    if (taken->trace->event_count == 0)
        taken->why = "the trace has no allocations";
    else if (!threads_number(taken))
        taken->why = "out of memory";
    return taken->why == NULL;
}

bool binary_load(const char *path, struct trace *trace, struct trace_error *error)
{
    char reason[READER_REASON_BYTES];
    struct taken taken = {.trace = trace};
    *trace = (struct trace){0};
    *error = (struct trace_error){0};
    struct reader *reader = reader_open(path, reason);
    if (reader != NULL && events_take(reader, &taken)) {
        const struct reader_item *device = reader_item(reader, TRACE_ITEM_DEVICE, taken.device);
        trace->card_bytes = device != NULL ? device->value : 0;
        trace->lost_events = (size_t)reader_info(reader)->header->lost_events;
        reader_close(reader);
        free(taken.blocks);
        return true;
    }
    snprintf(error->reason, sizeof(error->reason), "%s", reader == NULL ? reason : taken.why);
    if (reader != NULL)
        reader_close(reader);
    free(taken.blocks);
    trace_free(trace);
    return false;
}
