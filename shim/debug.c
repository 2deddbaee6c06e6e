/* debug.c - fills, looks and complains. See debug.h.
 *
 * Who allocated a block that is live stands in its tag. Of those that were freed the latest are
 * kept in a ring, for late writes: memory that is handed out again was part of the one freed last.
 */
#define _GNU_SOURCE
#include "debug.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "driver.h"
#include "log.h"
#include "origins.h"
#include "wait.h"

enum { PIECE_BYTES = 4096, COMPLAINTS_MAX = 20 };
enum { FREED_MAX = 16384, PLACE_BYTES = 512, LATE_BYTES = 600, PLACE_FRAMES = 8 };

/* What memory is filled with, 16 bits at a time from an even address on. The upper
 * twelve bits of FREE_PATTERN make each aligned float of 16, 32 and 64 bits, and each bfloat16, a
 * NaN, and a quiet one. */
enum { GUARD_PATTERN = 0xfdfd, FREE_PATTERN = 0xfffa, ZERO_PATTERN = 0 };

/* A block whose free is put off, until its fence has passed. */
struct put_off {
    struct context *context; /* NULL: the entry is free */
    uint64_t fence;
    struct pool_block block;
};

static struct put_off put_off[DEBUG_PUT_OFF_MAX];
static uint32_t put_off_end; /* entries from here on are free */
static pthread_mutex_t put_off_lock = PTHREAD_MUTEX_INITIALIZER;

/* Some free memory is not as free_fill() leaves it: what is found there means nothing. */
static bool unfilled;

/* The latest frees. Lock: freed_lock, a leaf. */
static struct freed_block {
    uint64_t address, block_bytes, requested_bytes;
    uint32_t origin;
} freed[FREED_MAX];
static uint64_t freed_count;
static pthread_mutex_t freed_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned char pattern_byte(uint16_t pattern, uint64_t offset)
{
    return (unsigned char)(pattern >> (8 * (offset & 1)));
}

static bool driver_can(void)
{
    return real_cuStreamCreate != NULL && real_cuMemsetD8Async != NULL &&
           real_cuMemsetD16Async != NULL && real_cuMemcpyDtoHAsync_v2 != NULL &&
           real_cuStreamSynchronize != NULL;
}

