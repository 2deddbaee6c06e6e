/* sim.h - the inside of the simulated driver: its state and the functions its files share.
 *
 * Layers, upper ones call lower ones:
 *   entries.c (the exported cu*), lookup.c, control.c
 *   context.c stream.c event.c capture.c graph.c memory.c hostmem.c vmm.c mempool.c pointer.c
 *   transfer.c
 *   work.c (operations and the virtual clock)   card.c (device memory)   oracle.c (hazards)
 *
 * What it leaves out: kernels, modules, textures, and any data movement later than its submission
 * (a copy moves its bytes when it is submitted; only its end is simulated).
 *
 * Lock: one, sim.lock. entries.c takes it around every call, so all functions below expect it held
 * unless they say otherwise. Waits release it through sim.changed.
 */
#ifndef VRSIM_SIM_H
#define VRSIM_SIM_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vrsim.h"

#define SIM_API __attribute__((visibility("default")))

enum {
    SIM_DEVICES_MAX = 64,
    SIM_UNIT_BYTES = 512,          /* granule of blocks up to 1 MiB */
    SIM_SLOT_BYTES = 2 << 20,      /* granule of the card */
    SIM_SMALL_MAX_BYTES = 1 << 20, /* larger blocks have slots of their own */
    SIM_CHUNK_BYTES = 32 << 20,    /* granule of a memory pool */
    SIM_UNITS_A_SLOT = SIM_SLOT_BYTES / SIM_UNIT_BYTES
};

/* --- vector clocks: for each stream slot, the number of its operations known to come before -----
 */

struct vclock {
    uint32_t length;
    uint64_t *seen; /* seen[slot] */
};

void vclock_merge(struct vclock *into, const struct vclock *other);
void vclock_raise(struct vclock *clock, uint32_t slot, uint64_t seq);
bool vclock_covers(const struct vclock *clock, uint32_t slot, uint64_t seq);

/* --- objects ------------------------------------------------------------------------------------
 */

struct stream;
struct capture;
struct mempool;
struct vmm_handle;

struct context {
    struct context *next; /* all contexts ever made; structs are reused, never freed */
    bool alive;
    bool primary;
    uint64_t id; /* new for each life */
    int device;
    unsigned int flags;
    unsigned int retains; /* primary: reference count */
    CUresult fault;       /* CUDA_SUCCESS or the sticky error */
    struct stream *streams;
    struct op *left;   /* ends with the work of streams that were destroyed; NULL: none */
    int pending_frees; /* cuMemFreeAsync of cuMemAlloc blocks since the last synchronise */
    int free_waiters;  /* frees that wait for the GPU: captures do not begin meanwhile */
    uint64_t peers;    /* bit d: may use device d's memory */
};

enum stream_kind { STREAM_LEGACY, STREAM_THREAD, STREAM_USER };

struct stream {
    struct stream *next; /* of the context */
    bool alive;
    enum stream_kind kind;
    unsigned int flags;
    int priority;
    uint64_t id;
    uint64_t thread; /* STREAM_THREAD: whose */
    struct context *context;
    uint32_t slot;   /* in vector clocks */
    struct op *tail; /* newest operation, or NULL */
    struct capture *capture;
    bool capture_open; /* captured work that no other stream has waited for yet */
    uint64_t captured_ops;
};

enum op_kind { OP_EMPTY, OP_KERNEL, OP_SPIN, OP_HOST };

/* One piece of GPU work. Resolved: its end is known. */
struct op {
    struct op *next; /* unresolved list, in order of submission */
    uint32_t refs;
    enum op_kind kind;
    bool resolved;
    bool copies;  /* see struct work */
    bool wanted;  /* somebody waits: the clock may run ahead to it */
    bool running; /* OP_HOST: the worker is in it */
    struct context *context;
    uint64_t context_id;
    uint64_t stream_id; /* 0: of no stream */
    uint32_t slot;
    uint64_t seq;
    uint64_t submit_ns;
    uint64_t duration_ns;
    uint64_t end_ns; /* when resolved */
    CUresult fault;
    volatile int *flag;
    void (*host)(void *, void *); /* OP_HOST */
    void *host_a;
    void *host_b;
    struct op **deps;
    size_t dep_count;
    struct vclock clock; /* work that is ordered before the end of this one, itself included */
};

