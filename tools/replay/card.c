/* card.c - the driver's packing rule and costs. See card.h.
 *
 * Small blocks: first fit at 512-byte steps in 2 MiB pages. Of each page the longest free run is
 * known, or a bound of it; a tree of maxima over the pages finds the first that may have room.
 */
#include "card.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES      ((uint64_t)2 << 20)
#define STEP_BYTES      ((uint64_t)512)
#define SMALL_MAX_BYTES ((uint64_t)1 << 20)
#define MIB             ((double)(1 << 20))

enum { STEPS = 4096, WORDS = STEPS / 64 };

struct small_page {
    uint64_t used[WORDS];
    uint32_t used_steps;
    bool present;
};

struct card {
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint64_t peak_bytes;
    uint64_t next_address;
    uint64_t calls;
    double time_ns;
    struct small_page *pages; /* small pages; addresses from SMALL_BASE up */
    uint32_t page_count;
    uint32_t page_capacity; /* a power of two */
    uint32_t absent_from;   /* all pages before it are present */
    uint16_t *longest;      /* [page_capacity + i]: no free run of page i is longer; 0: the page is
                               absent. [i]: the higher of [2 i] and [2 i + 1] */
};

#define SMALL_BASE ((uint64_t)1 << 40) /* small blocks; above, addresses are never used twice */
#define LARGE_BASE ((uint64_t)1 << 44)

/* Microseconds by size, measured; between the points linear in the size. */
struct cost_point {
    double mib, alloc_us, free_us;
};
static const struct cost_point costs[] = {
    {0, 46, 38}, {8, 45, 43}, {64, 56, 88}, {512, 104, 315}, {4096, 497, 1982}};
enum { COST_POINTS = sizeof(costs) / sizeof(costs[0]) };
static const double small_alloc_ns = 1250, small_free_ns = 1250;

double card_cost_ns(uint64_t bytes, bool is_free)
{
    double mib = (double)bytes / MIB;
    int i = 1;
    while (i < COST_POINTS - 1 && mib > costs[i].mib)
        i++;
    const struct cost_point *low = &costs[i - 1], *high = &costs[i];
    double from = is_free ? low->free_us : low->alloc_us;
    double to = is_free ? high->free_us : high->alloc_us;
    return 1000.0 * (from + (to - from) * (mib - low->mib) / (high->mib - low->mib));
}

struct card *card_create(uint64_t capacity_bytes)
{
    struct card *card = calloc(1, sizeof(*card));
    if (card != NULL) {
        card->capacity_bytes = capacity_bytes;
        card->next_address = LARGE_BASE;
    }
    return card;
}

void card_destroy(struct card *card)
{
    free(card->pages);
    free(card->longest);
    free(card);
}

void card_capacity_set(struct card *card, uint64_t capacity_bytes)
{
    card->capacity_bytes = capacity_bytes;
}

static bool card_take(struct card *card, uint64_t bytes)
{
    if (bytes > card->capacity_bytes || card->used_bytes > card->capacity_bytes - bytes)
        return false; /* also where others have taken so much that more is used than there is */
    card->used_bytes += bytes;
    if (card->used_bytes > card->peak_bytes)
        card->peak_bytes = card->used_bytes;
    return true;
}

