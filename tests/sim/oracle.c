/* oracle.c - hazards: work that touches memory whose owner changed, without an order between.
 *
 * A program says when a block begins and ends (vrsim_note_*). Every beginning is a new generation
 * of its addresses. Each access of the GPU is remembered with the generation it met. A hazard is
 *   - a block that begins on memory where another still lives;
 *   - memory given back to the card while a block lives in it (not when its context ends);
 *   - an access, submitted after the end of the block, to memory that nobody owns now;
 *   - an access to a generation while an access to an earlier generation of the same bytes is not
 *     ordered before it (vector clocks of work.c);
 *   - an access by a device to memory by handle that it was not let at.
 * Accesses that the host has seen finished cannot become hazards and are forgotten.
 *
 * What it leaves out: races inside one generation (the program's own), memory never announced, and
 * the time between a stream-ordered allocation and its place in the stream.
 *
 * Source: happens-before race detection with vector clocks (Lamport 1978, Mattern 1989).
 *
 * Lock: sim.lock, taken by the vrsim_note_* functions.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory of one generation, in order of address, none overlapping. */
struct owned {
    uint64_t address;
    uint64_t bytes;
    uint64_t generation;
    bool alive;
    bool gone; /* the memory is, or its context: a free that failed does not bring it back */
    const struct context *context; /* that was current when the block began; NULL: none */
    uint64_t begin, size;          /* of the whole block, of which this may be what is left */
    uint64_t ended_on;             /* identity of the stream that it was freed on; 0: by cudaFree */
};

struct access {
    uint64_t address;
    uint64_t bytes;
    uint64_t generation;
    uint32_t slot;
    uint64_t seq;
    uint64_t stream; /* its identity */
    const char *what;
};

static struct owned *owned;
static size_t owned_count, owned_room;
static struct access *accesses;
static size_t access_count, access_room, access_prune_at = 64;
static uint64_t generations, hazards;

/* Says what and where; the caller's next lines say who. */
static void hazard(const char *what, uint64_t address, uint64_t bytes)
{
    hazards++;
    fprintf(stderr, "vrsim: hazard: %s: %llu bytes at 0x%llx\n", what, (unsigned long long)bytes,
            (unsigned long long)address);
}

static void hazard_owner(const char *who, const struct owned *owner)
{
    char end[64] = "alive";
    if (owner->gone)
        snprintf(end, sizeof(end), "its memory or context is gone");
    else if (!owner->alive && owner->ended_on != 0)
        snprintf(end, sizeof(end), "freed on stream %llu", (unsigned long long)owner->ended_on);
    else if (!owner->alive)
        snprintf(end, sizeof(end), "freed");
    fprintf(stderr, "vrsim: hazard:   %s: generation %llu, %llu bytes at 0x%llx, %s\n", who,
            (unsigned long long)owner->generation, (unsigned long long)owner->size,
            (unsigned long long)owner->begin, end);
}

static void hazard_access(const char *who, const struct access *access)
{
    fprintf(stderr,
            "vrsim: hazard:   %s: %s, operation %llu of stream %llu, %llu bytes at 0x%llx of "
            "generation %llu\n",
            who, access->what, (unsigned long long)access->seq, (unsigned long long)access->stream,
            (unsigned long long)access->bytes, (unsigned long long)access->address,
            (unsigned long long)access->generation);
}

