/* min_card.h - the smallest card on which a whole trace completes. */
#ifndef VRAMALLOC_REPLAY_MIN_CARD_H
#define VRAMALLOC_REPLAY_MIN_CARD_H

#include "run.h"

#define MIN_CARD_STEP_BYTES ((uint64_t)2 << 20)
#define MIN_CARD_MAX_BYTES  ((uint64_t)1 << 52)

/* Whether something completes on a card of so many bytes, a multiple of MIN_CARD_STEP_BYTES. */
typedef bool min_card_completes(void *arg, uint64_t card_bytes);

/* The smallest card for which `completes` is true, in whole steps.
 * least_bytes: known to be needed; no smaller card is tried. Returns 0 where none up to
 * MIN_CARD_MAX_BYTES completes. If a larger card may fail where a smaller one completes, the answer
 * is one of the cards that complete while the next smaller one does not. Cost: a call for each
 * doubling of the answer and of the range. Thread safety: that of `completes`. */
uint64_t min_card_find(uint64_t least_bytes, min_card_completes *completes, void *arg);

/* For a trace in the pool, one pass and one host thread, and by the driver's rule.
 * live_bytes: the trace's live peak. */
uint64_t min_card_pool(const struct trace *trace, const struct run_settings *settings,
                       uint64_t live_bytes);
uint64_t min_card_driver(const struct trace *trace, uint64_t live_bytes);

#endif
