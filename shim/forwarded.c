/* forwarded.c - a hash table of addresses, linear probing, from mmap. See forwarded.h.
 *
 * At most half full; it doubles, and never shrinks. A removed entry's place is filled by moving the
 * entries behind it up (Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
 */
#define _GNU_SOURCE
#include "forwarded.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "lock_within.h"

enum { FIRST_PLACES = 1024, VISIT_PATIENCE_MS = 100 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct forwarded_block *table; /* address 0: empty */
static size_t places;                 /* a power of two, or 0 */
static size_t used;

static size_t place_of(CUdeviceptr address)
{
    return (size_t)(((uint64_t)address >> 8) * 0x9e3779b97f4a7c15U >> 32) & (places - 1);
}

/* The entry of an address, or the empty place where it belongs. */
static struct forwarded_block *entry_find(CUdeviceptr address)
{
    size_t place = place_of(address);
    while (table[place].address != 0 && table[place].address != address)
        place = (place + 1) & (places - 1);
    return &table[place];
}

static bool table_double(void)
{
    size_t before = places, more = places == 0 ? FIRST_PLACES : 2 * places;
    struct forwarded_block *old = table;
    void *mapped = mmap(NULL, more * sizeof(struct forwarded_block), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return false;
    table = mapped;
    places = more;
    for (size_t i = 0; i < before; i++)
        if (old[i].address != 0)
            *entry_find(old[i].address) = old[i];
    if (before > 0)
        munmap(old, before * sizeof(struct forwarded_block));
    return true;
}

static void entry_count(const struct forwarded_block *entry, uint64_t sign)
{
    DEVICE_COUNT(entry->device, forwarded_live, sign);
    DEVICE_COUNT(entry->device, forwarded_live_bytes, sign * entry->bytes);
}

static void entry_drop(struct forwarded_block *entry)
{
    size_t hole = (size_t)(entry - table), at = hole;
    entry_count(entry, UINT64_MAX);
    used--;
    for (;;) {
        at = (at + 1) & (places - 1);
        if (table[at].address == 0)
            break;
        size_t home = place_of(table[at].address);
        if (((at - home) & (places - 1)) >= ((at - hole) & (places - 1))) {
            table[hole] = table[at];
            hole = at;
        }
    }
    table[hole].address = 0;
}

void forwarded_add(CUdeviceptr address, size_t bytes, struct device *device, CUcontext context,
                   uint32_t origin)
{
    if (address == 0 || !process_serves())
        return;
    int saved_errno = errno;
    pthread_mutex_lock(&table_lock);
    if (2 * (used + 1) <= places || table_double()) {
        struct forwarded_block *entry = entry_find(address);
        if (entry->address != 0) /* freed in a way that we do not see */
            entry_drop(entry);
        entry = entry_find(address);
        *entry = (struct forwarded_block){address, bytes, device, context, origin};
        used++;
        entry_count(entry, 1);
    }
    pthread_mutex_unlock(&table_lock);
    errno = saved_errno;
}

struct forwarded_block forwarded_take(CUdeviceptr address)
{
    struct forwarded_block taken = {0};
    if (address == 0 || !process_serves())
        return taken;
    pthread_mutex_lock(&table_lock);
    struct forwarded_block *entry = places > 0 ? entry_find(address) : NULL;
    if (entry != NULL && entry->address != 0) {
        taken = *entry;
        entry_drop(entry);
    }
    pthread_mutex_unlock(&table_lock);
    return taken;
}

void forwarded_return(const struct forwarded_block *block)
{
    forwarded_add(block->address, block->bytes, block->device, block->context, block->origin);
}

void forwarded_forget_context(CUcontext context)
{
    if (context == NULL || !process_serves())
        return;
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < places; i++)
        while (table[i].address != 0 && table[i].context == context)
            entry_drop(&table[i]); /* another may take its place */
    pthread_mutex_unlock(&table_lock);
}

bool forwarded_visit(void (*visit)(void *arg, const struct forwarded_block *block), void *arg)
{
    if (!lock_within(&table_lock, VISIT_PATIENCE_MS))
        return false;
    for (size_t i = 0; i < places; i++)
        if (table[i].address != 0)
            visit(arg, &table[i]);
    pthread_mutex_unlock(&table_lock);
    return true;
}
