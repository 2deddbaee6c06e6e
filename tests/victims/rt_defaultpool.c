/* A program that configures, measures and trims the default memory pool. (A block freed by cudaFree
 * stays counted as used in the driver's own figures, measured with driver 580; so none is here.)
 */
#include "victim.h"

static unsigned long long get(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
    uint64_t value = 0;
    MUST(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void show(const char *when, cudaMemPool_t pool)
{
    printf("%s: used %llu, at most %llu; reserved %llu, at most %llu\n", when,
           get(pool, cudaMemPoolAttrUsedMemCurrent), get(pool, cudaMemPoolAttrUsedMemHigh),
           get(pool, cudaMemPoolAttrReservedMemCurrent), get(pool, cudaMemPoolAttrReservedMemHigh));
}

static void round_trip(cudaMemPool_t pool)
{
    void *a, *b;
    show("at first", pool);
    SHOW(cudaMallocAsync(&a, 10000, 0));
    SHOW(cudaMallocAsync(&b, 3 * MIB + 5, 0));
    show("two blocks", pool);
    SHOW(cudaFreeAsync(a, 0));
    SHOW(cudaFreeAsync(b, 0));
    SHOW(cudaDeviceSynchronize());
    show("none", pool);
}

int main(void)
{
    cudaMemPool_t pool;
    uint64_t value = UINT64_MAX;
    MUST(cudaFree(0));
    SHOW(cudaDeviceGetDefaultMemPool(&pool, 0));
    round_trip(pool);
    SHOW(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    value = 0;
    SHOW(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
    printf("threshold kept: %d\n", value == UINT64_MAX);
    value = 0;
    SHOW(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
    show("one reset", pool);
    SHOW(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &value));
    round_trip(pool);
    SHOW(cudaMemPoolTrimTo(pool, 0));
    show("trimmed", pool);
    return 0;
}
