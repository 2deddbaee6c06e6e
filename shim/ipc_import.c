/* ipc_import.c - blocks of other processes that were opened here. See ipc.h.
 *
 * The table of the other process is read through /proc/PID/fd. A handle can be made up by anybody
 * who talks to the program, so what it names is opened only when it is a file in memory of the
 * table's length, and believed only when it holds the handle's token.
 *
 * Lock: import_lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "ipc.h"

enum { BLOCKS_MAX = 4096 };

static pthread_mutex_t import_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ipc_block blocks[BLOCKS_MAX];
static uint32_t used; /* atomic; entries below it may be free (opened 0) */
static uint64_t last_id;

/* --- the other process's table --------------------------------------------------------------- */

/* Opens a file only if it is a regular one of the table's length: to open another can do harm. */
static int table_open(const struct ipc_handle *handle)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->file);
    int place = open(path, O_PATH | O_CLOEXEC);
    if (place < 0)
        return -1;
    int file = -1;
    if (fstat(place, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        status.st_size == (off_t)sizeof(struct ipc_table)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
        file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    }
    close(place);
    return file;
}

static bool read_at(int file, void *to, size_t bytes, size_t offset)
{
    return pread(file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* The entry that the handle names, if it is the block's still. */
static bool entry_read(int file, const struct ipc_handle *handle, struct ipc_entry *entry)
{
    struct ipc_table head;
    size_t head_bytes = offsetof(struct ipc_table, entry);
    return handle->slot < IPC_ENTRIES && handle->serial != 0 &&
           read_at(file, &head, head_bytes, 0) &&
           memcmp(head.mark, IPC_MARK, sizeof(head.mark)) == 0 && head.token == handle->token &&
           read_at(file, entry, sizeof(*entry), head_bytes + handle->slot * sizeof(*entry)) &&
           entry->serial == handle->serial;
}

enum ipc_found ipc_resolve(const CUipcMemHandle *driver_handle, struct ipc_target *target_out)
{
    struct ipc_handle handle;
    struct ipc_entry entry;
    int saved_errno = errno;
    memcpy(&handle, driver_handle, sizeof(handle));
    if (memcmp(handle.mark, IPC_MARK, sizeof(handle.mark)) != 0)
        return IPC_FOREIGN;
    int file = table_open(&handle);
    bool found = file >= 0 && entry_read(file, &handle, &entry);
    if (file >= 0)
        close(file);
    if (found)
        *target_out = (struct ipc_target){
            .segment = entry.segment, .offset = entry.offset, .bytes = entry.bytes};
    errno = saved_errno;
    return found ? IPC_FOUND : IPC_GONE;
}

/* --- what is open here ------------------------------------------------------------------------ */

static struct ipc_block *block_at(CUcontext context, CUdeviceptr address)
{
    for (uint32_t i = 0; i < used; i++)
        if (blocks[i].opened > 0 && blocks[i].address == address &&
            (context == NULL || blocks[i].context == context))
            return &blocks[i];
    return NULL;
}

static struct ipc_block *block_free(void)
{
    for (uint32_t i = 0; i < used; i++)
        if (blocks[i].opened == 0)
            return &blocks[i];
    if (used == BLOCKS_MAX)
        return NULL;
    __atomic_store_n(&used, used + 1, __ATOMIC_RELEASE);
    return &blocks[used - 1];
}

bool ipc_import_add(CUcontext context, CUdeviceptr segment, uint64_t offset, uint64_t bytes)
{
    pthread_mutex_lock(&import_lock);
    struct ipc_block *block = block_at(context, segment + offset);
    if (block == NULL && (block = block_free()) != NULL)
        *block = (struct ipc_block){.address = segment + offset,
                                    .segment = segment,
                                    .bytes = bytes,
                                    .id = ++last_id,
                                    .context = context};
    if (block != NULL)
        block->opened++;
    pthread_mutex_unlock(&import_lock);
    return block != NULL;
}

static bool segment_open(CUdeviceptr address)
{
    for (uint32_t i = 0; i < used; i++)
        if (blocks[i].opened > 0 && blocks[i].segment == address)
            return true;
    return false;
}

CUdeviceptr ipc_import_remove(CUdeviceptr address)
{
    CUdeviceptr close = address;
    if (__atomic_load_n(&used, __ATOMIC_ACQUIRE) == 0)
        return address;
    pthread_mutex_lock(&import_lock);
    struct ipc_block *block = block_at(NULL, address);
    if (block != NULL) {
        close = block->segment;
        block->opened--;
    } else if (segment_open(address)) {
        close = DRIVER_UNKNOWN_ADDRESS;
    }
    pthread_mutex_unlock(&import_lock);
    return close;
}

bool ipc_import_find(CUdeviceptr address, struct ipc_block *block_out)
{
    bool found = false;
    uint32_t count = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
    if (count == 0)
        return false;
    pthread_mutex_lock(&import_lock);
    for (uint32_t i = 0; i < used && !found; i++) {
        found = blocks[i].opened > 0 && address >= blocks[i].address &&
                address - blocks[i].address < blocks[i].bytes;
        if (found)
            *block_out = blocks[i];
    }
    pthread_mutex_unlock(&import_lock);
    return found;
}

void ipc_import_forget(CUcontext context)
{
    if (__atomic_load_n(&used, __ATOMIC_ACQUIRE) == 0)
        return;
    pthread_mutex_lock(&import_lock);
    for (uint32_t i = 0; i < used; i++)
        if (blocks[i].context == context)
            blocks[i].opened = 0;
    pthread_mutex_unlock(&import_lock);
}
