/* cudaMemGetInfo: NULL arguments; what is told to be free, with nothing held, with idle blocks and
 * beside live ones; and that all of it can be had. The simulated driver says what it has itself.
 * Card: 1 GiB.
 */
#include "victim.h"
#include "victim_sim.h"

enum { BLOCKS = 400 };

static void *block[BLOCKS];
static size_t block_bytes[BLOCKS];
static size_t live_bytes;

/* What the driver itself has free. */
static size_t driver_free(size_t total)
{
    uint64_t (*used)(CUdevice) = (uint64_t(*)(CUdevice))sim_function("vrsim_card_used");
    return used != NULL ? total - (size_t)used(0) : 0;
}

static void nulls(void)
{
    size_t free_bytes = 1, total = 2, free_alone = 3, total_alone = 4;
    SHOW(cudaMemGetInfo(&free_bytes, &total));
    SHOW(cudaMemGetInfo(NULL, &total_alone));
    SHOW(cudaMemGetInfo(&free_alone, NULL));
    SHOW(cudaMemGetInfo(NULL, NULL));
    printf("alone the same: %d %d\n", free_alone == free_bytes, total_alone == total);
}

/* What is told lies between what the driver has and what the program does not hold. */
static size_t told(const char *when)
{
    size_t free_bytes, total;
    nulls();
    MUST(cudaMemGetInfo(&free_bytes, &total));
    printf("%s: total %zu MiB, at least the driver's %d, at most what is not held %d\n", when,
           total / MIB, free_bytes >= driver_free(total), free_bytes <= total - live_bytes);
    printf("  four fifths of what is not held: %d\n", free_bytes >= (total - live_bytes) / 5 * 4);
    if (live_bytes == 0)
        printf("  everything: %d\n", free_bytes == total);
    return free_bytes;
}

static void take(int i, size_t bytes)
{
    MUST(cudaMalloc(&block[i], bytes));
    block_bytes[i] = bytes;
    live_bytes += bytes;
}

static void give(int i)
{
    if (block[i] == NULL)
        return;
    MUST(cudaFree(block[i]));
    block[i] = NULL;
    live_bytes -= block_bytes[i];
}

/* A real driver keeps some of what it tells for itself. */
static void have_in_one_piece(size_t bytes)
{
    void *all;
    if (sim_function("vrsim_card_used") == NULL)
        bytes = bytes / 10 * 9;
    SHOW(cudaMalloc(&all, bytes));
    SHOW(cudaFree(all));
}

/* As many pieces as were promised. */
static void have_in_pieces(size_t bytes, size_t piece_bytes)
{
    static void *piece[(1 << 30) / (16 << 10)];
    size_t most = sizeof(piece) / sizeof(piece[0]), had = 0;
    size_t count = bytes / piece_bytes < most ? bytes / piece_bytes : most;
    while (had < count && cudaMalloc(&piece[had], piece_bytes) == cudaSuccess)
        had++;
    printf("in pieces of %zu KiB: %d of it\n", piece_bytes / KIB, had == count);
    cudaGetLastError();
    for (size_t i = 0; i < had; i++)
        MUST(cudaFree(piece[i]));
}

int main(void)
{
    uint64_t random = 7;
    MUST(cudaFree(0));
    have_in_one_piece(told("nothing held"));
    take(0, 1000);
    give(0);
    told("a very small one idle");
    for (int i = 0; i < BLOCKS; i++)
        take(i, 1 + roll(&random, i % 8 == 0 ? 8 << 20 : 300000));
    told("all live");
    for (int i = 0; i < BLOCKS; i++)
        give(i);
    have_in_one_piece(told("all idle"));
    for (int i = 0; i < BLOCKS; i++)
        take(i, 1 + roll(&random, i % 8 == 0 ? 8 << 20 : 300000));
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 != 0)
            give(i);
    have_in_pieces(told("a third live"), 16 * KIB);
    have_in_pieces(told("a third live again"), 2 * MIB);
    have_in_one_piece(told("a third live at last") / 10 * 9);
    for (int i = 0; i < BLOCKS; i++)
        give(i);
    have_in_one_piece(told("all idle again"));
    return 0;
}