/* Index of the first entry that ends above the address. */
static size_t owned_first(uint64_t address)
{
    size_t low = 0, high = owned_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (owned[middle].address + owned[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts `count` entries in the place of `gone` ones. */
static void owned_splice(size_t at, size_t gone, const struct owned *parts, size_t count)
{
    if (owned_count - gone + count > owned_room) {
        owned_room = owned_room == 0 ? 64 : 2 * owned_room;
        owned = realloc(owned, owned_room * sizeof(*owned));
    }
    if (gone != count)
        memmove(owned + at + count, owned + at + gone, (owned_count - at - gone) * sizeof(*owned));
    memcpy(owned + at, parts, count * sizeof(*owned));
    owned_count += count - gone;
}

/* A new owner. What is remembered of dead ones outside of its range stays remembered. */
static void note_alloc(uint64_t address, uint64_t bytes)
{
    struct context *context = NULL;
    context_current(&context);
    uint64_t end = address + bytes;
    size_t from = owned_first(address), to = from, count = 0;
    struct owned parts[3];
    for (; to < owned_count && owned[to].address < end; to++)
        if (owned[to].alive) {
            hazard("block handed out while another lives there", address, bytes);
            hazard_owner("the other", &owned[to]);
        }
    if (to > from && owned[from].address < address) {
        parts[count] = owned[from];
        parts[count++].bytes = address - owned[from].address;
    }
    parts[count++] = (struct owned){.address = address,
                                    .bytes = bytes,
                                    .generation = ++generations,
                                    .alive = true,
                                    .context = context,
                                    .begin = address,
                                    .size = bytes};
    if (to > from && owned[to - 1].address + owned[to - 1].bytes > end) {
        parts[count] = owned[to - 1];
        parts[count].address = end;
        parts[count++].bytes = owned[to - 1].address + owned[to - 1].bytes - end;
    }
    owned_splice(from, to - from, parts, count);
}

/* `stream`: identity, 0: none. Returns whether that changed anything. */
static int note_state(uint64_t address, bool alive, uint64_t stream)
{
    size_t at = owned_first(address);
    if (at == owned_count || owned[at].address != address || owned[at].alive == alive ||
        owned[at].gone)
        return 0;
    owned[at].alive = alive;
    owned[at].ended_on = stream;
    return 1;
}

void oracle_memory_gone(uint64_t address, uint64_t bytes, bool with_context)
{
    size_t at = owned_first(address);
    for (; at < owned_count && owned[at].address < address + bytes; at++) {
        if (owned[at].alive && !with_context) {
            hazard("memory given back to the card while a block lives in it", owned[at].address,
                   owned[at].bytes);
            hazard_owner("block", &owned[at]);
        }
        owned[at].alive = false;
        owned[at].gone = true;
    }
}

void oracle_context_gone(const struct context *context)
{
    for (size_t at = 0; at < owned_count; at++)
        if (owned[at].context == context) {
            owned[at].alive = false;
            owned[at].gone = true;
        }
}

SIM_API void vrsim_note_alloc(CUdeviceptr address, size_t bytes)
{
    if (address == 0 || bytes == 0)
        return;
    struct context *context;
    pthread_mutex_lock(&sim.lock);
    /* else it ended between the allocation and this, and the block with it */
    if (context_current(&context) != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        note_alloc(address, bytes);
    pthread_mutex_unlock(&sim.lock);
}

SIM_API int vrsim_note_free(CUdeviceptr address)
{
    pthread_mutex_lock(&sim.lock);
    int ended = note_state(address, false, 0);
    pthread_mutex_unlock(&sim.lock);
    return ended;
}

SIM_API void vrsim_note_free_failed(CUdeviceptr address)
{
    pthread_mutex_lock(&sim.lock);
    note_state(address, true, 0);
    pthread_mutex_unlock(&sim.lock);
}

/* NULL: none has that handle. */
static const struct stream *stream_of(CUstream handle)
{
    struct stream *stream;
    CUstream known = handle == NULL ? CU_STREAM_LEGACY : handle;
    return stream_find(known, &stream) == CUDA_SUCCESS ? stream : NULL;
}

static bool stream_captures(CUstream handle)
{
    const struct stream *stream = stream_of(handle);
    return stream != NULL && stream->capture != NULL;
}

SIM_API void vrsim_note_alloc_async(CUdeviceptr address, size_t bytes, CUstream stream)
{
    struct context *context;
    pthread_mutex_lock(&sim.lock);
    bool ended = context_current(&context) == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (address != 0 && bytes != 0 && !ended && !stream_captures(stream))
        note_alloc(address, bytes);
    pthread_mutex_unlock(&sim.lock);
}

SIM_API int vrsim_note_free_async(CUdeviceptr address, CUstream stream)
{
    pthread_mutex_lock(&sim.lock);
    const struct stream *on = stream_of(stream);
    int ended = stream_captures(stream) ? 0 : note_state(address, false, on != NULL ? on->id : 0);
    pthread_mutex_unlock(&sim.lock);
    return ended;
}

SIM_API uint64_t vrsim_hazards(void)
{
    pthread_mutex_lock(&sim.lock);
    uint64_t count = hazards;
    pthread_mutex_unlock(&sim.lock);
    return count;
}

SIM_API void vrsim_hazards_reset(void)
{
    pthread_mutex_lock(&sim.lock);
    hazards = 0;
    pthread_mutex_unlock(&sim.lock);
}

/* --- accesses ------------------------------------------------------------------------------------
 */

static void accesses_prune(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < access_count; i++)
        if (!vclock_covers(&sim.host_clock, accesses[i].slot, accesses[i].seq))
            accesses[kept++] = accesses[i];
    access_count = kept;
    access_prune_at = kept < 32 ? 64 : 2 * kept;
}

static bool contains(const struct access *outer, const struct access *inner)
{
    return inner->slot == outer->slot && inner->address >= outer->address &&
           inner->address + inner->bytes <= outer->address + outer->bytes;
}

/* The newest access to an earlier generation that `now` contains; NULL: none. */
static const struct access *access_before(const struct access *now)
{
    const struct access *best = NULL;
    for (size_t i = 0; i < access_count; i++) {
        const struct access *old = &accesses[i];
        if (old->generation < now->generation && contains(now, old) &&
            (best == NULL || old->generation > best->generation))
            best = old;
    }
    return best;
}

/* Forgets what the new access makes needless. On one stream a later access stands for an earlier
 * one of its own generation; and of those to earlier generations the newest stands for the others.
 */
static void access_supersede(const struct access *now)
{
    const struct access *found = access_before(now);
    struct access before = found != NULL ? *found : (struct access){0};
    size_t kept = 0;
    for (size_t i = 0; i < access_count; i++) {
        const struct access *old = &accesses[i];
        bool same = old->generation == now->generation && contains(now, old);
        bool older = found != NULL && old->generation < before.generation && contains(&before, old);
        if (!same && !older)
            accesses[kept++] = accesses[i];
    }
    access_count = kept;
}

static void access_remember(struct access access)
{
    access_supersede(&access);
    if (access_count >= access_prune_at)
        accesses_prune();
    if (access_count == access_room) {
        access_room = access_room == 0 ? 64 : 2 * access_room;
        accesses = realloc(accesses, access_room * sizeof(*accesses));
    }
    accesses[access_count++] = access;
}

static bool overlap(const struct access *a, const struct access *b)
{
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

static void access_compare(const struct op *op, const struct access *now)
{
    for (size_t i = 0; i < access_count; i++) {
        const struct access *old = &accesses[i];
        if (old->generation != now->generation && overlap(old, now) &&
            !vclock_covers(&op->clock, old->slot, old->seq)) {
            hazard("memory of a new owner used while earlier work on it may still run",
                   now->address, now->bytes);
            hazard_access("earlier", old);
            hazard_access("now, with no order between", now);
            return;
        }
    }
}

static const char *op_name(const struct op *op)
{
    switch (op->kind) {
    case OP_KERNEL:
        return op->copies ? "copy or fill" : "kernel";
    case OP_SPIN:
        return "spinning kernel";
    case OP_HOST:
        return "host function";
    default:
        return "no work";
    }
}

static void access_part(const struct op *op, const struct owned *owner, uint64_t from, uint64_t end)
{
    struct access now = {from,    end - from,    owner->generation, op->slot,
                         op->seq, op->stream_id, op_name(op)};
    if (!owner->alive) {
        if (!sim.freed_use) {
            hazard("memory used after it was freed", from, end - from);
            hazard_owner("block", owner);
            hazard_access("now", &now);
        }
        return;
    }
    access_compare(op, &now);
    access_remember(now);
}

/* Memory by handle is reached by kernels of the devices that cuMemSetAccess named, and by no
 * others. */
static void reach_check(const struct op *op, const struct vrsim_range *range)
{
    for (uint64_t at = range->address; at < range->address + range->bytes;) {
        const struct block *block = card_find(at);
        if (block == NULL || block->kind != BLOCK_MAPPED)
            return;
        if ((block->reached_by >> op->context->device & 1) == 0) {
            hazard("memory by handle used by a device that was not let at it", at, block->bytes);
            return;
        }
        at = block->address + block->bytes;
    }
}

void oracle_check(const struct op *op, size_t count, const struct vrsim_range *ranges)
{
    for (size_t i = 0; i < count && !op->copies; i++)
        reach_check(op, &ranges[i]);
    for (size_t i = 0; i < count && owned_count > 0; i++) {
        uint64_t address = ranges[i].address, end = address + ranges[i].bytes;
        if (address == end) /* host memory, which can lie where the card's was */
            continue;
        for (size_t at = owned_first(address); at < owned_count && owned[at].address < end; at++) {
            struct owned owner = owned[at];
            uint64_t owner_end = owner.address + owner.bytes;
            access_part(op, &owner, owner.address > address ? owner.address : address,
                        owner_end < end ? owner_end : end);
        }
    }
}