/* What is asked of the GPU; a captured one is kept in a graph. */
struct work {
    bool copies; /* the driver copies or fills: it reaches every device's memory */
    enum op_kind kind;
    uint64_t duration_ns;
    volatile int *flag;
    CUresult fault;
    void (*host)(void *, void *);
    void *host_a;
    void *host_b;
    struct op *after; /* one more predecessor, or NULL */
    size_t range_count;
    const struct vrsim_range *ranges;  /* copied when captured */
    void (*move)(const struct work *); /* bytes to move at submission, or NULL */
    CUdeviceptr destination, source;
    size_t bytes;
    unsigned int value, value_bytes;
};

struct event {
    struct event *next;
    bool alive;
    unsigned int flags;
    struct context *context;
    uint64_t context_id;
    struct op *op;           /* NULL: never recorded, or captured */
    struct capture *capture; /* recorded in it */
    uint64_t capture_id;
    struct stream *origin; /* captured: the stream it was recorded in ... */
    uint64_t origin_ops;   /* ... and the operations captured there by then */
};

struct graph {
    struct graph *next;
    bool alive;
    size_t count;
    struct work *nodes; /* in order of capture; ranges owned */
    size_t block_count;
    struct block **blocks; /* memory of captured allocations */
};

struct capture {
    struct capture *next; /* captures in progress */
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;
    struct stream *origin;
    struct context *context;
    bool invalid;
    bool borrowed; /* the graph is the program's (BeginCaptureToGraph) */
    struct graph *graph;
};

enum block_kind {
    BLOCK_DEVICE, /* cuMemAlloc */
    BLOCK_CHUNK,  /* a memory pool's, cut into pieces */
    BLOCK_PIECE,  /* cuMemAllocAsync */
    BLOCK_GRAPH,  /* an allocation node's */
    BLOCK_MAPPED, /* cuMemMap */
    BLOCK_MANAGED,
    BLOCK_HOST,
    BLOCK_REGISTERED,
    BLOCK_IPC,     /* another process's */
    BLOCK_EXTERNAL /* cuExternalMemoryGetMappedBuffer */
};

struct block {
    uint64_t address;
    size_t bytes;          /* as asked */
    size_t reserved_bytes; /* in whole units or slots */
    enum block_kind kind;
    int device;
    struct context *context; /* NULL: outlives contexts */
    uint64_t context_id;
    uint64_t buffer_id;
    bool sync_memops;      /* as the program set it */
    int ipc_process;       /* IPC: whose memory it is, */
    uint64_t ipc_offset;   /* where in the memory file, */
    unsigned ipc_opened;   /* and how often it is open */
    char *view;            /* its bytes as the host sees them; NULL until first touched */
    struct op *free_op;    /* freed by cuMemFreeAsync, not yet given back */
    struct mempool *pool;  /* CHUNK, PIECE */
    struct block *pieces;  /* CHUNK: in order of address, free ones included */
    struct block *parent;  /* PIECE: the chunk */
    struct block *next;    /* PIECE: in the chunk; others: list of off-card blocks */
    bool used;             /* PIECE: handed out and not freed */
    uint64_t freed_stream; /* PIECE: id of the stream it was freed on */
    uint64_t reached_by;   /* MAPPED: bit d: cuMemSetAccess let device d at it */
    struct vmm_handle *handle;
    int open_count; /* IPC */
};

/* A 2 MiB block cut at 512-byte steps. */
struct small_slot {
    struct small_slot *next; /* of the device */
    uint64_t slot;           /* its index */
    uint32_t used_units;
    uint32_t failed_units; /* no run of so many units is free */
    char *view;
    struct block *owner[SIM_UNITS_A_SLOT];
};

struct slot {
    struct block *large; /* every slot of a large block points to it */
    struct small_slot *small;
};

