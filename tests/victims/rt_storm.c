/* Random calls of every kind against a list of the blocks alive: no two may overlap, all are
 * aligned, and every result is one the program can understand. usage: rt_storm [seed] */
#include "victim.h"
#include "victim_sim.h"

enum { BLOCKS = 60, STEPS = 1500 };
static struct {
    char *start;
    size_t bytes;
} block[BLOCKS];
static long overlaps, misaligned, seen[1000];
static cudaStream_t stream[3];

static cudaError_t note(cudaError_t result)
{
    seen[result >= 0 && result < 1000 ? result : 999]++;
    cudaGetLastError();
    return result;
}

static void block_check(int k)
{
    misaligned += (uintptr_t)block[k].start % 512 != 0;
    for (int i = 0; i < BLOCKS; i++)
        if (i != k && block[i].start != NULL)
            overlaps += block[k].start < block[i].start + block[i].bytes &&
                        block[i].start < block[k].start + block[k].bytes;
}

static void block_take(int k, unsigned how, unsigned size)
{
    void *start = NULL;
    size_t pitch = 0, bytes = 1 + size % (1u << (size % 23));
    cudaError_t result;
    if (how % 4 == 0)
        result = cudaMallocAsync(&start, bytes, stream[how % 3]);
    else if (how % 4 == 1 && bytes > 64) {
        result = cudaMallocPitch(&start, &pitch, bytes / 64, 64);
        bytes = pitch * 64;
    } else
        result = cudaMalloc(&start, bytes);
    if (note(result) != cudaSuccess)
        return;
    block[k].start = start;
    block[k].bytes = bytes;
    block_check(k);
    kernel_write(stream[how % 3], 2000, start, bytes);
}

static void block_free(int k, unsigned how)
{
    MUST(cudaStreamSynchronize(stream[0]));
    MUST(cudaStreamSynchronize(stream[1]));
    MUST(cudaStreamSynchronize(stream[2]));
    cudaError_t result =
        how % 3 == 0 ? cudaFreeAsync(block[k].start, stream[how % 2]) : cudaFree(block[k].start);
    if (note(result) == cudaSuccess)
        block[k].start = NULL;
}

int main(int argc, char **argv)
{
    uint64_t random = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    size_t free_bytes, total;
    for (int s = 0; s < 3; s++)
        MUST(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    for (int i = 0; i < STEPS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned how = (unsigned)(random >> 40), size = (unsigned)(random >> 16);
        int k = (int)(random >> 58) % BLOCKS;
        if (block[k].start != NULL)
            block_free(k, how);
        else
            block_take(k, how, size);
        if (how % 16 == 15)
            note(cudaMemGetInfo(&free_bytes, &total));
    }
    printf("overlaps %ld, misaligned %ld, hazards %d\n", overlaps, misaligned, hazards());
    for (int e = 0; e < 1000; e++)
        if (seen[e] > 0)
            printf("result %d: %ld times\n", e, seen[e]);
    return 0;
}