/* The context's own stream; NULL: it cannot be had. */
static CUstream stream_of(struct context *context)
{
    CUstream stream = __atomic_load_n(&context->debug_stream, __ATOMIC_ACQUIRE), none = NULL;
    if (stream != NULL || !driver_can() ||
        real_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return stream;
    if (__atomic_compare_exchange_n(&context->debug_stream, &none, stream, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return stream;
    return none; /* another thread's; the one made here ends with the context */
}

/* A single byte at an end that is odd. */
static bool fill_byte(CUdeviceptr address, uint16_t pattern, CUstream stream)
{
    return real_cuMemsetD8Async(address, pattern_byte(pattern, address), 1, stream) == CUDA_SUCCESS;
}

static bool fill(struct context *context, uint64_t address, uint64_t bytes, uint16_t pattern)
{
    CUstream stream = bytes > 0 ? stream_of(context) : NULL;
    if (stream == NULL)
        return false;
    uint64_t from = address + (address & 1), to = (address + bytes) & ~(uint64_t)1;
    bool filled =
        from >= to || real_cuMemsetD16Async(from, pattern, (to - from) / 2, stream) == CUDA_SUCCESS;
    if (from != address)
        filled = fill_byte(address, pattern, stream) && filled;
    if (to != address + bytes && to >= from)
        filled = fill_byte(to, pattern, stream) && filled;
    return real_cuStreamSynchronize(stream) == CUDA_SUCCESS && filled;
}

static bool read_back(struct context *context, unsigned char *to, uint64_t address, uint64_t bytes)
{
    CUstream stream = stream_of(context);
    return stream != NULL &&
           real_cuMemcpyDtoHAsync_v2(to, address, bytes, stream) == CUDA_SUCCESS &&
           real_cuStreamSynchronize(stream) == CUDA_SUCCESS;
}

static void unfilled_note(const char *why)
{
    __atomic_store_n(&unfilled, true, __ATOMIC_RELAXED);
    log_once("VRAMALLOC_DEBUG=fill: %s; writes after frees are not looked for any more", why);
}

/* Free memory. */
static void free_fill(struct context *context, uint64_t address, uint64_t bytes)
{
    if (!fill(context, address, bytes, FREE_PATTERN))
        unfilled_note("the driver did not fill a range of free memory");
}

/* What differs from a pattern in a range: how many bytes, and the first and last of them. */
struct difference {
    uint64_t count, first, last; /* first, last: offsets in the range */
    unsigned char value;         /* of the first */
};

static void difference_add(struct difference *found, const unsigned char *piece, uint64_t bytes,
                           uint64_t offset, uint16_t pattern)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (piece[i] == pattern_byte(pattern, offset + i))
            continue;
        if (found->count++ == 0) {
            found->first = offset + i;
            found->value = piece[i];
        }
        found->last = offset + i;
    }
}

static void compare(struct context *context, uint64_t address, uint64_t from, uint64_t to,
                    uint16_t pattern, struct difference *found)
{
    unsigned char piece[PIECE_BYTES];
    for (uint64_t at = from; at < to; at += PIECE_BYTES) {
        uint64_t bytes = to - at < PIECE_BYTES ? to - at : PIECE_BYTES;
        if (!read_back(context, piece, address + at, bytes))
            return;
        difference_add(found, piece, bytes, at, pattern);
    }
}

static bool may_complain(void)
{
    static uint32_t complaints;
    uint32_t before = __atomic_fetch_add(&complaints, 1, __ATOMIC_RELAXED);
    if (before == COMPLAINTS_MAX)
        log_line("VRAMALLOC_DEBUG: more is counted in the report, but not said");
    return before < COMPLAINTS_MAX;
}

static void freed_note(const struct pool_block *block)
{
    pthread_mutex_lock(&freed_lock);
    freed[freed_count++ % FREED_MAX] = (struct freed_block){
        block->address, block->block_bytes, block->requested_bytes, origin_of_tag(block->tag)};
    pthread_mutex_unlock(&freed_lock);
}

/* The block that an address was last part of. False: it is not known any more. */
static bool freed_find(uint64_t address, struct freed_block *found)
{
    bool known = false;
    pthread_mutex_lock(&freed_lock);
    uint64_t oldest = freed_count > FREED_MAX ? freed_count - FREED_MAX : 0;
    for (uint64_t i = freed_count; i > oldest && !known; i--) {
        *found = freed[(i - 1) % FREED_MAX];
        known = address - found->address < found->block_bytes;
    }
    pthread_mutex_unlock(&freed_lock);
    return known;
}

/* "; allocated at: ..." into text; empty where that is not known. */
static const char *place_of(uint32_t origin, char *text)
{
    static const char start[] = "; allocated at: ";
    memcpy(text, start, sizeof(start));
    size_t used = sizeof(start) - 1;
    if (origin_describe(origin, text + used, PLACE_BYTES - used, PLACE_FRAMES)[0] == '\0')
        text[0] = '\0';
    return text;
}

static void guard_check(struct context *context, const struct pool_block *block)
{
    char place[PLACE_BYTES];
    struct difference found = {0};
    compare(context, block->address, block->requested_bytes, block->block_bytes, GUARD_PATTERN,
            &found);
    if (found.count == 0)
        return;
    DEVICE_COUNT(context->device, debug_overruns, 1);
    if (may_complain())
        log_line(
            "VRAMALLOC_DEBUG=guard: %llu bytes past the end of a block of %llu bytes at 0x%llx "
            "(GPU %d) were written, from %llu to %llu bytes beyond it; the first is 0x%02x%s",
            (unsigned long long)found.count, (unsigned long long)block->requested_bytes,
            (unsigned long long)block->address, context->device->handle,
            (unsigned long long)(found.first - block->requested_bytes),
            (unsigned long long)(found.last - block->requested_bytes), found.value,
            place_of(origin_of_tag(block->tag), place));
}

/* ". It was a block of 100 bytes; allocated at: ..." into text. */
static const char *late_place(uint64_t address, char *text)
{
    char place[PLACE_BYTES];
    struct freed_block block;
    text[0] = '\0';
    if (freed_find(address, &block))
        snprintf(text, LATE_BYTES, ". It was part of a block of %llu bytes%s",
                 (unsigned long long)block.requested_bytes, place_of(block.origin, place));
    return text;
}

static void free_check(struct context *context, const struct pool_block *block)
{
    char place[LATE_BYTES];
    unsigned long long first;
    if (__atomic_load_n(&unfilled, __ATOMIC_RELAXED))
        return;
    struct difference found = {0};
    uint64_t bytes = block->block_bytes;
    uint64_t head = bytes < DEBUG_LOOK_BYTES ? bytes : DEBUG_LOOK_BYTES;
    uint64_t tail = bytes - head < DEBUG_LOOK_BYTES ? bytes - head : DEBUG_LOOK_BYTES;
    compare(context, block->address, 0, head, FREE_PATTERN, &found);
    compare(context, block->address, bytes - tail, bytes, FREE_PATTERN, &found);
    if (found.count == 0)
        return;
    DEVICE_COUNT(context->device, debug_late_writes, 1);
    first = block->address + found.first;
    if (may_complain())
        log_line("VRAMALLOC_DEBUG=fill: %llu bytes of free memory at 0x%llx (GPU %d) were written "
                 "after their free; the first is 0x%02x. The memory is now part of a block of "
                 "%llu bytes at 0x%llx%s",
                 (unsigned long long)found.count, first, context->device->handle, found.value,
                 (unsigned long long)block->requested_bytes, (unsigned long long)block->address,
                 late_place(first, place));
}

void debug_segment(struct context *context, uint64_t address, uint64_t bytes)
{
    CUstreamCaptureMode mode;
    if (!debug_has(DEBUG_FILL))
        return;
    capture_relax(&mode);
    free_fill(context, address, bytes);
    capture_restore(&mode);
}

void debug_allocated(struct context *context, uint64_t address)
{
    struct pool_block block;
    CUstreamCaptureMode mode;
    if (pool_find(address, &block) != POOL_OK)
        return;
    capture_relax(&mode);
    if (debug_has(DEBUG_FILL))
        free_check(context, &block);
    if (debug_has(DEBUG_ZERO))
        fill(context, address, block.requested_bytes, ZERO_PATTERN);
    if (debug_has(DEBUG_GUARD))
        fill(context, address + block.requested_bytes, block.block_bytes - block.requested_bytes,
             GUARD_PATTERN);
    capture_restore(&mode);
}

void debug_freeing(struct context *owner, CUcontext current, const struct pool_block *block)
{
    CUstreamCaptureMode mode;
    if (!debug_frees_wait())
        return;
    bool entered = wait_enter(owner->handle, current);
    if (!entered && current != owner->handle) {
        unfilled_note("a context could not be made current for a free");
        return;
    }
    capture_relax(&mode);
    if (debug_has(DEBUG_GUARD))
        guard_check(owner, block);
    if (debug_has(DEBUG_FILL))
        free_fill(owner, block->address, block->block_bytes);
    freed_note(block);
    capture_restore(&mode);
    wait_leave(entered);
}

/* --- frees that are put off --------------------------------------------------------------- */

void debug_put_off(struct context *context, const struct pool_block *block, uint64_t fence)
{
    uint32_t entry = 0;
    if (!debug_frees_wait())
        return;
    pthread_mutex_lock(&put_off_lock);
    while (entry < put_off_end && put_off[entry].context != NULL)
        entry++;
    bool room = entry < DEBUG_PUT_OFF_MAX;
    if (room) {
        put_off[entry] = (struct put_off){context, fence, *block};
        put_off_end = entry == put_off_end ? entry + 1 : put_off_end;
    }
    pthread_mutex_unlock(&put_off_lock);
    if (!room)
        unfilled_note("too many frees wait for the end of a capture");
}

/* Takes the block of a fence out. False: there is none. */
static bool put_off_take(const struct context *context, uint64_t fence,
                         struct pool_block *block_out)
{
    bool found = false;
    pthread_mutex_lock(&put_off_lock);
    for (uint32_t i = 0; i < put_off_end && !found; i++) {
        found = put_off[i].context == context && put_off[i].fence == fence;
        if (found) {
            *block_out = put_off[i].block;
            put_off[i].context = NULL;
        }
    }
    while (put_off_end > 0 && put_off[put_off_end - 1].context == NULL)
        put_off_end--;
    pthread_mutex_unlock(&put_off_lock);
    return found;
}

void debug_put_off_passed(struct context *context, uint64_t fence)
{
    CUcontext current = NULL;
    struct pool_block block;
    if (!debug_frees_wait() || !put_off_take(context, fence, &block))
        return;
    real_cuCtxGetCurrent(&current);
    debug_freeing(context, current, &block);
}

void debug_put_off_forget(const struct context *context, uint64_t fence)
{
    struct pool_block block;
    if (debug_frees_wait())
        put_off_take(context, fence, &block);
}