struct device {
    bool ready; /* the window exists */
    int index;
    uint64_t total_bytes;
    uint64_t used_bytes; /* whole slots, chunks and cuMemCreate handles */
    uint64_t window;     /* first address; PROT_NONE, so that only the simulator can touch it */
    uint64_t slot_count;
    struct slot *slots;
    uint64_t free_hint; /* no slot below is free */
    struct small_slot *smalls;
    int memory_file; /* the bytes; offset = address - window */
    struct context *primary;
    struct mempool *default_pool;
    struct mempool *current_pool;
};

struct sim {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool initialised;
    bool exited;
    bool forbidden;                /* the program said that it makes no call any more */
    void (*on_call)(const char *); /* NULL: nobody is told of calls */
    bool forked;                   /* a child of a process that was initialised */
    pid_t process;                 /* that was initialised */
    int device_count;
    uint64_t card_bytes;
    int driver_version;
    CUresult init_result;
    uint64_t call_ns;
    bool real_time;
    bool freed_use;
    bool thunks;
    uint64_t host_ns;         /* the virtual clock */
    struct vclock host_clock; /* work that the host has seen finished */
    uint64_t next_id;         /* of contexts, streams, buffers, captures */
    struct device devices[SIM_DEVICES_MAX];
    struct context *contexts;
    struct event *events;
    struct graph *graphs;
    struct capture *captures;
};

extern struct sim sim;
extern __thread bool sim_in_callback;
extern __thread CUstreamCaptureMode sim_capture_mode;

/* --- entries.c
 * ------------------------------------------------------------------------------------ */

enum entry_rules {
    NEEDS_NOTHING = 1, /* works before cuInit, after exit, in callbacks and forked children */
    NEEDS_CONTEXT = 2, /* CUDA_ERROR_INVALID_CONTEXT when none is current */
    TELLS_FAULT = 4,   /* answers the context's sticky error */
    SPOILS = 8,        /* prohibited during captures, by the table of modes */
    WORKS_DOWN = 16    /* needs no cuInit (cuInit itself) */
};

struct entry {
    const char *elf;
    const char *base;
    int version;
    int flavour; /* 2: per-thread default stream */
    unsigned int rules;
    void *function;
    void *thunk;
    uint64_t calls;
    uint64_t fail_at; /* call number; UINT64_MAX: every one */
    CUresult fail_code;
    int blocked;
    uint64_t waiting;
    bool missing; /* this driver lacks it */
};

extern struct entry entries[];
extern const size_t entry_count;
struct entry *entry_find(const char *elf);

/* --- control.c
 * ------------------------------------------------------------------------------------ */

void control_start(void);

/* --- lookup.c
 * ------------------------------------------------------------------------------------- */

CUresult lookup_get_4(const char *symbol, void **pfn, int version, cuuint64_t flags);
CUresult lookup_get_5(const char *symbol, void **pfn, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult *status);
void lookup_hide(struct entry *entry);
void lookup_record_open(const char *path);

/* --- state.c: start, devices, errors
 * ------------------------------------------------------------------ */

CUresult state_init(unsigned int flags);
bool state_is_clone(void); /* a child that a raw clone() made of a process that was initialised */
uint64_t state_thread_id(void);
CUresult device_version(int *version);
CUresult device_get(CUdevice *device, int ordinal);
CUresult device_count(int *count);
CUresult device_name(char *name, int bytes, CUdevice device);
CUresult device_total(size_t *bytes, CUdevice device);
CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult device_uuid(CUuuid *uuid, CUdevice device);
CUresult device_can_access(int *can, CUdevice device, CUdevice peer);
CUresult error_name(CUresult code, const char **text);
CUresult error_text(CUresult code, const char **text);
CUresult export_table(const void **table, const CUuuid *id);
struct device *device_find(CUdevice device);

/* --- context.c
 * ------------------------------------------------------------------------------------ */

