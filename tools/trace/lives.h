/* lives.h - follows the blocks of a trace from their allocation to their free.
 *
 * Fed with the events in order, it says what each of them does to which block, with the block's
 * size also at its free. A block ends without a free of its own where its context ends, and where
 * its address is handed out again (memory of a graph is).
 *
 * What it leaves out: the pool's own memory. Lock: none. Host memory: 96 bytes a live block.
 */
#ifndef VRAMALLOC_TRACE_LIVES_H
#define VRAMALLOC_TRACE_LIVES_H

#include "reader.h"

struct life {
    uint64_t address; /* 0: none */
    uint64_t bytes;   /* as asked for */
    uint64_t stream;  /* as in struct trace_record */
    uint64_t begin_ns;
    uint64_t block;  /* from 0, one for each allocation */
    uint32_t device; /* the device's number */
    uint16_t context;
    uint16_t caller;
    bool served; /* by the pool, not the driver */
};

struct lives;

struct lives *lives_create(void); /* NULL: the host has no memory */
void lives_destroy(struct lives *lives);

/* What a block does at an event. event: whose time and thread it is. implied: there is no free of
 * its own. life: valid during the call. */
typedef void lives_change(void *arg, const struct reader_event *event, const struct life *life,
                          bool is_free, bool implied);

/* Calls `change` for each block that comes or goes at this event. False: the host has no memory. */
bool lives_feed(struct lives *lives, const struct reader_event *event, lives_change *change,
                void *arg);

/* Calls `change` with is_free false for each block that lives now, in no order; event is NULL. */
void lives_visit(const struct lives *lives, lives_change *change, void *arg);

/* The block at this address; NULL: none lives there. */
const struct life *lives_find(const struct lives *lives, uint64_t address);

/* The device of a context, as far as the events told; 0 where they did not. */
uint32_t lives_device(const struct lives *lives, uint16_t context);

uint64_t lives_count(const struct lives *lives);   /* of blocks that live now */
uint64_t lives_blocks(const struct lives *lives);  /* of all so far */
uint64_t lives_unknown(const struct lives *lives); /* frees of what was never allocated */

#endif
