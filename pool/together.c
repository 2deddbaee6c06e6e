/* together.c - the levels of several pools of one device, added up as they change.
 *
 * A pool tells what changed since it last told, so that nothing is counted twice whatever happened
 * in between. A pool that is alone pays one comparison.
 *
 * What it leaves out: figures that add up at any time (shim/devices.c adds those when asked).
 * Lock: the pool's; the sums are atomic.
 */
#include "pool_internal.h"

static void level_tell(uint64_t now, uint64_t *told, uint64_t *sum, uint64_t *peak)
{
    if (now == *told)
        return;
    uint64_t level = __atomic_add_fetch(sum, now - *told, __ATOMIC_RELAXED);
    uint64_t highest = __atomic_load_n(peak, __ATOMIC_RELAXED);
    while (now > *told && level > highest &&
           !__atomic_compare_exchange_n(peak, &highest, level, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    *told = now;
}

void together_tell(struct pool *pool)
{
    struct pool_together *together = pool->together;
#define TOGETHER(level)                                                                            \
    level_tell(pool->stats.level, &pool->told.level, &together->level, &together->peak_##level);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
}

void together_leave(struct pool *pool)
{
    struct pool_together *together = pool->together;
    if (together == NULL)
        return;
#define TOGETHER(level) level_tell(0, &pool->told.level, &together->level, &together->peak_##level);
    POOL_LEVELS(TOGETHER)
#undef TOGETHER
    pool->together = NULL;
}

void pool_join(struct pool *pool, struct pool_together *together)
{
    lock_take(&pool->lock);
    if (!pool->closed && pool->together == NULL) {
        pool->together = together;
        caches_decide(pool);
        together_tell(pool);
    }
    lock_give(&pool->lock);
}
