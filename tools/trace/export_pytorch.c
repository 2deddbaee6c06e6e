/* export_pytorch.c - the pickle that torch.cuda.memory._dump_snapshot() writes, for its viewer.
 *
 *     {"segments": [...], "device_traces": [[...], ...], "allocator_settings": {...},
 *      "external_annotations": []}
 *
 * A segment is what the pool holds from the driver, at the end of the trace, with its blocks and
 * the gaps between them; a block of the driver's own is a segment by itself. device_traces has a
 * list a GPU, of entries action, addr, size, stream, time_us, frames: segment_alloc, segment_free
 * (with vmm segment_map, segment_unmap), alloc, free_requested, free_completed, oom. A frame is the
 * module that called, and the offset in it.
 *
 * The pickle is of protocol 2 and of few opcodes, since the viewer reads no others; words that
 * repeat are remembered. Written in one walk of the trace a GPU.
 *
 * What it leaves out: rounding inside blocks beyond the 512 bytes that are known; pending frees.
 */
#include "trace_tool.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES = 64, WORDS_MAX = 200, WORD_BYTES = 40 };

/* A piece of memory from the driver. */
struct range {
    uint64_t address, bytes;
    uint16_t context;
};

struct pickle {
    FILE *to;
    const struct reader *reader;
    struct lives *lives;
    uint32_t device; /* whose entries are written now */
    bool quiet;      /* nothing is written: only the ranges are followed */
    bool parts;      /* VRAMALLOC_BACKING=vmm */
    bool ok;
    struct range *ranges; /* of the device, by address */
    size_t range_count, range_capacity;
    char words[WORDS_MAX][WORD_BYTES];
    int word_count;
};

/* --- opcodes ----------------------------------------------------------------------------- */

static void little(FILE *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> 8 * i & 0xff), to);
}

static void put_text(struct pickle *pickle, const char *text)
{
    size_t length = strlen(text);
    fputc('X', pickle->to);
    little(pickle->to, length, 4);
    for (size_t i = 0; i < length; i++) /* only what is the same in every encoding */
        fputc((unsigned char)text[i] < 128 ? text[i] : '?', pickle->to);
}

/* A word of the few that make up the form: written once, then by number. */
static void put_word(struct pickle *pickle, const char *word)
{
    for (int i = 0; i < pickle->word_count; i++) {
        if (strcmp(pickle->words[i], word) == 0) {
            fputc('h', pickle->to);
            fputc(i, pickle->to);
            return;
        }
    }
    put_text(pickle, word);
    if (pickle->word_count == WORDS_MAX)
        return;
    snprintf(pickle->words[pickle->word_count], WORD_BYTES, "%s", word);
    fputc('q', pickle->to);
    fputc(pickle->word_count++, pickle->to);
}

static void put_number(struct pickle *pickle, uint64_t value)
{
    if (value < 256) {
        fputc('K', pickle->to);
        little(pickle->to, value, 1);
    } else if (value < 65536) {
        fputc('M', pickle->to);
        little(pickle->to, value, 2);
    } else if (value < (uint64_t)1 << 31) {
        fputc('J', pickle->to);
        little(pickle->to, value, 4);
    } else {
        value &= INT64_MAX;
        fputc(0x8a, pickle->to);
        fputc(8, pickle->to);
        little(pickle->to, value, 8);
    }
}

static void put(struct pickle *pickle, const char *opcodes)
{
    fputs(opcodes, pickle->to);
}

static void key_number(struct pickle *pickle, const char *key, uint64_t value)
{
    put_word(pickle, key);
    put_number(pickle, value);
}

static void key_word(struct pickle *pickle, const char *key, const char *word)
{
    put_word(pickle, key);
    put_word(pickle, word);
}

static void key_bool(struct pickle *pickle, const char *key, bool value)
{
    put_word(pickle, key);
    fputc(value ? 0x88 : 0x89, pickle->to);
}

/* "frames": the caller, if it is known. */
static void put_frames(struct pickle *pickle, uint16_t caller)
{
    const struct reader_item *item =
        caller != 0 ? reader_item(pickle->reader, TRACE_ITEM_CALLER, caller) : NULL;
    const struct reader_item *module =
        item != NULL ? reader_item(pickle->reader, TRACE_ITEM_MODULE, item->other) : NULL;
    char offset[32];
    put_word(pickle, "frames");
    put(pickle, "]");
    if (module == NULL)
        return;
    const char *slash = strrchr(module->text, '/');
    snprintf(offset, sizeof(offset), "+0x%llx", (unsigned long long)item->value);
    put(pickle, "(}(");
    put_word(pickle, "filename");
    put_text(pickle, slash != NULL ? slash + 1 : module->text);
    key_number(pickle, "line", 0);
    put_word(pickle, "name");
    put_text(pickle, offset);
    put(pickle, "ue");
}

