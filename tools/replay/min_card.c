/* min_card.c - bisection over card sizes. See min_card.h.
 *
 * A card that holds less than what is live at the peak cannot do, so the search starts just below
 * it; the upper end doubles until a card completes. Steps are 2 MiB, as the driver's.
 *
 * What it leaves out: cards between the steps, and proof that every larger card completes as well.
 * Lock: none.
 */
#include "min_card.h"

uint64_t min_card_find(uint64_t least_bytes, min_card_completes *completes, void *arg)
{
    uint64_t least = least_bytes > 0 ? (least_bytes - 1) / MIN_CARD_STEP_BYTES + 1 : 1;
    uint64_t low = least - 1, high = least; /* low is too small, high may do */
    uint64_t most = MIN_CARD_MAX_BYTES / MIN_CARD_STEP_BYTES;
    if (least > most)
        return 0;
    for (uint64_t more = 1; !completes(arg, high * MIN_CARD_STEP_BYTES); more *= 2) {
        low = high;
        if (high == most)
            return 0;
        high = more < most - least ? least + more : most;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (completes(arg, middle * MIN_CARD_STEP_BYTES))
            high = middle;
        else
            low = middle;
    }
    return high * MIN_CARD_STEP_BYTES;
}

struct search {
    const struct trace *trace;
    struct run_settings settings;
};

static bool pool_completes(void *arg, uint64_t card_bytes)
{
    struct search *search = arg;
    struct run_result result;
    search->settings.card_bytes = card_bytes;
    return run_pool(search->trace, &search->settings, &result) && result.completed;
}

static bool driver_completes(void *arg, uint64_t card_bytes)
{
    const struct search *search = arg;
    struct run_result result;
    return run_driver(search->trace, card_bytes, &result) && result.completed;
}

uint64_t min_card_pool(const struct trace *trace, const struct run_settings *settings,
                       uint64_t live_bytes)
{
    struct search search = {.trace = trace, .settings = *settings};
    search.settings.passes = 1;
    search.settings.threads = false;
    return min_card_find(live_bytes, pool_completes, &search);
}

uint64_t min_card_driver(const struct trace *trace, uint64_t live_bytes)
{
    struct search search = {.trace = trace};
    return min_card_find(live_bytes, driver_completes, &search);
}