/* The first step from `from` on that is used, or free; STEPS if there is none. */
static uint32_t step_next(const struct small_page *page, uint32_t from, bool used)
{
    for (uint32_t word = from / 64; word < WORDS; word++) {
        uint64_t bits = used ? page->used[word] : ~page->used[word];
        if (word == from / 64)
            bits &= ~(uint64_t)0 << (from % 64);
        if (bits != 0)
            return word * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return STEPS;
}

/* The first step of the free ones that end before `end`. */
static uint32_t steps_free_before(const struct small_page *page, uint32_t end)
{
    for (uint32_t word = (end + 63) / 64; word-- > 0;) {
        uint64_t bits = page->used[word];
        if (end - word * 64 < 64)
            bits &= ((uint64_t)1 << (end - word * 64)) - 1;
        if (bits != 0)
            return word * 64 + 64 - (uint32_t)__builtin_clzll(bits);
    }
    return 0;
}

static void steps_mark(struct small_page *page, uint32_t first, uint32_t count, bool used)
{
    for (uint32_t step = first; step < first + count; step++) {
        uint64_t bit = (uint64_t)1 << (step % 64);
        page->used[step / 64] = used ? page->used[step / 64] | bit : page->used[step / 64] & ~bit;
    }
    page->used_steps = used ? page->used_steps + count : page->used_steps - count;
}

/* First fit. Returns STEPS when no run of `count` is free; then *longest_out is the longest. */
static uint32_t steps_find(const struct small_page *page, uint32_t count, uint32_t *longest_out)
{
    uint32_t longest = 0;
    for (uint32_t first = step_next(page, 0, false); first < STEPS;) {
        uint32_t end = step_next(page, first, true);
        if (end - first >= count)
            return first;
        longest = end - first > longest ? end - first : longest;
        first = step_next(page, end, false);
    }
    *longest_out = longest;
    return STEPS;
}

static void longest_set(struct card *card, uint32_t index, uint32_t steps)
{
    uint32_t i = card->page_capacity + index;
    card->longest[i] = (uint16_t)steps;
    while (i > 1) {
        i /= 2;
        uint16_t left = card->longest[2 * i], right = card->longest[2 * i + 1];
        uint16_t most = left > right ? left : right;
        if (card->longest[i] == most)
            return;
        card->longest[i] = most;
    }
}

/* The first page that may have a run of `count`; page_capacity: there is none. */
static uint32_t page_find(const struct card *card, uint32_t count)
{
    uint32_t i = 1;
    if (card->page_capacity == 0 || card->longest[1] < count)
        return card->page_capacity;
    while (i < card->page_capacity)
        i = card->longest[2 * i] >= count ? 2 * i : 2 * i + 1;
    return i - card->page_capacity;
}

static bool pages_grow(struct card *card)
{
    uint32_t old = card->page_capacity, capacity = old != 0 ? old * 2 : 64;
    uint16_t *before = card->longest;
    struct small_page *grown = realloc(card->pages, capacity * sizeof(*grown));
    if (grown != NULL)
        card->pages = grown;
    uint16_t *longest = calloc((size_t)capacity * 2, sizeof(*longest));
    if (grown == NULL || longest == NULL) {
        free(longest);
        return false;
    }
    card->longest = longest;
    card->page_capacity = capacity;
    for (uint32_t i = 0; i < old; i++)
        longest_set(card, i, before[old + i]);
    free(before);
    return true;
}

static bool small_page_add(struct card *card, uint32_t *index_out)
{
    uint32_t index = card->absent_from;
    while (index < card->page_count && card->pages[index].present)
        index++;
    card->absent_from = index;
    if (index == card->page_capacity && !pages_grow(card))
        return false;
    if (!card_take(card, PAGE_BYTES))
        return false;
    if (index == card->page_count)
        card->page_count++;
    memset(&card->pages[index], 0, sizeof(card->pages[index]));
    card->pages[index].present = true;
    longest_set(card, index, STEPS);
    *index_out = index;
    return true;
}

static bool small_allocate(struct card *card, uint64_t bytes, uint64_t *address_out)
{
    uint32_t count = (uint32_t)((bytes + STEP_BYTES - 1) / STEP_BYTES);
    uint32_t index, first = STEPS, longest = 0;
    while (first == STEPS && (index = page_find(card, count)) < card->page_capacity) {
        first = steps_find(&card->pages[index], count, &longest);
        if (first == STEPS)
            longest_set(card, index, longest);
    }
    if (first != STEPS) {
        card->time_ns += small_alloc_ns;
    } else {
        if (!small_page_add(card, &index))
            return false;
        first = 0;
        card->time_ns += card_cost_ns(bytes, false);
    }
    steps_mark(&card->pages[index], first, count, true);
    *address_out = SMALL_BASE + index * PAGE_BYTES + first * STEP_BYTES;
    return true;
}

static void small_release(struct card *card, uint64_t address, uint64_t bytes)
{
    uint32_t index = (uint32_t)((address - SMALL_BASE) / PAGE_BYTES);
    uint32_t first = (uint32_t)((address - SMALL_BASE) % PAGE_BYTES / STEP_BYTES);
    uint32_t count = (uint32_t)((bytes + STEP_BYTES - 1) / STEP_BYTES);
    struct small_page *page = &card->pages[index];
    steps_mark(page, first, count, false);
    if (page->used_steps == 0) {
        page->present = false;
        longest_set(card, index, 0);
        card->absent_from = index < card->absent_from ? index : card->absent_from;
        card->used_bytes -= PAGE_BYTES;
        card->time_ns += card_cost_ns(bytes, true);
        return;
    }
    uint32_t run = step_next(page, first, true) - steps_free_before(page, first);
    if (run > card->longest[card->page_capacity + index])
        longest_set(card, index, run);
    card->time_ns += small_free_ns;
}

static uint64_t large_bytes(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

bool card_allocate(struct card *card, uint64_t bytes, uint64_t *address_out)
{
    card->calls++;
    if (bytes <= SMALL_MAX_BYTES)
        return small_allocate(card, bytes, address_out);
    if (bytes > UINT64_MAX - PAGE_BYTES || !card_take(card, large_bytes(bytes)))
        return false;
    *address_out = card->next_address;
    card->next_address += large_bytes(bytes);
    card->time_ns += card_cost_ns(bytes, false);
    return true;
}

void card_release(struct card *card, uint64_t address, uint64_t bytes)
{
    card->calls++;
    if (address < LARGE_BASE) {
        small_release(card, address, bytes);
        return;
    }
    card->used_bytes -= large_bytes(bytes);
    card->time_ns += card_cost_ns(bytes, true);
}

uint64_t card_used_bytes(const struct card *card)
{
    return card->used_bytes;
}

uint64_t card_peak_bytes(const struct card *card)
{
    return card->peak_bytes;
}

uint64_t card_calls(const struct card *card)
{
    return card->calls;
}

double card_time_ns(const struct card *card)
{
    return card->time_ns;
}
