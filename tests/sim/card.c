/* card.c - the memory of a simulated card: which addresses are whose, and the bytes behind them.
 *
 *   window   | slot 0 | slot 1 | slot 2 | ...      addresses that nobody can touch (PROT_NONE)
 *              2 MiB    cut in units of 512 B      one block over several slots
 *
 * Blocks up to 1 MiB are cut at 512-byte steps from slots that they share; larger ones take whole
 * slots. Slots are counted against the card's size; the window is four times as large, so that free
 * memory can be had in one piece however scattered it is, as with the real driver's mapping.
 *
 * The bytes lie in a memory file at the same offsets and are mapped for the simulator alone when a
 * copy or fill first needs them; an untouched block of any size costs nothing.
 *
 * Lock: sim.lock is held by the callers.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WINDOW_FACTOR = 4 };

static struct block *off_card; /* managed, host, mapped and foreign blocks */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static bool window_start(struct device *device)
{
    uint64_t bytes = round_up(device->total_bytes * WINDOW_FACTOR, SIM_SLOT_BYTES);
    char *place = mmap(NULL, bytes + SIM_SLOT_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
        return false;
    device->memory_file = memfd_create("vrsim-card", MFD_CLOEXEC);
    if (device->memory_file < 0 || ftruncate(device->memory_file, (off_t)bytes) != 0)
        return false;
    device->window = round_up((uint64_t)(uintptr_t)place, SIM_SLOT_BYTES);
    device->slot_count = bytes / SIM_SLOT_BYTES;
    device->slots = calloc(device->slot_count, sizeof(*device->slots));
    device->ready = device->slots != NULL;
    return device->ready;
}

bool card_charge(struct device *device, uint64_t bytes)
{
    if (bytes > device->total_bytes - device->used_bytes)
        return false;
    device->used_bytes += bytes;
    return true;
}

struct block *block_new(enum block_kind kind, uint64_t address, size_t bytes)
{
    struct block *block = calloc(1, sizeof(*block));
    block->kind = kind;
    block->address = address;
    block->bytes = bytes;
    block->reserved_bytes = bytes;
    block->buffer_id = sim.next_id++;
    return block;
}

/* --- slots ---------------------------------------------------------------------------------------
 */

static bool slot_is_free(const struct slot *slot)
{
    return slot->large == NULL && slot->small == NULL;
}

/* First of `count` free slots in a row, or slot_count. */
static uint64_t slots_find(struct device *device, uint64_t count)
{
    uint64_t run = 0;
    for (uint64_t at = device->free_hint; at < device->slot_count;) {
        const struct slot *slot = &device->slots[at];
        run = slot_is_free(slot) ? run + 1 : 0;
        if (run == count)
            return at + 1 - count;
        at += slot->large != NULL ? slot->large->reserved_bytes / SIM_SLOT_BYTES : 1;
    }
    return device->slot_count;
}

static void hint_advance(struct device *device)
{
    uint64_t at = device->free_hint;
    while (at < device->slot_count && !slot_is_free(&device->slots[at]))
        at++;
    device->free_hint = at;
}

static void slots_free(struct device *device, uint64_t first, uint64_t count, char *view)
{
    for (uint64_t i = first; i < first + count; i++)
        device->slots[i] = (struct slot){NULL, NULL};
    device->used_bytes -= count * SIM_SLOT_BYTES;
    if (first < device->free_hint)
        device->free_hint = first;
    if (view == NULL)
        return;
    munmap(view, count * SIM_SLOT_BYTES);
    fallocate(device->memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(first * SIM_SLOT_BYTES), (off_t)(count * SIM_SLOT_BYTES));
}

static struct block *large_take(struct device *device, size_t bytes, enum block_kind kind)
{
    uint64_t reserved = round_up(bytes, SIM_SLOT_BYTES), count = reserved / SIM_SLOT_BYTES;
    uint64_t first = slots_find(device, count);
    if (first == device->slot_count || !card_charge(device, reserved))
        return NULL;
    struct block *block = block_new(kind, device->window + first * SIM_SLOT_BYTES, bytes);
    block->reserved_bytes = reserved;
    for (uint64_t i = first; i < first + count; i++)
        device->slots[i].large = block;
    hint_advance(device);
    return block;
}

/* --- shared slots
 * --------------------------------------------------------------------------------- */

/* First of `units` free units in a row, or SIM_UNITS_A_SLOT. */
static uint32_t units_find(struct small_slot *small, uint32_t units)
{
    uint32_t run = 0;
    if (small->used_units + units > SIM_UNITS_A_SLOT || units >= small->failed_units)
        return SIM_UNITS_A_SLOT;
    for (uint32_t at = 0; at < SIM_UNITS_A_SLOT; at++) {
        run = small->owner[at] == NULL ? run + 1 : 0;
        if (run == units)
            return at + 1 - units;
    }
    small->failed_units = units;
    return SIM_UNITS_A_SLOT;
}

static struct small_slot *small_new(struct device *device)
{
    uint64_t at = slots_find(device, 1);
    if (at == device->slot_count || !card_charge(device, SIM_SLOT_BYTES))
        return NULL;
    struct small_slot *small = calloc(1, sizeof(*small));
    small->slot = at;
    small->failed_units = SIM_UNITS_A_SLOT + 1;
    small->next = device->smalls;
    device->smalls = small;
    device->slots[at].small = small;
    hint_advance(device);
    return small;
}

static struct block *small_place(struct device *device, struct small_slot *small, uint32_t at,
                                 size_t bytes, enum block_kind kind)
{
    uint32_t units = (uint32_t)(round_up(bytes, SIM_UNIT_BYTES) / SIM_UNIT_BYTES);
    uint64_t address =
        device->window + small->slot * SIM_SLOT_BYTES + (uint64_t)at * SIM_UNIT_BYTES;
    struct block *block = block_new(kind, address, bytes);
    block->reserved_bytes = (size_t)units * SIM_UNIT_BYTES;
    for (uint32_t i = at; i < at + units; i++)
        small->owner[i] = block;
    small->used_units += units;
    return block;
}

static struct block *small_take(struct device *device, size_t bytes, enum block_kind kind)
{
    uint32_t units = (uint32_t)(round_up(bytes, SIM_UNIT_BYTES) / SIM_UNIT_BYTES);
    for (struct small_slot *small = device->smalls; small != NULL; small = small->next) {
        uint32_t at = units_find(small, units);
        if (at < SIM_UNITS_A_SLOT)
            return small_place(device, small, at, bytes, kind);
    }
    struct small_slot *small = small_new(device);
    return small != NULL ? small_place(device, small, 0, bytes, kind) : NULL;
}

static void small_drop(struct device *device, struct small_slot *small)
{
    struct small_slot **link = &device->smalls;
    while (*link != small)
        link = &(*link)->next;
    *link = small->next;
    slots_free(device, small->slot, 1, small->view);
    free(small);
}

static void small_give(struct device *device, struct small_slot *small, struct block *block)
{
    uint64_t offset = block->address - device->window - small->slot * SIM_SLOT_BYTES;
    uint32_t at = (uint32_t)(offset / SIM_UNIT_BYTES);
    uint32_t units = (uint32_t)(block->reserved_bytes / SIM_UNIT_BYTES);
    for (uint32_t i = at; i < at + units; i++)
        small->owner[i] = NULL;
    small->used_units -= units;
    small->failed_units = SIM_UNITS_A_SLOT + 1;
    if (small->used_units == 0)
        small_drop(device, small);
}

/* --- blocks
 * --------------------------------------------------------------------------------------- */

CUresult card_take(struct device *device, size_t bytes, enum block_kind kind, struct block **out)
{
    if (!device->ready && !window_start(device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > device->total_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct block *block = bytes <= SIM_SMALL_MAX_BYTES ? small_take(device, bytes, kind)
                                                       : large_take(device, bytes, kind);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->device = device->index;
    *out = block;
    return CUDA_SUCCESS;
}

static struct device *window_of(uint64_t address)
{
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.devices[i];
        if (device->ready && address >= device->window &&
            address - device->window < device->slot_count * SIM_SLOT_BYTES)
            return device;
    }
    return NULL;
}

bool card_reserved(uint64_t address)
{
    return window_of(address) != NULL;
}

void card_give(struct block *block)
{
    struct device *device = &sim.devices[block->device];
    uint64_t at = (block->address - device->window) / SIM_SLOT_BYTES;
    if (device->slots[at].small != NULL)
        small_give(device, device->slots[at].small, block);
    else
        slots_free(device, at, block->reserved_bytes / SIM_SLOT_BYTES, block->view);
    op_release(block->free_op);
    free(block);
}

void block_list_add(struct block *block)
{
    block->next = off_card;
    off_card = block;
}

void block_list_remove(struct block *block)
{
    struct block **link = &off_card;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
}

struct block *block_list_ipc(int process, int device, uint64_t offset)
{
    for (struct block *block = off_card; block != NULL; block = block->next)
        if (block->kind == BLOCK_IPC && block->ipc_process == process && block->device == device &&
            block->ipc_offset == offset)
            return block;
    return NULL;
}

bool block_list_maps(uint64_t address, size_t bytes)
{
    for (const struct block *block = off_card; block != NULL; block = block->next)
        if (block->kind == BLOCK_MAPPED && block->address < address + bytes &&
            address < block->address + block->bytes)
            return true;
    return false;
}

static struct block *piece_find(struct block *chunk, uint64_t address)
{
    for (struct block *piece = chunk->pieces; piece != NULL; piece = piece->next)
        if (address - piece->address < piece->reserved_bytes)
            return piece->used ? piece : NULL;
    return NULL;
}

static struct block *off_card_find(uint64_t address)
{
    for (struct block *block = off_card; block != NULL; block = block->next)
        if (address >= block->address && address - block->address < block->bytes)
            return block;
    return NULL;
}

struct block *card_find(uint64_t address)
{
    struct device *device = window_of(address);
    if (device == NULL)
        return off_card_find(address);
    uint64_t offset = address - device->window;
    const struct slot *slot = &device->slots[offset / SIM_SLOT_BYTES];
    struct block *block = slot->large;
    if (slot->small != NULL)
        block = slot->small->owner[offset % SIM_SLOT_BYTES / SIM_UNIT_BYTES];
    if (block != NULL && block->kind == BLOCK_CHUNK)
        block = piece_find(block, address);
    return block != NULL && address - block->address < block->bytes ? block : NULL;
}

static uint64_t chunk_live(const struct block *chunk)
{
    uint64_t count = 0;
    for (const struct block *piece = chunk->pieces; piece != NULL; piece = piece->next)
        count += piece->used;
    return count;
}

static uint64_t small_live(const struct small_slot *small, enum block_kind kind)
{
    uint64_t count = 0;
    for (uint32_t at = 0; at < SIM_UNITS_A_SLOT; at++)
        if (small->owner[at] != NULL && small->owner[at]->kind == kind &&
            (at == 0 || small->owner[at - 1] != small->owner[at]))
            count++;
    return count;
}

static uint64_t device_live(const struct device *device, enum block_kind kind)
{
    uint64_t count = 0;
    for (const struct small_slot *small = device->smalls; small != NULL; small = small->next)
        count += small_live(small, kind);
    for (uint64_t at = 0; at < device->slot_count; at++) {
        const struct block *block = device->slots[at].large;
        if (block == NULL)
            continue;
        if (block->kind == BLOCK_CHUNK && kind == BLOCK_PIECE)
            count += chunk_live(block);
        else if (block->kind == kind)
            count++;
        at += block->reserved_bytes / SIM_SLOT_BYTES - 1;
    }
    return count;
}

uint64_t card_live(enum block_kind kind)
{
    uint64_t count = 0;
    for (int i = 0; i < sim.device_count; i++)
        if (sim.devices[i].ready)
            count += device_live(&sim.devices[i], kind);
    for (const struct block *block = off_card; block != NULL; block = block->next)
        count += block->kind == kind;
    return count;
}

/* --- bytes
 * ---------------------------------------------------------------------------------------- */

static char *file_view(const struct device *device, uint64_t address, size_t bytes)
{
    void *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      device->memory_file, (off_t)(address - device->window));
    return view != MAP_FAILED ? view : NULL;
}

static char *small_view(const struct device *device, struct small_slot *small, uint64_t address)
{
    uint64_t start = device->window + small->slot * SIM_SLOT_BYTES;
    if (small->view == NULL)
        small->view = file_view(device, start, SIM_SLOT_BYTES);
    return small->view != NULL ? small->view + (address - start) : NULL;
}

char *card_view(struct block *block)
{
    struct device *device = &sim.devices[block->device];
    if (block->kind == BLOCK_PIECE) {
        char *chunk = card_view(block->parent);
        return chunk != NULL ? chunk + (block->address - block->parent->address) : NULL;
    }
    if (block->kind == BLOCK_MAPPED)
        return block->reached_by != 0 ? vmm_view(block->handle) : NULL;
    if (block->kind != BLOCK_DEVICE && block->kind != BLOCK_CHUNK && block->kind != BLOCK_GRAPH)
        return block->view;
    struct slot *slot = &device->slots[(block->address - device->window) / SIM_SLOT_BYTES];
    if (slot->small != NULL)
        return small_view(device, slot->small, block->address);
    if (block->view == NULL)
        block->view = file_view(device, block->address, block->reserved_bytes);
    return block->view;
}

/* --- what goes with a context
 * ------------------------------------------------------------------------ */

static void small_drop_if(struct small_slot *small,
                          bool (*doomed)(const struct block *, const struct context *),
                          const struct context *context)
{
    for (uint32_t at = 0; at < SIM_UNITS_A_SLOT;) {
        struct block *block = small->owner[at];
        uint32_t units = block != NULL ? (uint32_t)(block->reserved_bytes / SIM_UNIT_BYTES) : 1;
        bool last = block != NULL && units == small->used_units;
        if (block != NULL && doomed(block, context)) {
            oracle_memory_gone(block->address, block->reserved_bytes, true);
            card_give(block);
            if (last)
                return; /* the slot went with its last block */
        }
        at += units;
    }
}

static void card_drop_if(struct device *device,
                         bool (*doomed)(const struct block *, const struct context *),
                         const struct context *context)
{
    for (struct small_slot *small = device->smalls, *next; small != NULL; small = next) {
        next = small->next;
        small_drop_if(small, doomed, context);
    }
    for (uint64_t at = 0; at < device->slot_count; at++) {
        struct block *block = device->slots[at].large;
        if (block == NULL)
            continue;
        uint64_t count = block->reserved_bytes / SIM_SLOT_BYTES;
        if (doomed(block, context)) {
            oracle_memory_gone(block->address, block->reserved_bytes, true);
            card_give(block);
        }
        at += count - 1;
    }
}

static bool owned_by(const struct block *block, const struct context *context)
{
    return block->context == context && block->context_id == context->id &&
           block->kind != BLOCK_GRAPH;
}

static bool freed_in(const struct block *block, const struct context *context)
{
    return block->free_op != NULL && owned_by(block, context);
}

void card_drop_context(const struct context *context)
{
    struct device *device = &sim.devices[context->device];
    oracle_context_gone(context);
    if (device->ready)
        card_drop_if(device, owned_by, context);
    for (struct block *block = off_card, *next; block != NULL; block = next) {
        next = block->next;
        if (owned_by(block, context))
            hostmem_release(block);
    }
}

void card_release_pending(struct context *context)
{
    struct device *device = &sim.devices[context->device];
    if (device->ready && context->pending_frees > 0)
        card_drop_if(device, freed_in, context);
    context->pending_frees = 0;
}
