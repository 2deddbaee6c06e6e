/* ipc.h - pooled blocks shared with other processes by cudaIpcGetMemHandle.
 *
 * The driver's handle names a whole allocation of the driver's, and the other process opens it at
 * that allocation's start: for a block inside a segment the offset is lost. Such a block gets a
 * handle of ours instead. It names the process, and an entry of a table there that holds the
 * driver's handle of the segment, where in it the block lies, and whether it is live still. The
 * library in the other process reads the entry, opens the segment and adds the offset; a driver
 * that sees a handle of ours without the library refuses it.
 *
 * What it leaves out: blocks that start a driver allocation (their handle is the driver's own, for
 * processes without the library as well), and memory by handle (VRAMALLOC_BACKING=vmm), which has
 * no such handle at all.
 *
 * Locks: one for what is exported (ipc_export.c), one for what is imported (ipc_import.c); neither
 * is held across a driver call.
 */
#ifndef VRAMALLOC_SHIM_IPC_H
#define VRAMALLOC_SHIM_IPC_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../pool/pool.h"

/* What a handle of ours holds. */
struct ipc_handle {
    char mark[8];
    uint64_t token;  /* the table's own */
    uint64_t serial; /* of the block: no later one has it */
    int32_t process;
    int32_t file;  /* the table, in that process */
    uint32_t slot; /* the entry */
    uint32_t zero[7];
};
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "one takes the other's place");

#define IPC_MARK "VRAMipc1" /* of handles and tables; not ended by a zero there */

/* An entry of the table. */
struct ipc_entry {
    uint64_t serial; /* 0: free. Atomic; written last, cleared first */
    uint64_t offset; /* of the block in the driver's allocation */
    uint64_t bytes;  /* as requested */
    CUipcMemHandle segment;
    uint64_t unused[5];
};
_Static_assert(sizeof(struct ipc_entry) == 128, "entries lie at equal steps");

enum { IPC_ENTRIES = 8192 };

/* The table: a file in memory that other processes of the same user may read. */
struct ipc_table {
    char mark[8];
    uint64_t token;
    uint64_t unused[14];
    struct ipc_entry entry[IPC_ENTRIES];
};

/* Makes a handle for a live block. segment: the driver's handle of the allocation around it. The
 * same block gets the same handle each time. False: the host refuses, or IPC_ENTRIES blocks are
 * exported. Cost: the first time a file in memory of 1 MiB; a scan of the entries. */
bool ipc_export(const struct pool_block *block, const CUipcMemHandle *segment,
                CUipcMemHandle *handle_out);

/* The block was freed: its handle opens nothing any more. A block without a handle of ours is
 * ignored. Blocks of its size are the driver's from now on (ipc_size_learned()). */
void ipc_export_end(const struct pool_block *block);

/* All blocks of this pool have ended. */
void ipc_export_forget(const struct pool *pool);

/* A block of this size was exported and freed before. Its memory cannot be used again, since
 * another process may have it mapped: for a program that goes on so the driver is the better place.
 * Cost: one load where nothing was learned. */
bool ipc_size_learned(uint64_t bytes);

/* What a handle of ours stands for. */
struct ipc_target {
    CUipcMemHandle segment;
    uint64_t offset, bytes;
};

enum ipc_found {
    IPC_FOREIGN, /* not a handle of ours: the driver's to open */
    IPC_FOUND,
    IPC_GONE /* ours, but the block was freed, the process has ended or cannot be looked at */
};

/* Reads the entry in the other process. Cost: a few system calls. */
enum ipc_found ipc_resolve(const CUipcMemHandle *handle, struct ipc_target *target_out);

/* What was opened: a block of another process, in a segment of it. */
struct ipc_block {
    CUdeviceptr address, segment;
    uint64_t bytes; /* 0: opened by the driver's own handle, and the driver knows */
    uint64_t id;    /* unique in this process */
    CUcontext context;
    uint32_t opened; /* how often */
};

/* Opened once more. block: its offset and bytes; zeroes where the handle was the driver's. False:
 * too many are open. */
bool ipc_import_add(CUcontext context, CUdeviceptr segment, uint64_t offset, uint64_t bytes);

/* Ends one opening of what begins at `address`. Returns the address for the driver to close: the
 * segment's; `address` itself where nothing is known of it; DRIVER_UNKNOWN_ADDRESS where it is a
 * segment that only blocks inside it keep open. */
CUdeviceptr ipc_import_remove(CUdeviceptr address);

/* The block around an address. Cost: one load where nothing is imported, else a scan. */
bool ipc_import_find(CUdeviceptr address, struct ipc_block *block_out);

/* The context has ended, and what it had opened with it. */
void ipc_import_forget(CUcontext context);

#endif
