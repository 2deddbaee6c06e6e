/* model.c - the figures of a view. See model.h. */
#define _GNU_SOURCE
#include "model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../replay/card.h"

#define RANGE_BYTES     ((uint64_t)2 << 20)
#define ALL_BYTES_MAX   ((uint64_t)1 << 60) /* so that the card's addresses are never used up */
#define MOMENT_BUCKETS  4
#define MOMENTS_SPECIAL (MODEL_FAILURES + 2)

enum { RANGES_MAX = 4096, CALLERS = 65536 };

static_assert(MODEL_BUCKETS / MOMENT_BUCKETS + MOMENTS_SPECIAL <= MAP_MOMENTS,
              "the map has room for all moments");

/* One going through. */
struct pass {
    struct model *model;
    struct state state;
    struct card *card[SOURCE_DEVICES];
    uint64_t footprint_bytes;
    uint64_t number; /* of the event, from 0 */
    size_t bucket;   /* the open one */
    bool changed;    /* since the last moment */
};

static bool fail(struct model *model, const char *why)
{
    if (model->reason == NULL)
        model->reason = why;
    return false;
}

static bool no_memory(struct model *model)
{
    return fail(model, "the host has no memory");
}

/* --- ranges of addresses --------------------------------------------------------------------- */

/* The first range that ends at or behind an address. */
static size_t range_at(const struct model *model, uint64_t address)
{
    size_t low = 0, high = model->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (model->range[middle].high < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes [address, address + bytes), in whole RANGE_BYTES, into the ranges. */
static void range_add(struct model *model, uint64_t address, uint64_t bytes)
{
    uint64_t low = address / RANGE_BYTES * RANGE_BYTES;
    uint64_t high = (address + bytes + RANGE_BYTES - 1) / RANGE_BYTES * RANGE_BYTES;
    size_t i = range_at(model, low), behind = i;
    struct range *range = model->range;
    if (high < low || (i < model->range_count && range[i].low <= low && range[i].high >= high))
        return;
    for (; behind < model->range_count && range[behind].low <= high; behind++) {
        low = range[behind].low < low ? range[behind].low : low;
        high = range[behind].high > high ? range[behind].high : high;
    }
    if (behind == i && model->range_count == RANGES_MAX) {
        model->out_of_ranges++;
        return;
    }
    size_t count = model->range_count;
    memmove(&range[i + 1], &range[behind], (count - behind) * sizeof(*range));
    model->range_count = count + 1 - (behind - i);
    range[i] = (struct range){.low = low, .high = high};
}

/* --- the first pass ----------------------------------------------------------------------------
 */

static void totals_count(struct model *model, const struct event *event)
{
    model->events++;
    model->end_ns = event->time_ns;
    switch (event->kind) {
    case EVENT_ALLOC:
        model->allocs++;
        model->alloc_bytes += event->bytes;
        model->call_ns += event->duration_ns;
        break;
    case EVENT_FREE:
        model->frees++;
        model->call_ns += event->duration_ns;
        break;
    case EVENT_GROW:
        model->grows++;
        break;
    case EVENT_SHRINK:
        model->shrinks++;
        break;
    case EVENT_WAIT:
        model->waits++;
        model->wait_ns += event->duration_ns;
        break;
    case EVENT_PASSED:
        model->passed++;
        model->passed_bytes += event->bytes;
        break;
    case EVENT_OUT_OF_MEMORY:
        model->failures++;
        break;
    case EVENT_FAILED:
        model->failed_calls++;
        break;
    default:
        break;
    }
}

static void peaks_note(struct model *model, const struct state *state, uint64_t time_ns)
{
    if (state->live_bytes > model->peak_live_bytes) {
        model->peak_live_bytes = state->live_bytes;
        model->peak_event = model->events - 1;
        model->peak_ns = time_ns;
        model->peak_live_count = state->live_count;
    }
    if (state->forwarded_bytes > model->forwarded_peak_bytes)
        model->forwarded_peak_bytes = state->forwarded_bytes;
    if (state->held_bytes > model->peak_held_bytes) {
        model->peak_held_bytes = state->held_bytes;
        model->peak_held_ns = time_ns;
    }
}

static bool survey_event(struct model *model, struct state *state, const struct event *event)
{
    if (event->kind == EVENT_ALLOC && event->bytes > ALL_BYTES_MAX - model->alloc_bytes)
        return fail(model, "the trace is damaged: it allocates more than any machine could");
    totals_count(model, event);
    state_apply(state, event);
    if (event->kind == EVENT_ALLOC && state->failure == NULL && model->grows == 0)
        range_add(model, event->address, event->bytes);
    peaks_note(model, state, event->time_ns);
    return state->failure == NULL || fail(model, state->failure);
}

static void survey_end(struct model *model, const struct state *state)
{
    model->foreign_frees = state->foreign_frees;
    model->overlaps = state->overlaps;
    model->end_live_bytes = state->live_bytes;
    model->end_live_count = state->live_count;
    model->by_address = model->grows == 0;
    model->by_call |= model->end_ns == 0;
    model->end_position = model->by_call ? model->events : model->end_ns;
}

static bool survey(struct model *model, struct source *source)
{
    struct state state;
    struct event event;
    if (!state_create(&state)) {
        state_destroy(&state);
        return no_memory(model);
    }
    state.join = source_info(source)->movable;
    bool fine = true;
    while (fine && source_next(source, &event))
        fine = survey_event(model, &state, &event);
    survey_end(model, &state);
    state_destroy(&state);
    if (!fine)
        return false;
    if (source_reason(source) != NULL)
        return fail(model, source_reason(source));
    return model->allocs > 0 || model->failures > 0 || fail(model, "the trace has no allocations");
}

/* --- holders -----------------------------------------------------------------------------------
 */

static int by_caller_and_size(const void *left, const void *right)
{
    const struct holder *a = left, *b = right;
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int by_total(const void *left, const void *right)
{
    const struct holder *a = left, *b = right;
    uint64_t total_a = a->bytes * a->count, total_b = b->bytes * b->count;
    if (total_a != total_b)
        return total_a > total_b ? -1 : 1;
    return by_caller_and_size(left, right);
}

/* Joins neighbours of one caller and size; returns how many are left. */
static size_t holders_join(struct holder *holder, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && by_caller_and_size(&holder[kept - 1], &holder[i]) == 0) {
            holder[kept - 1].count++;
            if (holder[i].oldest_ns < holder[kept - 1].oldest_ns)
                holder[kept - 1].oldest_ns = holder[i].oldest_ns;
        } else {
            holder[kept++] = holder[i];
        }
    }
    return kept;
}

static bool holders_take(struct pass *pass, struct holders *holders)
{
    const struct state *state = &pass->state;
    struct holder *all = malloc((state->live_count + 1) * sizeof(*all));
    size_t count = 0;
    if (all == NULL)
        return no_memory(pass->model);
    for (uint32_t i = 0; i < state->block_count; i++) {
        const struct block *block = &state->block[i];
        if (!block->dead)
            all[count++] = (struct holder){.caller = block->caller,
                                           .bytes = block->bytes,
                                           .count = 1,
                                           .oldest_ns = block->born_ns};
    }
    qsort(all, count, sizeof(*all), by_caller_and_size);
    holders->groups = count = holders_join(all, count);
    qsort(all, count, sizeof(*all), by_total);
    holders->count = count < MODEL_HOLDERS ? count : MODEL_HOLDERS;
    memcpy(holders->of, all, holders->count * sizeof(*all));
    free(all);
    return true;
}

/* --- moments -----------------------------------------------------------------------------------
 */

static unsigned size_class(uint64_t bytes)
{
    unsigned class = 63u - (unsigned)__builtin_clzll(bytes);
    return class < MODEL_SIZES ? class : MODEL_SIZES - 1;
}

static bool moment_take(struct pass *pass, enum moment_why why, uint64_t time_ns, uint64_t position)
{
    struct state *state = &pass->state;
    if (!state_sort(state))
        return fail(pass->model, state->failure);
    struct map_moment moment = {.why = why,
                                .time_ns = time_ns,
                                .position = position,
                                .live_bytes = state->live_bytes,
                                .blocks_bytes = state->blocks_bytes,
                                .held_bytes = state->held_bytes,
                                .footprint_bytes = pass->footprint_bytes,
                                .live_count = state->live_count,
                                .free = state_free(state)};
    pass->changed = false;
    return map_take(&pass->model->map, state, &moment) || no_memory(pass->model);
}

static bool peak_take(struct pass *pass, uint64_t time_ns, uint64_t position)
{
    struct model *model = pass->model;
    for (uint32_t i = 0; i < pass->state.block_count; i++) {
        const struct block *block = &pass->state.block[i];
        if (block->dead)
            continue;
        model->caller[block->caller].peak_bytes += block->bytes;
        model->size[size_class(block->bytes)].at_peak++;
    }
    return holders_take(pass, &model->peak_holders) &&
           moment_take(pass, MOMENT_PEAK, time_ns, position);
}

static bool failure_take(struct pass *pass, const struct event *event, uint64_t number,
                         uint64_t position)
{
    struct model *model = pass->model;
    struct state *state = &pass->state;
    if (number >= MODEL_FAILURES)
        return true;
    if (!moment_take(pass, MOMENT_OUT_OF_MEMORY, event->time_ns, position))
        return false;
    model->failure[number] =
        (struct failure){.time_ns = event->time_ns,
                         .position = position,
                         .bytes = event->bytes,
                         .live_bytes = state->live_bytes,
                         .blocks_bytes = state->blocks_bytes,
                         .held_bytes = state->held_bytes,
                         .footprint_bytes = pass->footprint_bytes,
                         .card_bytes = source_info(model->source)->device[event->device].bytes,
                         .free = state_free(state),
                         .thread = event->thread,
                         .device = event->device};
    return true;
}

/* The call that failed tells who made it: the latest failure of its thread. */
static void failure_caller(struct model *model, const struct event *event, uint64_t failures)
{
    uint64_t i = failures < MODEL_FAILURES ? failures : MODEL_FAILURES;
    while (i-- > 0) {
        if (model->failure[i].thread != event->thread)
            continue;
        if (model->failure[i].caller == 0)
            model->failure[i].caller = event->caller;
        return;
    }
}

/* --- buckets -----------------------------------------------------------------------------------
 */

static void bucket_note(struct bucket *bucket, const struct pass *pass)
{
    const struct state *state = &pass->state;
    const uint64_t live = state->live_bytes, blocks = state->blocks_bytes;
    const uint64_t held = state->held_bytes, footprint = pass->footprint_bytes;
#define X(name)                                                                                    \
    bucket->name##_max = name > bucket->name##_max ? name : bucket->name##_max;                    \
    bucket->name##_min = name < bucket->name##_min ? name : bucket->name##_min;
    MODEL_CURVES(X)
#undef X
}

static void bucket_open(struct pass *pass)
{
    struct bucket *bucket = &pass->model->bucket[pass->bucket];
    *bucket = (struct bucket){0};
#define X(name) bucket->name##_min = UINT64_MAX;
    MODEL_CURVES(X)
#undef X
    bucket_note(bucket, pass);
}

static uint64_t bucket_end(const struct model *model, size_t bucket)
{
    return (uint64_t)((double)model->end_position * (double)(bucket + 1) / MODEL_BUCKETS);
}

static bool bucket_close(struct pass *pass, uint64_t time_ns)
{
    struct model *model = pass->model;
    struct bucket *bucket = &model->bucket[pass->bucket];
    bool moment = pass->changed && (pass->bucket + 1) % MOMENT_BUCKETS == 0;
    bucket->position = bucket_end(model, pass->bucket);
    bucket->time_ns = model->by_call ? time_ns : bucket->position;
    if (!state_sort(&pass->state))
        return fail(model, pass->state.failure);
    bucket->free = state_free(&pass->state);
    return !moment || moment_take(pass, MOMENT_REGULAR, bucket->time_ns, bucket->position);
}

/* Closes the buckets that end before a position. */
static bool buckets_until(struct pass *pass, uint64_t position, uint64_t time_ns)
{
    while (pass->bucket < MODEL_BUCKETS - 1 && position > bucket_end(pass->model, pass->bucket)) {
        if (!bucket_close(pass, time_ns))
            return false;
        pass->bucket++;
        bucket_open(pass);
    }
    return true;
}

/* --- the second pass ---------------------------------------------------------------------------
 */

static void item_end(void *context, int32_t item, bool of_segment)
{
    struct pass *pass = context;
    map_item_end(&pass->model->map, item, of_segment);
}

static void card_give(void *context, const struct block *block)
{
    struct pass *pass = context;
    struct card *card = pass->card[block->device];
    pass->footprint_bytes -= card_used_bytes(card);
    card_release(card, block->card_address, block->bytes);
    pass->footprint_bytes += card_used_bytes(card);
}

static bool card_take(struct pass *pass, struct block *block)
{
    struct card *card = pass->card[block->device];
    if (card == NULL)
        card = pass->card[block->device] = card_create(UINT64_MAX);
    if (card == NULL)
        return no_memory(pass->model);
    pass->footprint_bytes -= card_used_bytes(card);
    bool taken = card_allocate(card, block->bytes, &block->card_address);
    pass->footprint_bytes += card_used_bytes(card);
    return taken || no_memory(pass->model);
}

static bool block_count(struct pass *pass, struct block *block)
{
    struct model *model = pass->model;
    struct bucket *bucket = &model->bucket[pass->bucket];
    struct caller_figures *caller = &model->caller[block->caller];
    struct size_figures *size = &model->size[size_class(block->bytes)];
    caller->calls++;
    caller->bytes += block->bytes;
    size->allocs++;
    size->bytes += block->bytes;
    bucket->allocs++;
    return card_take(pass, block);
}

static bool event_follow(struct pass *pass, const struct event *event, uint64_t *failures)
{
    struct model *model = pass->model;
    uint64_t position = model->by_call ? pass->number : event->time_ns;
    if (!buckets_until(pass, position, event->time_ns))
        return false;
    struct block *block = state_apply(&pass->state, event);
    if (pass->state.failure != NULL)
        return fail(model, pass->state.failure);
    if (block != NULL && !block_count(pass, block))
        return false;
    struct bucket *bucket = &model->bucket[pass->bucket];
    bucket->frees += event->kind == EVENT_FREE;
    bucket_note(bucket, pass);
    pass->changed |= event->kind <= EVENT_CONTEXT_END;
    if (pass->state.blocks_bytes > model->peak_blocks_bytes)
        model->peak_blocks_bytes = pass->state.blocks_bytes;
    if (pass->footprint_bytes > model->peak_footprint_bytes) {
        model->peak_footprint_bytes = pass->footprint_bytes;
        model->peak_footprint_ns = event->time_ns;
    }
    if (event->kind == EVENT_FAILED)
        failure_caller(model, event, *failures);
    if (event->kind == EVENT_OUT_OF_MEMORY && !failure_take(pass, event, (*failures)++, position))
        return false;
    return pass->number != model->peak_event || model->peak_live_bytes == 0 ||
           peak_take(pass, event->time_ns, position);
}

/* Where nobody said what was held: the ranges that blocks touch stand for segments. */
static bool ranges_hold(struct pass *pass)
{
    struct model *model = pass->model;
    for (size_t i = 0; model->by_address && i < model->range_count; i++) {
        uint64_t bytes = model->range[i].high - model->range[i].low;
        struct event event = {.kind = EVENT_GROW, .address = model->range[i].low, .bytes = bytes};
        state_apply(&pass->state, &event);
    }
    return pass->state.failure == NULL || fail(model, pass->state.failure);
}

static bool follow_end(struct pass *pass)
{
    struct model *model = pass->model;
    if (!buckets_until(pass, model->end_position, model->end_ns) ||
        !bucket_close(pass, model->end_ns))
        return false;
    for (uint32_t i = 0; i < pass->state.block_count; i++)
        if (!pass->state.block[i].dead)
            model->caller[pass->state.block[i].caller].end_bytes += pass->state.block[i].bytes;
    return holders_take(pass, &model->end_holders) &&
           moment_take(pass, MOMENT_END, model->end_ns, model->end_position);
}

static bool follow(struct pass *pass, struct source *source)
{
    struct model *model = pass->model;
    struct event event;
    uint64_t failures = 0;
    if (!ranges_hold(pass))
        return false;
    bucket_open(pass);
    /* A program that still runs may have written more since the first pass. */
    for (pass->number = 0; pass->number < model->events && source_next(source, &event);
         pass->number++) {
        event.served |= model->by_address;
        if (!event_follow(pass, &event, &failures))
            return false;
    }
    if (source_reason(source) != NULL)
        return fail(model, source_reason(source));
    return follow_end(pass);
}

static uint64_t most_mapped(const struct model *model)
{
    uint64_t bytes = model->peak_held_bytes;
    for (size_t i = 0; model->by_address && i < model->range_count; i++)
        bytes += model->range[i].high - model->range[i].low;
    return bytes;
}

bool model_make(struct model *model, struct source *source, bool by_call)
{
    *model = (struct model){.source = source, .by_call = by_call};
    struct pass pass = {.model = model};
    model->bucket = calloc(MODEL_BUCKETS, sizeof(*model->bucket));
    model->caller = calloc(CALLERS, sizeof(*model->caller));
    model->range = calloc(RANGES_MAX + 1, sizeof(*model->range));
    if (model->bucket == NULL || model->caller == NULL || model->range == NULL)
        return no_memory(model);
    source_rewind(source);
    if (!survey(model, source))
        return false;
    source_rewind(source);
    bool made = (map_create(&model->map, most_mapped(model)) && state_create(&pass.state)) ||
                no_memory(model);
    pass.state.join = source_info(source)->movable && !model->by_address;
    pass.state.item_end = item_end;
    pass.state.block_end = card_give;
    pass.state.context = &pass;
    made = made && follow(&pass, source);
    state_destroy(&pass.state);
    for (size_t i = 0; i < SOURCE_DEVICES; i++)
        if (pass.card[i] != NULL)
            card_destroy(pass.card[i]);
    return made;
}

void model_destroy(struct model *model)
{
    map_destroy(&model->map);
    free(model->bucket);
    free(model->caller);
    free(model->range);
}