bool context_current_destroyed(void);            /* and made by the program */
CUresult context_current(struct context **out);  /* INVALID_CONTEXT, CONTEXT_IS_DESTROYED */
struct context *context_alive(CUcontext handle); /* NULL when it is not */
struct context *context_default(int device);     /* for calls with no context current */
void context_teardown(struct context *context);
CUresult context_create(CUcontext *out, unsigned int flags, CUdevice device);
CUresult context_create_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                           CUdevice device);
CUresult context_destroy(CUcontext handle);
CUresult context_detach(CUcontext handle);
CUresult context_get_current(CUcontext *out);
CUresult context_set_current(CUcontext handle);
CUresult context_push(CUcontext handle);
CUresult context_pop(CUcontext *out);
CUresult context_get_device(CUdevice *out);
CUresult context_get_device_of(CUdevice *out, CUcontext handle);
CUresult context_get_id(CUcontext handle, unsigned long long *id);
CUresult context_get_flags(unsigned int *flags);
CUresult context_get_api_version(CUcontext handle, unsigned int *version);
CUresult context_synchronize(void);
CUresult context_synchronize_of(CUcontext handle);
CUresult context_record_event(CUcontext handle, CUevent event);
CUresult context_wait_event(CUcontext handle, CUevent event);
CUresult context_enable_peer(CUcontext peer, unsigned int flags);
CUresult context_disable_peer(CUcontext peer);
CUresult context_priorities(int *least, int *greatest);
CUresult primary_retain(CUcontext *out, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult primary_reset(CUdevice device);
CUresult primary_get_state(CUdevice device, unsigned int *flags, int *active);
CUresult primary_set_flags(CUdevice device, unsigned int flags);
CUresult green_create(CUgreenCtx *out, CUdevResourceDesc description, CUdevice device,
                      unsigned int flags);
CUresult green_destroy(CUgreenCtx green);
CUresult green_context(CUcontext *out, CUgreenCtx green);
CUresult green_device_resource(CUdevice device, CUdevResource *resource, CUdevResourceType type);

/* --- stream.c
 * ------------------------------------------------------------------------------------- */

CUresult stream_find(CUstream handle, struct stream **out); /* CU_STREAM_LEGACY for NULL */
struct stream *stream_legacy(struct context *context);
void stream_drop(struct stream *stream);
CUresult stream_create(CUstream *out, unsigned int flags, int priority);
CUresult stream_destroy(CUstream handle);
CUresult stream_synchronize(CUstream handle);
CUresult stream_query(CUstream handle);
CUresult stream_wait_event(CUstream handle, CUevent event, unsigned int flags);
CUresult stream_get_id(CUstream handle, unsigned long long *id);
CUresult stream_get_context(CUstream handle, CUcontext *out);
CUresult stream_get_context_v2(CUstream handle, CUcontext *out, CUgreenCtx *green);
CUresult stream_get_flags(CUstream handle, unsigned int *flags);
CUresult stream_get_priority(CUstream handle, int *priority);
CUresult stream_get_device(CUstream handle, CUdevice *device);
CUresult stream_launch_host(CUstream handle, CUhostFn function, void *data);
CUresult stream_add_callback(CUstream handle, CUstreamCallback function, void *data,
                             unsigned int flags);
CUresult stream_launch(CUstream handle, uint64_t duration_ns, size_t count,
                       const struct vrsim_range *ranges);
CUresult stream_launch_spin(CUstream handle, volatile int *flag, size_t count,
                            const struct vrsim_range *ranges);
CUresult stream_launch_fault(CUstream handle, uint64_t duration_ns, CUresult code);

/* --- event.c
 * -------------------------------------------------------------------------------------- */

CUresult event_create(CUevent *out, unsigned int flags);
CUresult event_destroy(CUevent handle);
CUresult event_record(CUevent handle, CUstream stream);
CUresult event_record_flags(CUevent handle, CUstream stream, unsigned int flags);
CUresult event_query(CUevent handle);
CUresult event_synchronize(CUevent handle);
CUresult event_elapsed(float *ms, CUevent from, CUevent to);
uint64_t events_live(void);
struct event *event_alive(CUevent handle);
void event_set(struct event *event, struct op *op); /* takes over the reference */
void events_drop_context(const struct context *context);

/* --- capture.c, graph.c
 * --------------------------------------------------------------------------------- */

CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode);
CUresult capture_begin_graph(CUstream handle, CUgraph graph, CUstreamCaptureMode mode);
CUresult capture_end(CUstream handle, CUgraph *out);
CUresult capture_is(CUstream handle, CUstreamCaptureStatus *status);
CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **nodes, size_t *count);
CUresult capture_exchange_mode(CUstreamCaptureMode *mode);
bool capture_prohibits(void);                            /* true: spoiled, answer 900 */
bool capture_prohibits_context(struct context *context); /* the same, any mode */
CUresult capture_check_stream(struct stream *stream);    /* may work be given to it? */
CUresult capture_check_idle(struct stream *stream);      /* may it be asked or waited for? */
void capture_join(struct stream *stream, struct event *event);
void capture_stream_gone(struct stream *stream);
CUresult graph_create(CUgraph *out, unsigned int flags);
CUresult graph_destroy(CUgraph handle);
CUresult graph_instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags);
CUresult graph_launch(CUgraphExec handle, CUstream stream);
CUresult graph_exec_destroy(CUgraphExec handle);
struct graph *graph_alive(CUgraph handle);
void graph_add(struct graph *graph, const struct work *work);
void graph_add_block(struct graph *graph, struct block *block);

