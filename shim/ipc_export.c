/* ipc_export.c - the table of blocks that other processes may open. See ipc.h.
 *
 * The table is a file in memory (memfd_create) that is mapped here and read there through
 * /proc/PID/fd, which the kernel allows the same user. It has no name, so nothing is left behind
 * when this process ends, however it does. It is made when a handle is first asked for. Should the
 * program close all its files, also those that it does not know, another table is made.
 *
 * Lock: export_lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc.h"

enum { SIZES_MAX = 64 };

static pthread_mutex_t export_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ipc_table *table;
static int table_file = -1;
static ino_t table_inode;
static uint32_t slots_used;
static const struct pool *owners[IPC_ENTRIES];
static uint64_t sizes[SIZES_MAX]; /* learned; atomic */
static uint32_t sizes_learned;    /* atomic */

static bool table_reachable(void)
{
    struct stat status;
    return table != NULL && fstat(table_file, &status) == 0 && status.st_ino == table_inode;
}

/* The table's file, away from the numbers that programs use themselves. */
static int file_make(void)
{
    int low = memfd_create("vramalloc-ipc", MFD_CLOEXEC);
    if (low < 0)
        return -1;
    int high = fcntl(low, F_DUPFD_CLOEXEC, 512);
    if (high < 0)
        return low;
    close(low);
    return high;
}

static bool table_make(void)
{
    struct stat status;
    uint64_t token;
    int file = file_make();
    if (file < 0)
        return false;
    void *memory = MAP_FAILED;
    if (getrandom(&token, sizeof(token), GRND_NONBLOCK) == sizeof(token) &&
        ftruncate(file, sizeof(struct ipc_table)) == 0 && fstat(file, &status) == 0)
        memory = mmap(NULL, sizeof(struct ipc_table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        close(file);
        return false;
    }
    if (table != NULL)
        munmap(table, sizeof(struct ipc_table));
    table = memory;
    memcpy(table->mark, IPC_MARK, sizeof(table->mark));
    table->token = token;
    table_file = file;
    table_inode = status.st_ino;
    slots_used = 0;
    return true;
}

/* The block's entry; IPC_ENTRIES: it has none. */
static uint32_t slot_find(uint64_t serial)
{
    uint32_t slot = 0;
    while (slot < slots_used && table->entry[slot].serial != serial)
        slot++;
    return slot < slots_used ? slot : IPC_ENTRIES;
}

static void slot_clear(uint32_t slot)
{
    __atomic_store_n(&table->entry[slot].serial, 0, __ATOMIC_RELEASE);
}

/* A free entry is filled; IPC_ENTRIES: there is none. */
static uint32_t slot_take(const struct pool_block *block, const CUipcMemHandle *segment)
{
    uint32_t slot = slot_find(0);
    if (slot == IPC_ENTRIES && slots_used < IPC_ENTRIES)
        slot = slots_used++;
    if (slot == IPC_ENTRIES)
        return slot;
    struct ipc_entry *entry = &table->entry[slot];
    entry->offset = block->address - block->segment_address;
    entry->bytes = block->requested_bytes;
    entry->segment = *segment;
    owners[slot] = block->pool;
    __atomic_store_n(&entry->serial, block->serial, __ATOMIC_RELEASE);
    return slot;
}

bool ipc_export(const struct pool_block *block, const CUipcMemHandle *segment,
                CUipcMemHandle *handle_out)
{
    uint32_t slot = IPC_ENTRIES;
    int saved_errno = errno;
    pthread_mutex_lock(&export_lock);
    if (table_reachable() || table_make()) {
        slot = slot_find(block->serial);
        if (slot == IPC_ENTRIES)
            slot = slot_take(block, segment);
    }
    if (slot != IPC_ENTRIES) {
        struct ipc_handle handle = {.token = table->token,
                                    .serial = block->serial,
                                    .process = getpid(),
                                    .file = table_file,
                                    .slot = slot};
        memcpy(handle.mark, IPC_MARK, sizeof(handle.mark));
        memcpy(handle_out, &handle, sizeof(handle));
    }
    pthread_mutex_unlock(&export_lock);
    errno = saved_errno;
    return slot != IPC_ENTRIES;
}

static void size_learn(uint64_t bytes)
{
    uint32_t count = sizes_learned;
    if (ipc_size_learned(bytes) || count == SIZES_MAX)
        return;
    __atomic_store_n(&sizes[count], bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&sizes_learned, count + 1, __ATOMIC_RELEASE);
}

void ipc_export_end(const struct pool_block *block)
{
    pthread_mutex_lock(&export_lock);
    uint32_t slot = table != NULL ? slot_find(block->serial) : IPC_ENTRIES;
    if (slot != IPC_ENTRIES) {
        slot_clear(slot);
        size_learn(block->requested_bytes);
    }
    pthread_mutex_unlock(&export_lock);
}

void ipc_export_forget(const struct pool *pool)
{
    pthread_mutex_lock(&export_lock);
    for (uint32_t slot = 0; slot < slots_used; slot++)
        if (owners[slot] == pool)
            slot_clear(slot);
    pthread_mutex_unlock(&export_lock);
}

bool ipc_size_learned(uint64_t bytes)
{
    uint32_t count = __atomic_load_n(&sizes_learned, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; __builtin_expect(i < count, 0); i++)
        if (__atomic_load_n(&sizes[i], __ATOMIC_RELAXED) == bytes)
            return true;
    return false;
}