/* --- entries of device_traces ------------------------------------------------------------ */

static void entry_write(struct pickle *pickle, const char *action, const struct reader_event *event,
                        const struct range *what, uint64_t stream, uint16_t caller)
{
    if (pickle->quiet)
        return;
    bool oom = strcmp(action, "oom") == 0;
    put(pickle, "}(");
    key_word(pickle, "action", action);
    if (oom) /* how much was free is not in the trace */
        key_number(pickle, "device_free", 0);
    else
        key_number(pickle, "addr", what->address);
    key_number(pickle, "size", what->bytes);
    key_number(pickle, "stream", stream);
    key_number(pickle, "time_us", event->time_ns / 1000);
    put_frames(pickle, caller);
    put(pickle, "u");
}

static uint64_t round_up(uint64_t bytes)
{
    return bytes > UINT64_MAX - 511 ? bytes : (bytes + 511) / 512 * 512;
}

/* --- ranges ------------------------------------------------------------------------------ */

/* The first range that ends behind the address. */
static size_t range_find(const struct pickle *pickle, uint64_t address)
{
    size_t low = 0, high = pickle->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct range *range = &pickle->ranges[middle];
        if (range->address + range->bytes > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void range_insert(struct pickle *pickle, size_t at, struct range range)
{
    if (pickle->range_count == pickle->range_capacity) {
        size_t capacity = pickle->range_capacity != 0 ? pickle->range_capacity * 2 : 64;
        struct range *grown = realloc(pickle->ranges, capacity * sizeof(*grown));
        if (grown == NULL) {
            pickle->ok = false;
            return;
        }
        pickle->ranges = grown;
        pickle->range_capacity = capacity;
    }
    memmove(&pickle->ranges[at + 1], &pickle->ranges[at],
            (pickle->range_count - at) * sizeof(pickle->ranges[0]));
    pickle->ranges[at] = range;
    pickle->range_count++;
}

static void range_delete(struct pickle *pickle, size_t at)
{
    pickle->range_count--;
    memmove(&pickle->ranges[at], &pickle->ranges[at + 1],
            (pickle->range_count - at) * sizeof(pickle->ranges[0]));
}

/* What does not fit in is left out: no trace of ours has it. */
static bool range_add(struct pickle *pickle, struct range range)
{
    size_t at = range_find(pickle, range.address);
    if (range.bytes == 0 || range.address > UINT64_MAX - range.bytes ||
        (at < pickle->range_count && pickle->ranges[at].address < range.address + range.bytes))
        return false;
    range_insert(pickle, at, range);
    return pickle->ok;
}

/* Takes a piece out of the range that holds it. */
static bool range_cut(struct pickle *pickle, uint64_t address, uint64_t bytes)
{
    size_t at = range_find(pickle, address);
    if (at == pickle->range_count || bytes == 0)
        return false;
    struct range range = pickle->ranges[at];
    if (address < range.address || bytes > range.address + range.bytes - address)
        return false;
    struct range before = {range.address, address - range.address, range.context};
    struct range behind = {address + bytes, range.address + range.bytes - (address + bytes),
                           range.context};
    range_delete(pickle, at);
    if (behind.bytes > 0)
        range_insert(pickle, at, behind);
    if (before.bytes > 0)
        range_insert(pickle, at, before);
    return pickle->ok;
}

static void context_ranges_end(struct pickle *pickle, const struct reader_event *event)
{
    for (size_t i = 0; i < pickle->range_count;) {
        struct range range = pickle->ranges[i];
        if (range.context == event->context) {
            entry_write(pickle, pickle->parts ? "segment_unmap" : "segment_free", event, &range, 0,
                        0);
            range_delete(pickle, i);
        } else {
            i++;
        }
    }
}

/* --- one walk ---------------------------------------------------------------------------- */

static void life_change(void *arg, const struct reader_event *event, const struct life *life,
                        bool is_free, bool implied)
{
    struct pickle *pickle = arg;
    struct range block = {life->address, life->bytes, life->context};
    struct range segment = {life->address, round_up(life->bytes), life->context};
    uint16_t caller = implied ? 0 : event->caller;
    if (life->device != pickle->device)
        return;
    if (!is_free) {
        if (!life->served && range_add(pickle, segment))
            entry_write(pickle, "segment_alloc", event, &segment, 0, caller);
        entry_write(pickle, "alloc", event, &block, life->stream, caller);
        return;
    }
    entry_write(pickle, "free_requested", event, &block, life->stream, caller);
    entry_write(pickle, "free_completed", event, &block, life->stream, caller);
    if (!life->served && range_cut(pickle, segment.address, segment.bytes))
        entry_write(pickle, "segment_free", event, &segment, 0, caller);
}

static void pool_change(struct pickle *pickle, const struct reader_event *event)
{
    struct range range = {event->address, event->bytes, event->context};
    if (lives_device(pickle->lives, event->context) != pickle->device)
        return;
    if (event->kind == TRACE_GROW && event->result == 0 && range_add(pickle, range))
        entry_write(pickle, pickle->parts ? "segment_map" : "segment_alloc", event, &range, 0, 0);
    if (event->kind == TRACE_SHRINK && event->result == 0 &&
        range_cut(pickle, range.address, range.bytes))
        entry_write(pickle, pickle->parts ? "segment_unmap" : "segment_free", event, &range, 0, 0);
    if (event->kind == TRACE_OUT_OF_MEMORY)
        entry_write(pickle, "oom", event, &range, 0, 0);
    if (event->kind == TRACE_CONTEXT_END)
        context_ranges_end(pickle, event);
}

/* Follows the whole trace for one device. Its ranges and lives stay as they are at the end. */
static enum tool_status walk(struct pickle *pickle, struct reader *reader, uint32_t device)
{
    struct reader_event event;
    enum reader_status status;
    if (pickle->lives != NULL)
        lives_destroy(pickle->lives);
    pickle->lives = lives_create();
    pickle->device = device;
    pickle->range_count = 0;
    if (pickle->lives == NULL)
        return TOOL_NO_MEMORY;
    reader_rewind(reader);
    while ((status = reader_next(reader, &event)) == READER_EVENT) {
        /* the device of a context that ends is known until its number serves another */
        if (!lives_feed(pickle->lives, &event, life_change, pickle))
            return TOOL_NO_MEMORY;
        pool_change(pickle, &event);
        if (!pickle->ok)
            return TOOL_NO_MEMORY;
    }
    return status == READER_END ? TOOL_OK : TOOL_DAMAGED;
}

/* --- segments ---------------------------------------------------------------------------- */

struct block_list {
    struct life *lives;
    size_t count, capacity;
    uint32_t device;
};

static void block_collect(void *arg, const struct reader_event *event, const struct life *life,
                          bool is_free, bool implied)
{
    struct block_list *list = arg;
    (void)event, (void)is_free, (void)implied;
    if (life->device == list->device && list->count < list->capacity)
        list->lives[list->count++] = *life;
}

static int block_compare(const void *left, const void *right)
{
    const struct life *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void block_write(struct pickle *pickle, uint64_t address, uint64_t bytes,
                        const struct life *life)
{
    put(pickle, "}(");
    key_number(pickle, "address", address);
    key_number(pickle, "size", bytes);
    key_number(pickle, "requested_size", life != NULL ? life->bytes : 0);
    key_word(pickle, "state", life != NULL ? "active_allocated" : "inactive");
    put_frames(pickle, life != NULL ? life->caller : 0);
    put(pickle, "u");
}

/* The range's blocks, from list->lives[*next] on, and the gaps. Returns the bytes in blocks. */
static uint64_t blocks_write(struct pickle *pickle, const struct range *range,
                             const struct block_list *list, size_t *next, uint64_t *asked_out)
{
    uint64_t at = range->address, end = range->address + range->bytes, used = 0;
    *asked_out = 0;
    while (*next < list->count && list->lives[*next].address < at)
        ++*next;
    for (; *next < list->count && list->lives[*next].address < end; ++*next) {
        const struct life *life = &list->lives[*next];
        uint64_t bytes = round_up(life->bytes);
        if (life->address < at || bytes > end - life->address)
            continue;
        if (life->address > at)
            block_write(pickle, at, life->address - at, NULL);
        block_write(pickle, life->address, bytes, life);
        at = life->address + bytes;
        used += bytes;
        *asked_out += life->bytes;
    }
    if (at < end)
        block_write(pickle, at, end - at, NULL);
    return used;
}

static void segment_write(struct pickle *pickle, const struct range *range,
                          const struct block_list *list, size_t *next)
{
    uint64_t asked;
    put(pickle, "}(");
    key_number(pickle, "device", pickle->device);
    key_number(pickle, "address", range->address);
    key_number(pickle, "total_size", range->bytes);
    key_number(pickle, "stream", 0);
    key_word(pickle, "segment_type", range->bytes > (2 << 20) ? "large" : "small");
    key_bool(pickle, "is_expandable", pickle->parts);
    put_word(pickle, "segment_pool_id");
    put_number(pickle, 0);
    put_number(pickle, 0);
    fputc(0x86, pickle->to); /* the two as a pair */
    put_frames(pickle, 0);
    put_word(pickle, "blocks");
    put(pickle, "](");
    uint64_t used = blocks_write(pickle, range, list, next, &asked);
    put(pickle, "e");
    key_number(pickle, "allocated_size", used);
    key_number(pickle, "active_size", used);
    key_number(pickle, "requested_size", asked);
    put(pickle, "u");
}

/* Ranges side by side are one segment where memory comes in parts. */
static void ranges_merge(struct pickle *pickle)
{
    for (size_t i = 1; pickle->parts && i < pickle->range_count;) {
        struct range *before = &pickle->ranges[i - 1], *range = &pickle->ranges[i];
        if (before->address + before->bytes == range->address &&
            before->context == range->context) {
            before->bytes += range->bytes;
            range_delete(pickle, i);
        } else {
            i++;
        }
    }
}

static enum tool_status segments_write(struct pickle *pickle)
{
    struct block_list list = {.capacity = (size_t)lives_count(pickle->lives),
                              .device = pickle->device};
    size_t next = 0;
    list.lives = calloc(list.capacity + 1, sizeof(*list.lives));
    if (list.lives == NULL)
        return TOOL_NO_MEMORY;
    lives_visit(pickle->lives, block_collect, &list);
    qsort(list.lives, list.count, sizeof(list.lives[0]), block_compare);
    ranges_merge(pickle);
    for (size_t i = 0; i < pickle->range_count; i++)
        segment_write(pickle, &pickle->ranges[i], &list, &next);
    free(list.lives);
    return TOOL_OK;
}

/* --- the document ------------------------------------------------------------------------ */

static void settings_write(struct pickle *pickle)
{
    const struct reader_info *info = reader_info(pickle->reader);
    put_word(pickle, "allocator_settings");
    put(pickle, "}(");
    for (size_t i = 0; i < info->item_count; i++) {
        const struct reader_item *item = &info->items[i];
        const char *equals = strchr(item->text, '=');
        char name[WORD_BYTES];
        if (item->type != TRACE_ITEM_SETTING || equals == NULL)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(equals - item->text), item->text);
        put_text(pickle, name);
        put_text(pickle, equals + 1);
    }
    put(pickle, "u");
}

/* How many devices the trace tells of, at least one. */
static enum tool_status devices_count(struct reader *reader, uint32_t *count_out, bool *parts_out)
{
    struct reader_event event;
    enum reader_status status;
    const struct reader_info *info = reader_info(reader);
    *count_out = 1;
    *parts_out = false;
    for (size_t i = 0; i < info->item_count; i++)
        *parts_out |= strcmp(info->items[i].text, "VRAMALLOC_BACKING=vmm") == 0;
    while ((status = reader_next(reader, &event)) == READER_EVENT)
        if (event.kind == TRACE_CONTEXT_BEGIN && event.bytes < DEVICES && event.bytes >= *count_out)
            *count_out = (uint32_t)event.bytes + 1;
    return status == READER_END ? TOOL_OK : TOOL_DAMAGED;
}

static enum tool_status document_write(struct pickle *pickle, struct reader *reader,
                                       uint32_t devices)
{
    enum tool_status status = TOOL_OK;
    fputc(0x80, pickle->to);
    fputc(2, pickle->to);
    put(pickle, "}(");
    put_word(pickle, "device_traces");
    put(pickle, "](");
    for (uint32_t device = 0; device < devices && status == TOOL_OK; device++) {
        put(pickle, "](");
        status = walk(pickle, reader, device);
        put(pickle, "e");
    }
    put(pickle, "e");
    put_word(pickle, "segments");
    put(pickle, "](");
    pickle->quiet = true;
    for (uint32_t device = 0; device < devices && status == TOOL_OK; device++) {
        if (devices > 1) /* else the walk above has left all as it is at the end */
            status = walk(pickle, reader, device);
        if (status == TOOL_OK)
            status = segments_write(pickle);
    }
    put(pickle, "e");
    settings_write(pickle);
    put_word(pickle, "external_annotations");
    put(pickle, "]u.");
    return status;
}

enum tool_status export_pytorch(struct reader *reader, FILE *to)
{
    uint32_t devices;
    struct pickle *pickle = calloc(1, sizeof(*pickle));
    if (pickle == NULL)
        return TOOL_NO_MEMORY;
    pickle->to = to;
    pickle->reader = reader;
    pickle->ok = true;
    enum tool_status status = devices_count(reader, &devices, &pickle->parts);
    if (status == TOOL_OK)
        status = document_write(pickle, reader, devices);
    if (pickle->lives != NULL)
        lives_destroy(pickle->lives);
    free(pickle->ranges);
    free(pickle);
    return status;
}
