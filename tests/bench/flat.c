/* flat.c - whether the cost depends on how much is live. See bench.h.
 *
 * Beside 1e3 to 1e6 live blocks, with holes between them (a quarter more is allocated first, and
 * that much freed at random):
 *   pair    a block is allocated and freed
 *   swap    a random one of the live blocks is freed and another allocated, so that their records
 *           are not in the processor's caches where there are many
 */
#include "bench.h"

#define LIVE_MOST ((uint64_t)1000000)
#define MIX_LEAST ((uint64_t)256)
#define MIX_MOST  (64 * KIB)

struct crowd {
    uint64_t live;
    uint64_t turn;
    uint64_t state;
    uint32_t sizes[SIZES];
    void **blocks;
};

static uint64_t size_next(struct crowd *crowd)
{
    return crowd->sizes[crowd->turn++ % SIZES];
}

static void pair_work(void *arg, uint64_t operations)
{
    struct crowd *crowd = arg;
    for (uint64_t i = 0; i < operations; i++)
        block_free(block_get(size_next(crowd)));
}

static void swap_work(void *arg, uint64_t operations)
{
    struct crowd *crowd = arg;
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t index = random_next(&crowd->state) % crowd->live;
        block_free(crowd->blocks[index]);
        crowd->blocks[index] = block_get(size_next(crowd));
    }
}

static void crowd_grow(struct crowd *crowd, uint64_t live)
{
    uint64_t most = live + live / 4;
    while (crowd->live < most)
        crowd->blocks[crowd->live++] = block_get(size_next(crowd));
    while (crowd->live > live) {
        uint64_t index = random_next(&crowd->state) % crowd->live;
        block_free(crowd->blocks[index]);
        crowd->blocks[index] = crowd->blocks[--crowd->live];
    }
}

static void crowd_end(struct crowd *crowd)
{
    while (crowd->live > 0)
        block_free(crowd->blocks[--crowd->live]);
}

static void crowd_rows(struct crowd *crowd, const char *what)
{
    static const char *const words[] = {"1e3", "1e4", "1e5", "1e6"};
    uint64_t live = 1000;
    for (int i = 0; i < 4; i++, live *= 10) {
        if (settings.lengthy != (live == LIVE_MOST))
            continue;
        crowd_grow(crowd, divided(live));
        row(measure(pair_work, crowd), "pair %s beside %s", what, words[i]);
        row(measure(swap_work, crowd), "swap %s among %s", what, words[i]);
    }
    crowd_end(crowd);
}

void flatness(void)
{
    struct crowd *crowd = memory_map(sizeof(*crowd));
    crowd->blocks = memory_map((LIVE_MOST + LIVE_MOST / 4) * sizeof(*crowd->blocks));
    crowd->state = 424243;
    sizes_draw(crowd->sizes, 4 * KIB, 4 * KIB);
    crowd_rows(crowd, "4 KiB");
    sizes_draw(crowd->sizes, MIX_LEAST, MIX_MOST);
    crowd_rows(crowd, "mix");
}
