/* card.h - a graphics card as the driver manages it, in numbers only: what fits, and what it costs.
 *
 * Rules and costs are those measured on an NVIDIA H200 with driver 580: blocks up to 1 MiB are cut
 * at 512-byte steps from 2 MiB pages, larger ones take multiples of 2 MiB; pages need not be
 * contiguous, so nothing fragments; costs depend on whether pages are mapped.
 *
 * What it leaves out: the GPU's clock. Lock: none.
 */
#ifndef VRAMALLOC_REPLAY_CARD_H
#define VRAMALLOC_REPLAY_CARD_H

#include <stdbool.h>
#include <stdint.h>

struct card;

/* capacity_bytes: UINT64_MAX for a card without bound. NULL: the host has no memory. */
struct card *card_create(uint64_t capacity_bytes);
void card_destroy(struct card *card);

/* cudaMalloc and cudaFree. card_allocate: false when the card is full. address is unique while live
 * and aligned as the driver aligns. Cost: O(1) amortised. */
bool card_allocate(struct card *card, uint64_t bytes, uint64_t *address_out);
void card_release(struct card *card, uint64_t address, uint64_t bytes);

/* What one cuMemAlloc or cuMemFree of so many bytes costs, in nanoseconds, where pages are mapped.
 */
double card_cost_ns(uint64_t bytes, bool is_free);

/* The capacity changes: others took memory of the card, or gave some back. */
void card_capacity_set(struct card *card, uint64_t capacity_bytes);

/* One call of a stream-ordered pair costs this instead: 5.5 to 7.2 us a pair, release threshold 0.
 */
#define CARD_ASYNC_CALL_NS 3150.0

uint64_t card_used_bytes(const struct card *card);
uint64_t card_peak_bytes(const struct card *card);
uint64_t card_calls(const struct card *card);
double card_time_ns(const struct card *card);

#endif