/* --- work.c
 * --------------------------------------------------------------------------------------- */

uint32_t work_slot_take(void);
void work_slot_give(uint32_t slot);
CUresult work_submit(struct stream *stream, const struct work *work);
CUresult work_submit_op(struct stream *stream, const struct work *work, struct op **out);
struct op *work_join(struct context *context); /* an op after everything; the caller's reference */
void work_left(struct stream *stream);         /* the stream ends, its work goes on */
void work_pump(void);
bool op_done(struct op *op); /* finished at the host's time; then the host knows it */
void op_wait(struct op *op); /* releases the lock meanwhile */
void op_keep(struct op *op);
void op_release(struct op *op);
CUresult work_wait_context(struct context *context);
void work_wait_device(int device);
void work_after_fork(void);

/* --- card.c
 * --------------------------------------------------------------------------------------- */

CUresult card_take(struct device *device, size_t bytes, enum block_kind kind, struct block **out);
void card_give(struct block *block);
bool card_charge(struct device *device, uint64_t bytes);
uint64_t card_live(enum block_kind kind);  /* blocks of a kind that exist */
struct block *card_find(uint64_t address); /* by any address inside */
/* Whether an address is one that only device memory can have. */
bool card_reserved(uint64_t address);
char *card_view(struct block *block); /* host address of its first byte; NULL on failure */
struct block *block_new(enum block_kind kind, uint64_t address, size_t bytes);
/* The opened block of another process; NULL when it is not open here. */
struct block *block_list_ipc(int process, int device, uint64_t offset);
void block_list_add(struct block *block); /* off-card blocks: managed, host, mapped, IPC */
void block_list_remove(struct block *block);
bool block_list_maps(uint64_t address, size_t bytes); /* anything is mapped in the range */
void card_drop_context(const struct context *context);
void card_release_pending(struct context *context); /* cuMemFreeAsync of cuMemAlloc blocks */

/* --- memory.c, hostmem.c, vmm.c, mempool.c, pointer.c, transfer.c
 * ----------------------------------------- */

CUresult memory_alloc(CUdeviceptr *out, size_t bytes);
CUresult memory_alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                            unsigned int element_bytes);
CUresult memory_free(CUdeviceptr address);
CUresult memory_range_file(int *file, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                           unsigned long long flags);
CUresult memory_info(size_t *free_bytes, size_t *total_bytes);
CUresult memory_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
CUresult memory_alloc_old(unsigned int *out, unsigned int bytes);
CUresult memory_alloc_pitch_old(unsigned int *out, unsigned int *pitch, unsigned int width,
                                unsigned int height, unsigned int element_bytes);
