/* run.h - one replay of a trace: through a real pool, and by the driver's rule alone. */
#ifndef VRAMALLOC_REPLAY_RUN_H
#define VRAMALLOC_REPLAY_RUN_H

#include "../../pool/pool.h"
#include "trace.h"

/* How to replay. */
struct run_settings {
    bool vmm;
    bool deferred;        /* frees are kept back and fenced in batches; else they wait */
    bool threads;         /* one host thread for each of the trace's; else one for all */
    uint64_t lag_ns;      /* from a free to the end of the GPU's work on the block */
    uint64_t arena_bytes; /* as in struct pool_config */
    uint64_t limit_bytes;
    uint32_t slack_percent;
    uint64_t card_bytes; /* UINT64_MAX: no bound */
    unsigned passes;     /* what is live at the end of a pass is freed */
};

struct run_result {
    bool completed; /* else the first refusal ended it */
    uint64_t peak_live_bytes;
    uint64_t peak_backed_bytes; /* from the card, the driver's own blocks included */
    uint64_t driver_calls;
    double first_ns,
        later_ns; /* simulated time in the driver: the first pass, and the mean of later */
    double internal_fragmentation, external_fragmentation; /* at the live peak; 0 with threads */
    double seconds;                                        /* of the host */
    uint64_t events;
};

/* Through the pool. False: the host has no memory. */
bool run_pool(const struct trace *trace, const struct run_settings *settings,
              struct run_result *result);

/* By the driver's rule, on a card of so many bytes. */
bool run_driver(const struct trace *trace, uint64_t card_bytes, struct run_result *result);

/* By a plain buddy system, for comparison: blocks of a power of two bytes, 512 at least, at the
 * lowest place of one arena without bound. Only peaks, fragmentation and completed are set. */
bool run_plain_buddy(const struct trace *trace, struct run_result *result);

#endif
