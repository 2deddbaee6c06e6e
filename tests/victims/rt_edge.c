/* Sequences that fit the card only if nothing is lost: cases 4, 6 and 10 and others of their kind.
 *
 * usage: rt_edge SEQUENCE      with a card of 8 GiB
 */
#include "victim.h"

static void *take(const char *what, size_t bytes)
{
    void *block = NULL;
    cudaError_t result = cudaMalloc(&block, bytes);
    printf("%s: %s\n", what, cudaGetErrorName(result));
    cudaGetLastError();
    return block;
}

static void give(void *block)
{
    MUST(cudaFree(block));
}

/* The small one must not eat the hole of the large one. */
static void small_in_large(size_t small, size_t large)
{
    void *first = take("small", small), *hole = take("large", large);
    give(hole);
    void *second = take("small", small);
    void *third = take("small", small);
    hole = take("large", large);
    give(first);
    give(second);
    give(third);
    give(hole);
}

/* A large segment comes back though blocks of megabytes were asked for meanwhile. */
static void pinned(size_t large)
{
    static const size_t between[] = {16500000, 11400000, 18200000, 3000000, 1200000, 70000};
    void *blocks[6];
    void *block = take("large", large);
    give(block);
    for (int i = 0; i < 6; i++)
        blocks[i] = take("between", between[i]);
    block = take("large", large);
    give(block);
    for (int i = 0; i < 6; i++)
        give(blocks[i]);
    give(take("large", large));
}

/* Half of the total, refused, granted. */
static void half(size_t total)
{
    void *first = take("half", total / 2 + MIB);
    take("second half", total / 2 + MIB);
    give(first);
    give(take("half", total / 2 + MIB));
    give(take("nine tenths", total / 10 * 9));
}

/* Blocks of one size, every other freed, and another size put there. */
static void changing(size_t total)
{
    void *blocks[64];
    static const size_t parts[] = {16, 8, 32, 11, 5, 23};
    for (int turn = 0; turn < 6; turn++) {
        size_t count = parts[turn], bytes = total / 100 * 95 / count / (2 * MIB) * (2 * MIB);
        for (size_t i = 0; i < count; i++)
            blocks[i] = take("part", bytes);
        for (size_t i = 0; i < count; i += 2)
            give(blocks[i]);
        void *half_part = take("half a part", bytes / 2 / (2 * MIB) * (2 * MIB));
        give(half_part);
        for (size_t i = 1; i < count; i += 2)
            give(blocks[i]);
    }
}

int main(int argc, char **argv)
{
    size_t room, total;
    MUST(cudaMemGetInfo(&room, &total));
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 4:
        small_in_large(GIB, 4 * GIB);
        small_in_large(100 * MIB, 7 * GIB);
        small_in_large(3 * MIB, 8 * GIB - 12 * MIB);
        break;
    case 6:
        pinned(7900 * MIB);
        pinned(8100 * MIB);
        break;
    case 10:
        half(total);
        break;
    default:
        changing(total);
    }
    return 0;
}