CUresult memory_free_old(unsigned int address);
CUresult memory_info_old(unsigned int *free_bytes, unsigned int *total_bytes);
CUresult memory_range_old(unsigned int *base, unsigned int *bytes, unsigned int address);
CUresult array_create(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *descriptor);
CUresult array_create_3d(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
CUresult array_destroy(CUarray handle);
CUresult mipmap_create(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                       unsigned int levels);
CUresult mipmap_destroy(CUmipmappedArray handle);

CUresult hostmem_managed(CUdeviceptr *out, size_t bytes, unsigned int flags);
CUresult external_import(CUexternalMemory *out,
                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description);
CUresult external_map(CUdeviceptr *out, CUexternalMemory memory,
                      const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description);
CUresult external_destroy(CUexternalMemory memory);
uint64_t external_live(void);
CUresult hostmem_alloc(void **out, size_t bytes, unsigned int flags);
CUresult hostmem_free(void *address);
CUresult hostmem_register(void *address, size_t bytes, unsigned int flags);
CUresult hostmem_unregister(void *address);
CUresult hostmem_device_pointer(CUdeviceptr *out, void *address, unsigned int flags);
void hostmem_release(struct block *block);

void vmm_live(uint64_t *handles_out, uint64_t *reservations_out);
CUresult vmm_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                     unsigned long long flags);
CUresult vmm_unreserve(CUdeviceptr address, size_t bytes);
CUresult vmm_create(CUmemGenericAllocationHandle *out, size_t bytes,
                    const CUmemAllocationProp *properties, unsigned long long flags);
CUresult vmm_release(CUmemGenericAllocationHandle handle);
CUresult vmm_map(CUdeviceptr address, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult vmm_unmap(CUdeviceptr address, size_t bytes);
CUresult vmm_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                        size_t count);
CUresult vmm_retain(CUmemGenericAllocationHandle *out, void *address);
CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address);
CUresult vmm_granularity(size_t *bytes, const CUmemAllocationProp *properties,
                         CUmemAllocationGranularity_flags option);
char *vmm_view(struct vmm_handle *handle);

CUresult mempool_alloc(CUdeviceptr *out, size_t bytes, CUstream stream);
CUresult mempool_alloc_from(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult mempool_free(CUdeviceptr address, CUstream stream);
CUresult mempool_create(CUmemoryPool *out, const CUmemPoolProps *properties);
CUresult mempool_destroy(CUmemoryPool pool);
CUresult mempool_set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
CUresult mempool_get(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
CUresult mempool_trim(CUmemoryPool pool, size_t keep_bytes);
CUresult mempool_set_access(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count);
CUresult mempool_get_access(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location);
CUresult mempool_default(CUmemoryPool *out, CUdevice device);
CUresult mempool_current(CUmemoryPool *out, CUdevice device);
CUresult mempool_choose(CUdevice device, CUmemoryPool pool);
CUresult mempool_default_at(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type);
CUresult mempool_current_at(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type);
CUresult mempool_choose_at(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool);
void mempool_piece_free(struct block *piece); /* its work is done */
void mempools_settle(void); /* after a wait: give back what is above the threshold */

CUresult pointer_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address);
CUresult pointer_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                            CUdeviceptr address);
CUresult pointer_set(const void *value, CUpointer_attribute attribute, CUdeviceptr address);
CUresult ipc_get(CUipcMemHandle *handle, CUdeviceptr address);
CUresult ipc_open(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags);
CUresult ipc_close(CUdeviceptr address);

enum transfer_sides { TO_DEVICE = 1, FROM_DEVICE = 2 }; /* which addresses must be the card's */
CUresult transfer_copy(CUstream stream, unsigned int sides, CUdeviceptr destination,
                       CUdeviceptr source, size_t bytes);
CUresult transfer_copy_async(CUstream stream, unsigned int sides, CUdeviceptr destination,
                             CUdeviceptr source, size_t bytes);
CUresult transfer_set(CUstream stream, CUdeviceptr address, unsigned int value,
                      unsigned int value_bytes, size_t count);

/* --- oracle.c
 * ------------------------------------------------------------------------------------- */

/* An operation was submitted: compares it with earlier work on the same memory. */
void oracle_check(const struct op *op, size_t count, const struct vrsim_range *ranges);

/* The card takes memory back; blocks in it end. with_context: because its context ended. */
void oracle_memory_gone(uint64_t address, uint64_t bytes, bool with_context);
void oracle_context_gone(const struct context *context);

#endif
